"""Quality targets where all activations and weights are floats of 16 bits."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast.errors import ConfigError
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.pipeline.wide_bytes import wide_shares
from support.difference_model import PIXELS, difference_model


def _samples(count=120, seed=1, offset=1000):
    """Numbers that differ by a few from one to the next: of 1,000 and more bfloat16 has every eighth."""
    steps = np.random.default_rng(seed).integers(-3, 4, (count, PIXELS)).cumsum(axis=1)
    return (offset + 100 + steps).astype(np.float32)


def _quantized(preset="BF16", offset=1000, **options):
    return quarkfast.quantize(difference_model(), preset=preset, calibration_data=_samples(offset=offset), **options)


def _ratio(made, offset=1000):
    feed = {"x": _samples(40, 8, offset)}
    return sqnr(*(exact_session(each).run(None, feed)[0] for each in (difference_model(), made.model_bytes)))


@pytest.mark.parametrize(
    ("preset", "offset"),
    [("BF16", 1000), ("FP16", 50000), ("FP16", 100000)],  # the last are beyond what float16 has
)
def test_nodes_around_what_16_bits_cannot_carry_stay_float(preset, offset):
    least = 35.0
    assert not _ratio(_quantized(preset, offset), offset) > least - 6
    made = _quantized(preset, offset, min_sqnr=least)
    last = made.summary.levers[-1]
    assert last.lever.startswith("float for 2 nodes (")
    assert last.kept
    assert last.assured >= least
    assert _ratio(made, offset) > least
    assert made.model_bytes == _quantized(preset, offset, min_sqnr=least).model_bytes


def test_casts_in_place_of_pairs_have_the_same_levers():
    pairs, casts = (_quantized(min_sqnr=35.0, bf16_qdq_to_cast=given) for given in (False, True))
    assert {node.op_type for node in casts.proto.graph.node} == {"Cast", "MatMul", "Relu"}
    assert [each.lever for each in casts.summary.levers] == [each.lever for each in pairs.summary.levers]
    assert _ratio(casts) == _ratio(pairs)


@pytest.mark.parametrize("preset", ["BF16", "FP16"])
def test_weights_that_a_cast_decodes_count_once(preset):
    made = _quantized(preset)
    found = [wide_shares(made.model_bytes, made.summary.records, {"x": _samples(1)}, bits) for bits in (8, 16)]
    assert found == [(1.0, 1.0), (0.0, 0.0)]


def test_codes_by_outputs_come_first():
    made = _quantized("BF16", -100, min_sqnr=90.0)
    assert [each.lever for each in made.summary.levers[:2]] == ["as asked", "rounding=descent"]
    assert made.summary.levers[1].sqnr > made.summary.levers[0].sqnr


@pytest.mark.parametrize(("share", "float_nodes"), [(0.0, 0), (1.0, 1)])
def test_the_limit_is_of_what_stays_float(share, float_nodes):
    made = _quantized(min_sqnr=40.0, max_above_8_bits=share)
    assert [node.state for node in made.summary.records.nodes].count("float") >= float_nodes
    records = made.summary.records
    shares = wide_shares(made.model_bytes, records, {"x": _samples(1)}, 16)
    assert (shares.activations > 0) == (float_nodes > 0)
    assert shares.activations <= share
    if not share:
        assert made.summary.notes[-1].endswith("max_above_8_bits above 0 lets levers widen more of the bytes")


@pytest.mark.parametrize("preset", ["BF16_WO", "FP16_WO"])
def test_weights_that_are_cast_have_no_levers(preset):
    with pytest.raises(ConfigError, match=f"min_sqnr: expected a preset that levers change, got {preset}"):
        _quantized(preset, min_sqnr=20.0)
