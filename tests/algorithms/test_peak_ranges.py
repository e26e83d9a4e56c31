from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from support.tiny_models import tiny_model

RNG = np.random.default_rng(4)
CONSTANTS = {
    "w": RNG.normal(0, 2.1, (24, 8000)).astype(np.float32),
    "rows": np.int64([0, -1, 8000]),
    "k": np.int64([7990]),
}
LAYER = "g (float[N, 4, 24] x) => (y) { a = MatMul(x, w) "


def _features(rows):
    """Returns features that two of many classes answer to in each row, by logits of different height."""
    two = CONSTANTS["w"].T[RNG.integers(0, 8000, (rows, 4, 2))]
    found = np.sign(two.sum(axis=2)) * RNG.uniform(0.5, 1, (rows, 4, 1))
    return found.astype(np.float32)


SAMPLES, OTHERS = _features(24), _features(32)
ENDS = {
    "Softmax": "y = Softmax(a) }",
    "moved": "b = Identity(a) c = Reshape(b, rows) y = Softmax(c) }",
    "two readers": "b = Softmax(a) c = Softmax(a) y = Add(b, c) }",
}


def _quantize(text, **options):
    return quarkfast.quantize(tiny_model(text, CONSTANTS), calibration_data={"x": SAMPLES}, **options)


def _told(result):
    return [note for note in result.summary.notes if note.startswith("ranges hold more of")]


def _ratio(text, result):
    models = (tiny_model(text, CONSTANTS), result.model_bytes)
    return sqnr(*(exact_session(each).run(None, {"x": OTHERS})[0] for each in models))


@pytest.mark.parametrize("options", [{"preset": "XINT8"}, {"preset": "A8W8", "method": "minmse"}], ids=str)
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_what_a_softmax_picks_is_not_cut_off(end, options):
    found, strict = (_quantize(LAYER + end, weight_type="int8", strict=each, **options) for each in (False, True))
    assert _told(found) == ["ranges hold more of the largest values, by which a Softmax decides: 'a'"]
    assert not _told(strict)
    assert _ratio(LAYER + end, found) > _ratio(LAYER + end, strict) + 1


@pytest.mark.parametrize(
    ("end", "options"),
    [
        ("y = Relu(a) }", {}),
        ("b = Softmax(a) c = Relu(a) y = Add(b, c) }", {}),
        ("y = Softmax(a) }", {"method": "nonoverflow"}),
        ("y = Softmax(a) }", {"tensors": {"a": {"range": [-4.0, 4.0]}}}),
    ],
    ids=["Relu", "Relu too", "a method that cuts nothing off", "a range of the user's"],
)
def test_other_ranges_stay(end, options):
    assert not _told(_quantize(LAYER + end, preset="XINT8", **options))


@pytest.mark.parametrize("move", ["Reshape(a, s)", "Transpose <perm = [0, 1, 2]> (a)"])
def test_a_move_by_what_the_same_node_says_is_not_looked_at(move):
    """What a Loop gives may be cut to a length that the same Loop gives."""
    text = (
        f"g (float[N, 4, 24] x) => (y) {{ p = MatMul(x, w) a, i = TopK(p, k) s = Shape(i) b = {move} y = Softmax(b) }}"
    )
    assert bool(_told(_quantize(text, preset="XINT8"))) is ("Transpose" in move)
