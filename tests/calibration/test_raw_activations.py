"""Ranges of a calibrated model, each method against a slow telling on the activations themselves."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import quarkfast
from quarkfast import ort, qparams, reference
from quarkfast.config import TensorSpec
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.pipeline.prepare import prepare
from quarkfast.ranges.estimate import estimate_range
from support.percentile_telling import percentile_ends

MEAN = np.float32([0.485, 0.456, 0.406]).reshape(3, 1, 1)
STD = np.float32([0.229, 0.224, 0.225]).reshape(3, 1, 1)
BATCH = 8
# The slow tellings of searches take seconds a tensor: the image, behind a ReLU, a sum's input, and the logits.
FEW = ["input", "/layer1/layer1.0/Relu_output_0", "/layer2/layer2.1/bn2/BatchNormalization_output_0", "logits"]
SPECS = [TensorSpec("int8"), TensorSpec("uint8", symmetric=False), TensorSpec("int8", scale="power_of_two")]
each_spec = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.dtype}, {spec.scale}")


@pytest.fixture(scope="module")
def images(shared):
    with np.load(shared / "data" / "cifar10_calib.npz") as data:
        return ((data["x"][:24].astype(np.float32) / 255 - MEAN) / STD).astype(np.float32)


@pytest.fixture(scope="module")
def calibration(shared, images):
    model = shared / "models" / "resnet20_cifar10.onnx"
    return quarkfast.calibrate(model, images, batch_size=BATCH, threads=1, equalize=False)


@pytest.fixture(scope="module")
def activations(shared, images, calibration):
    """Every value of every observed tensor, by name: onnxruntime hands them out as outputs."""
    prepared = prepare(load_model(shared / "models" / "resnet20_cifar10.onnx"), 13)
    made = {value.name: value for node in prepared.graph for value in node.outputs}
    names = [value.name for value in prepared.graph.outputs]
    prepared.graph.outputs.extend(made[name] for name in calibration.tensors if name in made and name not in names)
    session = ort.inference_session(serialize(prepared), ort.session_options(threads=1))
    names = [output.name for output in session.get_outputs()]
    runs = [ort.run(session, {"input": images[i : i + BATCH]}) for i in range(0, len(images), BATCH)]
    joined = {name: np.concatenate([run[i].ravel() for run in runs]) for i, name in enumerate(names)}
    return joined | {"input": images.ravel()}


def _range(calibration, name, spec, **changed):
    return estimate_range(calibration.tensors[name], dataclasses.replace(spec, **changed), name)


def test_statistics_are_those_of_the_activations(calibration, activations):
    assert set(calibration.tensors) <= set(activations)
    for name, seen in calibration.tensors.items():
        values = activations[name].astype(np.float64)
        width = 2.0**seen.histogram.exponent
        bins = np.trunc(np.abs(values) / width).astype(np.int64)
        side = len(seen.histogram.counts) // 2
        index = np.where(values < 0, side - 1 - bins, side + bins)
        np.testing.assert_array_equal(np.bincount(index, minlength=2 * side), seen.histogram.counts, err_msg=name)
        assert seen.range.zero == np.count_nonzero(values == 0)


@each_spec
def test_minmax_is_exact(calibration, activations, spec):
    for name in calibration.tensors:
        expected = activations[name].min(), activations[name].max()
        assert _range(calibration, name, spec, method="minmax") == expected


@each_spec
@pytest.mark.parametrize("percent", [99.0, 99.99])
def test_a_percentile_is_within_one_bin(calibration, activations, spec, percent):
    for name, seen in calibration.tensors.items():
        values = activations[name].astype(np.float64)
        low, high = _range(calibration, name, spec, method="percentile", percentile=percent)
        expected = percentile_ends(values, percent, spec.symmetric)
        # The value of that rank and the place of the rank lie in the same bin, or at either edge of it.
        width = 2.0**seen.histogram.exponent
        assert abs(low - expected[0]) <= width
        assert abs(high - expected[1]) <= width


def _seen(calibration, name):
    h = calibration.tensors[name].histogram
    return h.counts, h.exponent, h.range.min, h.range.max, h.range.zero


@pytest.mark.parametrize("name", FEW)
def test_entropy_is_the_slow_telling_on_the_same_histogram(calibration, name):
    found = _range(calibration, name, TensorSpec("int8"), method="entropy")
    assert found == reference.entropy_range(_seen(calibration, name), 128)


@pytest.mark.parametrize("name", FEW)
@each_spec
def test_least_error_is_the_slow_telling_on_the_same_histogram(calibration, name, spec):
    codes = qparams.from_range(0, 0, spec.dtype, symmetric=spec.symmetric)
    arguments = (_seen(calibration, name), codes.qmin, codes.qmax, spec.symmetric)
    if spec.scale == "power_of_two":
        expected = reference.power_of_two_range(*arguments, 5)
    else:
        expected = reference.least_error_range(*arguments)
    assert _range(calibration, name, spec, method="minmse") == expected
