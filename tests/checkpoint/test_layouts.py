"""Layouts announce what they write, read back what they wrote, and pack as their owners do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from quarkfast.checkpoint.layouts import LAYOUTS, layout_of
from quarkfast.checkpoint.layouts.words import EVEN_FIRST, pack_words, unpack_words
from quarkfast.checkpoint.rounding import Rounding, quantize_weight
from quarkfast.checkpoint.safetensors_files import KINDS, kind_of
from quarkfast.checkpoint.schemes import PRESETS, scheme_of
from quarkfast.errors import ConfigError
from support.made_checkpoints import drawn_matrix, float_weight

PAIRS = [
    (layout, preset) for layout, row in LAYOUTS.items() for preset, scheme in PRESETS.items() if row.accepts(scheme)
]


def packed(rng, layout: str, preset: str, rows: int = 24, columns: int = 256):
    form, scheme = layout_of(layout, scheme_of(preset)), scheme_of(preset)
    weight = float_weight(drawn_matrix(rng, rows, columns))
    found = quantize_weight(weight, scheme, Rounding(KINDS[form.scale_kind("F32")], "minmax", form.as_quark))
    return form, found, form.pack("m", found)


@pytest.mark.parametrize("rows", [24, 21], ids=["whole words", "a part of a word"])
@pytest.mark.parametrize(("layout", "preset"), PAIRS)
def test_what_is_packed_is_what_was_announced_and_comes_back(rng, layout, preset, rows):
    form, weight, arrays = packed(rng, layout, preset, rows)
    announced = form.shapes("m", weight.codes.shape, weight.scheme, "F32")
    assert {name: (kind_of(array.dtype), array.shape) for name, array in arrays.items()} == {
        name: (each.kind, each.shape) for name, each in announced.items()
    }
    back = form.unpack(
        "m", {name: np.ascontiguousarray(each) for name, each in arrays.items()}, weight.codes.shape, weight.scheme
    )
    np.testing.assert_array_equal(back.codes.view(np.uint8), weight.codes.view(np.uint8))
    np.testing.assert_array_equal(back.rows(0, rows), weight.rows(0, rows))
    assert (back.zero_point is None) == (weight.zero_point is None)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("columns", [32, 33, 61, 96])
def test_words_are_a_little_endian_stream_of_bits(rng, bits, columns):
    codes = rng.integers(0, 1 << bits, (5, columns)).astype(np.uint8)
    words = pack_words(codes, bits)
    assert words.shape == (5, math.ceil(columns * bits / 32))
    for row, found in zip(codes, words.view(np.uint32), strict=True):
        stream = sum(int(code) << (bits * place) for place, code in enumerate(row))
        assert sum(int(word) << (32 * place) for place, word in enumerate(found)) == stream
    np.testing.assert_array_equal(unpack_words(words, bits, columns), codes)


def test_even_codes_come_first_in_the_order_of_awq_and_quark():
    codes = np.arange(16, dtype=np.uint8)[None]
    assert [hex(word) for word in pack_words(codes, 4, EVEN_FIRST).view(np.uint32)[0]] == ["0x75316420", "0xfdb9eca8"]
    assert [hex(word) for word in pack_words(codes, 4).view(np.uint32)[0]] == ["0x76543210", "0xfedcba98"]
    np.testing.assert_array_equal(unpack_words(pack_words(codes, 4, EVEN_FIRST), 4, 16, EVEN_FIRST), codes)


def test_gptq_stores_zero_points_less_one_and_groups_by_input(rng):
    _, weight, arrays = packed(rng, "gptq", "uint4_wo_64")
    qweight, qzeros = arrays["m.qweight"].view(np.uint32), arrays["m.qzeros"].view(np.uint32)
    for row, column in ((0, 0), (5, 77), (23, 255)):
        assert (qweight[column // 8, row] >> (4 * (column % 8))) & 15 == weight.codes[row, column]
        zero = (qzeros[column // 64, row // 8] >> (4 * (row % 8))) & 15
        assert (zero + 1) & 15 == weight.zero_point[row, column // 64]
    np.testing.assert_array_equal(arrays["m.g_idx"], np.arange(256) // 64)


def test_awq_packs_along_the_outputs(rng):
    _, weight, arrays = packed(rng, "awq", "uint4_wo_64")
    qweight = arrays["m.qweight"].view(np.uint32)
    for row, column in ((0, 0), (5, 77), (23, 255)):
        place = EVEN_FIRST.index(row % 8)
        assert (qweight[column, row // 8] >> (4 * place)) & 15 == weight.codes[row, column]


def test_wrong_names_and_pairs_are_told():
    with pytest.raises(ConfigError, match=r"format: expected one of .*, got 'gtpq'; did you mean 'gptq'"):
        layout_of("gtpq", scheme_of("int4_wo_64"))
    with pytest.raises(
        ConfigError, match=r"preset: expected one that awq has, of uint4_wo_32, uint4_wo_64, uint4_wo_128, got fp8"
    ):
        layout_of("awq", scheme_of("fp8"))
