"""What W and R of recurrent layers multiply, beside what the layers give for the steps in front of each."""

from __future__ import annotations

import numpy as np
import pytest

from quarkfast.graph.load import load_model
from quarkfast.reconstruction import linear_layers
from quarkfast.reconstruction.input_means import count_rows, rows_at
from quarkfast.reconstruction.stages import StagedModel
from support.tiny_models import run_exactly, tiny_model

STEPS, COUNT, INPUTS, UNITS = 5, 3, 4, 2
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
RESET = {"LSTM": "", "GRU": "linear_before_reset = 1, ", "RNN": ""}
BOTH = {"forward": 1, "reverse": 1, "bidirectional": 2}


def _model(kind, direction, *, more="", settings="", outputs="y, h"):
    """A recurrent layer behind a Relu; `more` are the lengths of sequences and the first state."""
    both, read = BOTH[direction], f"x2, w, r, {more or ','}"
    inputs = "float[T, N, 4] x, int32[N] lengths, float[D, N, 2] first" if more else "float[T, N, 4] x"
    rng, gates = np.random.default_rng(6), GATES[kind] * UNITS
    arrays = {
        "w": rng.normal(size=(both, gates, INPUTS)).astype(np.float32),
        "r": rng.normal(size=(both, gates, UNITS)).astype(np.float32),
    }
    named = "" if outputs.startswith("y") else "p = Neg (h)"
    text = f"""g ({inputs}) => (float[D, N, 2] {"p" if named else "h"}) {{
        x2 = Relu (x)
        {outputs} = {kind} <hidden_size = 2, {settings}{RESET[kind]}direction = "{direction}"> ({read})
        {named}
    }}"""
    return tiny_model(text, arrays)


def _feed(direction, rng, lengths=None):
    first = rng.normal(size=(BOTH[direction], COUNT, UNITS)).astype(np.float32)
    x = rng.normal(size=(STEPS, COUNT, INPUTS)).astype(np.float32)
    return {"x": x} if lengths is None else {"x": x, "lengths": np.int32(lengths), "first": first}


def _state_before(proto, feed, step, row, direction):
    """The last state of the layer on what lies in front of a step of one sequence, or of what is given at the begin."""
    length = int(feed["lengths"][row]) if "lengths" in feed else STEPS
    found = []
    for place, backward in enumerate([False, True] if direction == "bidirectional" else [direction == "reverse"]):
        x = feed["x"][step + 1 : length, row : row + 1] if backward else feed["x"][:step, row : row + 1]
        given = {"x": x}
        if "first" in feed:
            given |= {"first": feed["first"][:, row : row + 1], "lengths": np.int32([len(x)])}
        begin = feed["first"][place, row] if "first" in feed else np.zeros(UNITS)
        found.append(run_exactly(proto, given)[0][place, 0] if len(x) else begin)
    return found if step < length else np.zeros((len(found), UNITS))


@pytest.mark.parametrize("kind", list(GATES))
@pytest.mark.parametrize("direction", list(BOTH))
@pytest.mark.parametrize("lengths", [None, [5, 3, 1]], ids=["whole", "padded"])
def test_r_multiplies_the_state_that_the_steps_in_front_leave(kind, direction, lengths, rng):
    proto = _model(kind, direction, more="" if lengths is None else ", lengths, first")
    feeds = [_feed(direction, rng, lengths) for _ in range(2)]
    w, r = linear_layers(load_model(proto), recurrent=True)
    with StagedModel(proto, [w, r], feeds, 1 << 20) as model:
        model.run(0)
        for sample, feed in enumerate(feeds):
            x, states = model.input_of(w, sample), model.input_of(r, sample)
            inside = np.arange(STEPS)[:, None] < (feed["lengths"] if lengths else [STEPS] * COUNT)
            np.testing.assert_array_equal(x, np.maximum(feed["x"], 0) * inside[..., None])
            expected = [[_state_before(proto, feed, t, n, direction) for n in range(COUNT)] for t in range(STEPS)]
            # States are at most one but for the first; each step sums 6 products of numbers below 5, in another order.
            np.testing.assert_allclose(states, expected, atol=STEPS * 6 * 25 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("budget", [0, 1 << 20])
def test_states_are_those_of_the_weights_that_the_model_has(budget, rng):
    """W is final when R is asked for."""
    proto, feeds = _model("LSTM", "forward"), [_feed("forward", rng)]
    w, r = linear_layers(load_model(proto), recurrent=True)
    with StagedModel(proto, [w, r], feeds, budget) as model:
        model.run(0)
        (tensor,) = (each for each in proto.graph.initializer if each.name == "w")
        tensor.raw_data = np.zeros(w.shape, np.float32).tobytes()
        assert not model.input_of(r, 0).any()  # gates of nothing let nothing through
        assert model.input_of(w, 0).any()


def test_rows_of_both_directions(rng):
    proto, feeds = _model("LSTM", "bidirectional"), [_feed("bidirectional", rng)]
    w, r = linear_layers(load_model(proto), recurrent=True)
    with StagedModel(proto, [w, r], feeds, 1 << 20) as model:
        model.run(0)
        x, states = model.input_of(w, 0), model.input_of(r, 0)
    assert (count_rows(w, x), count_rows(r, states)) == (STEPS * COUNT, STEPS * COUNT)
    (of_input,), (of_state,) = rows_at(w, [x], np.array([4])), rows_at(r, [states], np.array([4]))
    np.testing.assert_array_equal(of_input, np.broadcast_to(x[1, 1], (2, 1, INPUTS)))
    np.testing.assert_array_equal(of_state, states[1, 1][:, None])


def test_states_that_nothing_reads_are_there(rng):
    """Of most encoders the last state is read alone, and Y has no name."""
    layers = list(linear_layers(load_model(_model("GRU", "forward")), recurrent=True))
    found = []
    for outputs in ("y, h", ", h"):
        proto = _model("GRU", "forward", outputs=outputs)
        with StagedModel(proto, layers, [_feed("forward", np.random.default_rng(1))], 1 << 20) as model:
            model.run(0)
            found.append(model.input_of(layers[1], 0))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("kind", "settings", "weights"),
    [
        ("LSTM", "", ["w", "r"]),
        ("GRU", "", ["w", "r"]),
        ("GRU", "linear_before_reset = 0, ", ["w"]),  # multiplies the state times a gate
        ("LSTM", "layout = 1, ", []),  # which ONNX Runtime does not run
    ],
)
def test_weights_that_multiply_something_else_are_no_layers(kind, settings, weights, monkeypatch):
    if settings:
        monkeypatch.setitem(RESET, kind, "")
    model = load_model(_model(kind, "forward", settings=settings))
    assert [layer.weight for layer in linear_layers(model, recurrent=True)] == weights
    assert not list(linear_layers(model))


def test_weights_of_two_layers_are_no_layers():
    text = """g (float[T, N, 2] x) => (float[1, N, 2] h, float[1, N, 2] k) {
        y, h = RNN <hidden_size = 2> (x, w, r)
        z, k = RNN <hidden_size = 2> (x, w, s)
    }"""
    arrays = {name: np.ones((1, 2, 2), np.float32) for name in "wrs"}
    model = load_model(tiny_model(text, arrays))
    assert [layer.weight for layer in linear_layers(model, recurrent=True)] == ["r", "s"]
