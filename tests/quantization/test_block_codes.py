from __future__ import annotations

import numpy as np
import pytest

from quarkfast.formats.block import BLOCK_FORMATS
from quarkfast.quantization.block_codes import pack, rounded, unclipped


@pytest.mark.parametrize("row", BLOCK_FORMATS.values(), ids=BLOCK_FORMATS)
def test_packed_weights_take_the_bits_that_the_format_promises(row, rng):
    values = rng.standard_normal((6, 4 * row.block_size)).astype(np.float32)
    records = pack(values, row, 1, "half_even")
    assert records is not None
    assert 8 * records.nbytes == row.bits * values.size
    assert records.shape == (6, 4, row.record_bytes)


@pytest.mark.parametrize("row", BLOCK_FORMATS.values(), ids=BLOCK_FORMATS)
def test_what_is_rounded_already_stays_as_it_is(row, rng):
    once = rounded(rng.standard_normal((3, 70)).astype(np.float32), row, 1, "half_even")
    assert rounded(once, row, 1, "half_even").tobytes() == once.tobytes()


def test_a_single_value_is_neither_rounded_nor_packed():
    one = np.float32([1.23456])
    assert rounded(one, BLOCK_FORMATS["mx4"], 0, "half_even") is one
    assert pack(one, BLOCK_FORMATS["mx4"], 0, "half_even") is None


def test_blocks_of_one_value_are_not_packed(rng):
    assert pack(rng.standard_normal((8, 1, 3, 3)).astype(np.float32), BLOCK_FORMATS["mx9"], 1, "half_even") is None


def test_values_that_records_cannot_hold_are_not_packed():
    tiny = np.full((1, 32), 2.0**-130, np.float32)
    assert pack(tiny, BLOCK_FORMATS["mxfp4_e2m1"], 1, "half_even") is None
    assert rounded(tiny, BLOCK_FORMATS["mxfp4_e2m1"], 1, "half_even").tolist() == tiny.tolist()


@pytest.mark.parametrize("name", sorted(BLOCK_FORMATS))
@pytest.mark.parametrize("axis", [0, 1])
def test_raised_constants_are_never_further_from_the_weights_and_often_nearer(name, axis):
    row = BLOCK_FORMATS[name]
    weights = np.random.default_rng(9).standard_normal((70, 65)).astype(np.float32)
    before, after = (
        _errors(rounded(each, row, axis, "half_even"), weights, axis, row.block_size)
        for each in (weights, unclipped(weights, row, axis, "half_even"))
    )
    assert (after <= before).all()
    assert ((after < before).mean() > 0.01) == (name not in {"bfp16", "mx9", "mxint8"})  # these reach 2^(k+1) nearly


@pytest.mark.parametrize("shape", [(70, 65), (7, 3, 40), (300,)])
@pytest.mark.parametrize("axis", [0, -1])
def test_constants_are_raised_part_by_part_as_they_are_at_once(shape, axis, rng, monkeypatch):
    row, weights = BLOCK_FORMATS["mxfp4_e2m1"], rng.standard_normal(shape).astype(np.float32)
    whole = unclipped(weights, row, axis, "half_even")
    monkeypatch.setattr("quarkfast.quantization.block_codes.PIECE_BYTES", 500)
    parts = unclipped(weights, row, axis, "half_even")
    assert parts.flags.c_contiguous
    assert parts.tobytes() == whole.tobytes()


def test_constants_without_a_value_to_raise_are_the_weights_themselves():
    weights = np.float32([[1.5, 1.0, np.inf, 0.0], [0.0, 0.0, 0.0, 0.0]])
    assert unclipped(weights, BLOCK_FORMATS["mxfp8_e4m3"], 1, "half_even") is weights


def _errors(found, wanted, axis, size):
    squared = np.moveaxis((found.astype(np.float64) - wanted) ** 2, axis, -1)
    return np.add.reduceat(squared, np.arange(0, squared.shape[-1], size), axis=-1)
