"""One result on a real model, however samples are ordered, batched or shared out.

Where onnxruntime itself computes other bits for another batch size or number of threads, the statistics have to differ.
So each tensor is held to this: where onnxruntime gives the same values, the statistics are equal, every number of them.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.prepare import prepare

SAMPLES = 40
BATCH = 8
MEAN = np.float32([0.485, 0.456, 0.406]).reshape(3, 1, 1)
STD = np.float32([0.229, 0.224, 0.225]).reshape(3, 1, 1)


@pytest.fixture(scope="module")
def model(shared):
    return shared / "models" / "resnet20_cifar10.onnx"


@pytest.fixture(scope="module")
def images(shared):
    with np.load(shared / "data" / "cifar10_calib.npz") as data:
        return ((data["x"][:SAMPLES].astype(np.float32) / 255 - MEAN) / STD).astype(np.float32)


@pytest.fixture(scope="module")
def expected(model, images):
    return quarkfast.calibrate(model, images, batch_size=BATCH, threads=1, moments=True)


def _shuffled(images):
    return images[np.random.default_rng(0).permutation(len(images))]


def _values(model, tensors, images, batch_size, threads):
    """Returns the sorted bits of each tensor over all samples, as plain onnxruntime computes them."""
    prepared = prepare(load_model(model), 13)
    found = {value.name: value for node in prepared.graph for value in node.outputs}
    inner = [name for name in tensors if name in found]
    given = {value.name for value in prepared.graph.outputs}
    prepared.graph.outputs.extend(found[name] for name in inner if name not in given)
    session = ort.inference_session(serialize(prepared), ort.session_options(threads=threads))
    names = [each.name for each in session.get_outputs()]
    runs = [ort.run(session, {"input": images[i : i + batch_size]}) for i in range(0, len(images), batch_size)]
    outputs = {name: [run[index] for run in runs] for index, name in enumerate(names)}
    outputs["input"] = [images]
    return {name: np.sort(np.concatenate([each.ravel() for each in outputs[name]]).view(np.uint32)) for name in tensors}


def _same(one, other):
    """Whether all is equal but the extremes of single runs, which depend on what a run is."""
    return (
        (one.range, one.sums) == (other.range, other.sums)
        and one.histogram.exponent == other.histogram.exponent
        and one.histogram.counts.tobytes() == other.histogram.counts.tobytes()
    )


@pytest.mark.parametrize(
    ("batch_size", "threads", "order"),
    [
        pytest.param(1, 1, "kept", id="batch 1"),
        pytest.param(7, 1, "kept", id="batch 7"),
        pytest.param(32, 1, "kept", id="batch 32"),
        pytest.param(BATCH, 1, "shuffled", id="shuffled"),
        pytest.param(BATCH, 2, "kept", id="2 threads"),
    ],
)
def test_equal_activations_give_equal_bytes(model, images, expected, batch_size, threads, order):
    x = _shuffled(images) if order == "shuffled" else images
    got = quarkfast.calibrate(model, x, batch_size=batch_size, threads=threads, moments=True)
    differing = [name for name in expected.tensors if not _same(expected.tensors[name], got.tensors[name])]
    if differing:
        theirs = _values(model, differing, images, BATCH, 1)
        changed = _values(model, differing, x, batch_size, threads)
        assert not [name for name in differing if np.array_equal(theirs[name], changed[name])]


def test_two_halves_merged_are_the_whole(model, images, expected):
    halves = [
        quarkfast.calibrate(model, part, batch_size=BATCH, threads=1, moments=True)
        for part in (images[: 2 * BATCH], images[2 * BATCH :])
    ]
    assert quarkfast.merge_calibrations(halves[::-1]) == expected


def test_two_processes_give_the_whole(model, images, expected):
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        got = quarkfast.calibrate(model, images, batch_size=BATCH, threads=1, moments=True, executor=executor)
    assert got == expected


def test_a_dask_cluster_of_two_workers_gives_the_whole(model, images, expected):
    distributed = pytest.importorskip("distributed", reason="no Dask: the extra `dask` is not installed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
    )
    with cluster, distributed.Client(cluster) as client:
        got = quarkfast.calibrate(
            model, images, batch_size=BATCH, threads=1, moments=True, executor=client.get_executor()
        )
    assert got == expected


def test_a_saved_calibration_has_the_same_bytes_whatever_ran_it(model, images, expected, tmp_path):
    again = quarkfast.calibrate(model, images, batch_size=BATCH, threads=1, moments=True)
    for name, calibration in (("a", expected), ("b", again)):
        (tmp_path / name).mkdir()
        calibration.save(tmp_path / name / "c.json")
    for file in ("c.json", "c.npz"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
