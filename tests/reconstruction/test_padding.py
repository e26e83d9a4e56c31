"""Rows of padding say nothing of a layer's input."""

import numpy as np
import pytest

import quarkfast
from quarkfast.graph.load import load_model
from quarkfast.reconstruction import linear_layers
from quarkfast.reconstruction.input_means import places_of
from quarkfast.reconstruction.reconstruct import reconstruct
from quarkfast.reconstruction.walk import Models
from support.tiny_models import tiny_model

TEXT = """g (float[N, 4, 3] x, int64[N, 4] attention_mask) => (float[N, 4, 2] y) {
    f = Cast <to = 1> (attention_mask) m = Unsqueeze (f, last) z = MatMul (x, w) y = Mul (z, m)
}"""
MASKS = np.array([[[1, 1, 0, 0]], [[0, 1, 1, 1]]])


def _text_model(rng):
    return tiny_model(TEXT, {"w": rng.normal(size=(3, 2)).astype(np.float32), "last": np.array([2])})


@pytest.mark.parametrize("both", [False, True])
def test_gram_matrices_are_those_of_tokens_alone(both, rng):
    proto, seen = _text_model(rng), []
    feeds = [{"x": rng.normal(size=(1, 4, 3)).astype(np.float32), "attention_mask": mask} for mask in MASKS]
    padded = [{**feed, "x": np.where(feed["attention_mask"][..., None], feed["x"], 1e-3)} for feed in feeds]
    for given in (feeds, padded):
        layers = list(linear_layers(load_model(proto)))
        reconstruct(Models(proto, proto), layers, given, lambda each: seen.append(each.take()) or {}, both=both)
    tokens = np.concatenate([feed["x"][feed["attention_mask"] == 1] for feed in feeds]).astype(np.float64)
    assert [each.count for each in seen] == [5, 5]
    # Inputs are rounded to 15 bits: each by at most half a step, 2^-15 of the power of two above the largest.
    near = 2 * np.abs(tokens).max() ** 2 * 2.0**-14
    np.testing.assert_allclose(seen[0].gram[0], tokens.T @ tokens / 5, atol=near)
    np.testing.assert_array_equal(seen[0].gram, seen[1].gram)


@pytest.mark.parametrize(
    ("mask", "places"),
    [
        ([[1, 0, 1, 1]], [0, 2, 3]),
        ([[0, 0, 0, 0]], []),
        ([[1, 2, 0, 1]], [0, 1, 2, 3]),  # no mask of zeros and ones
        ([[1, 0, 1]], [0, 1, 2, 3]),  # of another length
        ([1, 0, 1, 1], [0, 1, 2, 3]),
    ],
)
def test_a_mask_counts_where_it_has_a_number_for_each_row(mask, places, rng):
    (layer,) = linear_layers(load_model(_text_model(rng)))
    found = places_of(layer, np.zeros((1, 4, 3), np.float32), {"attention_mask": np.array(mask)}, 9)
    assert found.tolist() == places


def test_samples_of_padding_alone_change_no_code(rng):
    proto = _text_model(rng)
    feeds = [{"x": rng.normal(size=(1, 4, 3)).astype(np.float32), "attention_mask": 0 * MASKS[0]} for _ in range(6)]
    nearest, rounded = (
        quarkfast.quantize(proto, preset="A8W8", calibration_data=feeds, rounding=rounding, search_ranges=False)
        for rounding in ("nearest", "descent")
    )
    assert rounded.proto.graph == nearest.proto.graph
