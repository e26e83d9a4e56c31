"""Models for CPUs compute the same in a default session whether or not the processor has VNNI."""

from __future__ import annotations

import pytest

import quarkfast
from quarkfast import ort
from quarkfast.demo.data import MODEL, load_images
from quarkfast.evaluate import sqnr

# What a default session may lose of exact sums. Its integer kernels round sums to codes where floats are rounded
# without them, which moves a code by one here and there: 0.2 dB at most on the demo's model, where sums that saturate
# cost 3 to 22 dB.
MOST_DECIBELS = 0.5


@pytest.fixture(scope="module")
def truth():
    return _logits(MODEL)


def _logits(model, optimize=True):
    session = ort.inference_session(model, ort.session_options(optimize=optimize))
    return ort.run(session, {"image": load_images().test})[0]


@pytest.mark.parametrize(
    ("preset", "options", "samples"),
    [
        ("U8S8", {}, True),
        ("U8S8", {"per_channel": True}, True),
        ("U8S8", {"activation_type": "int8"}, True),
        ("DYNAMIC", {}, True),
        ("DYNAMIC", {}, False),
        ("DYNAMIC", {"per_channel": False}, False),
    ],
    ids=str,
)
def test_a_default_session_loses_nothing_on_other_images(preset, options, samples, truth):
    data = load_images().calibration if samples else None
    result = quarkfast.quantize(MODEL, preset=preset, calibration_data=data, **options)
    assert result.summary.reductions
    default = sqnr(truth, _logits(result.model_bytes))
    # MatMulInteger is an integer kernel with and without optimizations; where it saturates, both do.
    reference = _logits(result.model_bytes, optimize=False) if preset == "U8S8" else None
    exact = sqnr(truth, reference) if reference is not None else default
    assert abs(default - exact) < MOST_DECIBELS
    assert default > 28


def test_what_gave_way_costs_little():
    images = load_images()
    truth = _logits(MODEL)
    found = {}
    for portable in (False, True):
        result = quarkfast.quantize(MODEL, preset="U8S8", calibration_data=images.calibration, portable=portable)
        found[portable] = sqnr(truth, _logits(result.model_bytes, optimize=False))
    assert found[True] > found[False] - 1.5  # a whole bit less everywhere costs 2.8 dB
