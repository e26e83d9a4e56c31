"""ExtendedLSTM against Quark's recorded answers and its own laws."""

from typing import Any

import numpy as np
import pytest

from golden.vectors import Case, bits, cases
from quarkfast.errors import ModelError

from .models import Array, one_node, run, session

OP = "ExtendedLSTM"
NODE = f"com.amd.quark.{OP} 'node': "
SCALES: dict[str, Any] = {
    **{f"{name}_scale": 1 / 32767 for name in "xwrby"},
    **{f"{name}_zero_point": 32768 for name in "xwrby"},
}


def weights(rng: np.random.Generator, inputs: int, hidden: int) -> list[Array]:
    shapes = [(2, 4 * hidden, inputs), (2, 4 * hidden, hidden), (2, 8 * hidden)]
    return [rng.uniform(-0.5, 0.5, shape).astype(np.float32) for shape in shapes]


def sigmoid(v: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-v)))


def textbook(x: Array, w: Array, r: Array, b: Array, hidden: int) -> Array:
    """The float LSTM of ONNX, gates in the order input, output, forget, cell."""
    steps, batch, _ = x.shape
    y = np.zeros((steps, 2, batch, hidden))
    for direction in (0, 1):
        h = c = np.zeros((batch, hidden))
        for step in range(steps) if direction == 0 else reversed(range(steps)):
            gates = x[step] @ w[direction].T + h @ r[direction].T + b[direction].reshape(2, -1).sum(0)
            i, o, f, g = np.split(gates, 4, axis=1)
            c = sigmoid(i) * np.tanh(g) + sigmoid(f) * c
            h = sigmoid(o) * np.tanh(c)
            y[step, direction] = h
    return y


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in cases("lstm")])
@pytest.mark.parametrize("constants", [(), (1, 2, 3)], ids=["weights computed", "weights constant"])
def test_the_bits_are_those_of_quark(case: Case, constants: tuple[int, ...], isa: str) -> None:
    for operator, domain in ((OP, "com.amd.quark"), ("VitisLSTM", "com.vai.quantize")):
        y = run(operator, *case.inputs, domain=domain, constants=constants, **case.attributes)
        assert (bits(y) == bits(case.output)).all()


def test_every_sequence_of_a_batch_is_a_sequence_of_its_own(rng: np.random.Generator) -> None:
    """Quark reads a batch as if it were one sequence."""
    x = rng.uniform(-1, 1, (6, 3, 5)).astype(np.float32)
    w = weights(rng, 5, 4)
    together = run(OP, x, *w, hidden_size=4, threads=3, **SCALES)
    alone = [run(OP, x[:, i : i + 1], *w, hidden_size=4, threads=1, **SCALES) for i in range(3)]
    assert together.tobytes() == np.concatenate(alone, axis=2).tobytes()


def test_the_result_is_close_to_the_textbook(rng: np.random.Generator) -> None:
    x = rng.uniform(-1, 1, (10, 2, 16)).astype(np.float32)
    w = weights(rng, 16, 8)
    # Codes of 1/32767 in 24 products per gate, 10 steps deep: 240 half steps, doubled for the gates.
    tolerance = 240 / 32767
    y = run(OP, x, *w, hidden_size=8, **SCALES)
    assert np.abs(y - textbook(x, *w, hidden=8)).max() < tolerance


@pytest.mark.parametrize("scale", [2.0**-15, 2.0**-14, 0.75 * 2.0**-14], ids=["2^-15", "2^-14", "1.5*2^-15"])
def test_scales_that_are_powers_of_two_lose_nothing(rng: np.random.Generator, scale: float) -> None:
    """Quark's factor for such products overflows 16 bits and changes its sign."""
    x = rng.uniform(-1, 1, (4, 1, 6)).astype(np.float32)
    w = weights(rng, 6, 3)
    scales = SCALES | {f"{name}_scale": scale for name in "xwrby"}
    assert np.abs(run(OP, x, *w, hidden_size=3, **scales) - textbook(x, *w, hidden=3)).max() < 240 / 32767


def test_outputs_saturate_where_quark_wraps_around(rng: np.random.Generator) -> None:
    x = np.full((8, 1, 4), 0.9, np.float32)
    w = [np.full(part.shape, 0.9, np.float32) for part in weights(rng, 4, 4)]
    y = run(OP, x, *w, hidden_size=4, **(SCALES | {"y_scale": 1 / 65534}))
    assert y.max() == np.float32(32767) * np.float32(1 / 65534)


def test_empty_sequences_and_batches_stay_empty(rng: np.random.Generator) -> None:
    w = weights(rng, 5, 4)
    for shape in ((0, 1, 5), (3, 0, 5)):
        assert run(OP, np.zeros(shape, np.float32), *w, hidden_size=4, **SCALES).shape == (shape[0], 2, shape[1], 4)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"hidden_size": 0}, "attribute 'hidden_size': expected 1 or more, got 0"),
        ({"hidden_size": None}, "attribute 'hidden_size': expected an integer, got nothing"),
        ({"layout": 1}, "attribute 'layout': expected 0, got 1"),
        ({"input_forget": 1}, "attribute 'input_forget': expected 0, got 1"),
        ({"direction": "forward"}, "attribute 'direction': expected 'bidirectional', got 'forward'"),
        ({"x_scale": 0.0}, "attribute 'x_scale': expected a finite value greater than 0, got 0.000000"),
        ({"r_scale": None}, "attribute 'r_scale': expected a float, got nothing"),
        ({"y_zero_point": 65536}, "attribute 'y_zero_point': expected 0 to 65535, got 65536"),
        ({"w_zero_point": 0.5}, "attribute 'w_zero_point': expected an integer, got another type"),
        ({"w_scale": 1e30}, "attributes '..._scale': expected products that fit 24 fractional bits, got values too "),
        ({"hidden_size": 5}, "w: expected shape (2, 20, 5), got (2, 16, 5)"),
    ],
    ids=str,
)
def test_what_cannot_be_run_is_rejected_with_the_session(
    rng: np.random.Generator, changes: dict[str, Any], sentence: str
) -> None:
    attributes = {k: v for k, v in (SCALES | {"hidden_size": 4} | changes).items() if v is not None}
    with pytest.raises(ModelError) as caught:
        session(one_node(OP, [np.zeros((2, 1, 5), np.float32), *weights(rng, 5, 4)], constants=(1, 2, 3), **attributes))
    assert NODE + sentence in str(caught.value)


def test_inputs_that_do_not_fit_are_rejected_when_the_model_runs(rng: np.random.Generator) -> None:
    from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

    x, (w, r, b) = np.zeros((2, 1, 5), np.float32), weights(rng, 5, 4)
    wrong = [
        ((x[0], w, r, b), "x: expected 3 dimensions, steps, batch and inputs, got 2"),
        ((x[..., :3], w, r, b), "w: expected shape (2, 16, 3), got (2, 16, 5)"),
        ((x, w, r[..., :3], b), "r: expected shape (2, 16, 4), got (2, 16, 3)"),
        ((x, w, r, b[:, 1:]), "b: expected shape (2, 32), got (2, 31)"),
        ((x[..., :0], w[..., :0], r, b), "w: expected shape (2, 4 * hidden_size, inputs) with 1 or more inputs, got"),
    ]
    for inputs, sentence in wrong:
        with pytest.raises(InvalidArgument) as caught:
            run(OP, *inputs, hidden_size=4, **SCALES)
        assert NODE + sentence in str(caught.value)
