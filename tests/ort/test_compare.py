"""quarkfast::Compare: sums over the channels of two tensors of one shape."""

import numpy as np
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.errors import ModelError

from .models import one_node, session

LIMIT = 0.5


def compare(reference, value, **attributes):
    model = one_node(
        "Compare", [reference, value], output=np.float64, domain="quarkfast", shape=None, limit=LIMIT, **attributes
    )
    return session(model).run(None, {"x0": reference, "x1": value})[0]


def expected(reference, value, axis, limit=LIMIT):
    """The same, channel by channel, with sums that are rounded once."""
    channels = [(reference, value)]
    if axis is not None:
        split = (np.moveaxis(each, axis, 0) for each in (reference, value))
        channels = list(zip(*split, strict=True))
    rows = []
    for one, other in channels:
        wide, got = one.astype(np.float64).ravel(), other.astype(np.float64).ravel()
        with np.errstate(invalid="ignore"):
            usable = np.isfinite(wide - got)
        odd = int((~usable & ~(wide == got)).sum())
        wide, got = wide[usable], got[usable]
        noise = np.abs(wide - got)
        low, high = got.min(initial=np.inf), got.max(initial=-np.inf)
        rows.append([(wide**2).sum(), (noise**2).sum(), low, high, (noise > limit).sum(), wide.size, odd])
    return np.array(rows, np.float64).reshape(-1, 7)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((), None), ((1,), None), ((7,), 0), ((0,), None), ((8, 9), None), ((3, 5), -1), ((2, 3, 17), 1),
        ((2, 4, 5, 6), 1),
        ((2, 3, 20, 31), 1), ((1300,), None), ((2, 0, 5), 1), ((0, 3, 5), 1), ((5, 100), 0), ((4, 33), -1), ((3,), 4),
    ],
    ids=str,
)  # fmt: skip
def test_sums_are_those_of_each_channel(rng, shape, axis):
    reference, value = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    attributes = {} if axis is None else {"axis": axis}
    found = compare(reference, value, **attributes)
    known = expected(reference, value, axis if axis is not None and axis < len(shape) else None)
    assert found.shape == known.shape
    # Of n positive terms a sum in doubles errs by n - 1 roundings at most.
    np.testing.assert_allclose(found[:, :2], known[:, :2], rtol=max(1, reference.size) * 2**-53)
    np.testing.assert_array_equal(found[:, 2:], known[:, 2:])


def test_what_is_not_finite_counts_apart():
    reference = np.float32([np.nan, np.inf, np.inf, -np.inf, 1, 2])
    value = np.float32([1, np.inf, 3, np.inf, np.nan, 2])
    np.testing.assert_array_equal(compare(reference, value), [[4, 0, 2, 2, 0, 1, 4]])


@pytest.mark.parametrize("at", [0, 15, 16, 1299])
@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_one_value_that_is_not_finite_spoils_no_other(rng, at, odd):
    reference, value = (rng.standard_normal(1300).astype(np.float32) for _ in range(2))
    value[at] = odd
    found, known = compare(reference, value), expected(reference, value, None)
    np.testing.assert_allclose(found[:, :2], known[:, :2], rtol=reference.size * 2**-53)
    np.testing.assert_array_equal(found[:, 2:], known[:, 2:])


def _in_lanes(terms):
    """The sum of one channel's terms: in sixteen lanes in turn, which are then added in halves."""
    lanes = np.zeros(16)
    for at, term in enumerate(terms):
        lanes[at % 16] += term
    while lanes.size > 1:
        lanes = lanes[: lanes.size // 2] + lanes[lanes.size // 2 :]
    return lanes[0]


@pytest.mark.parametrize("limit", [LIMIT, np.inf])
@pytest.mark.parametrize("size", [1, 15, 16, 17, 1300])
def test_every_instruction_set_gives_the_sums_of_sixteen_lanes(isa, rng, size, limit):
    reference, value = (rng.standard_normal((1, 1, size)).astype(np.float32) for _ in range(2))
    model = one_node(
        "Compare", [reference, value], output=np.float64, domain="quarkfast", shape=None, limit=limit, axis=1
    )
    (found,) = session(model).run(None, {"x0": reference, "x1": value})
    wide, got = reference.ravel().astype(np.float64), value.ravel().astype(np.float64)
    off = wide - got
    assert found.tolist() == [
        [_in_lanes(wide**2), _in_lanes(off**2), got.min(), got.max(), (np.abs(off) > limit).sum(), size, 0]
    ]


def test_every_instruction_set_gives_the_sums_of_columns(isa, rng):
    reference, value = (rng.standard_normal((33, 70)).astype(np.float32) for _ in range(2))
    found = compare(reference, value, axis=1)
    wide, off = reference.astype(np.float64), reference.astype(np.float64) - value
    signal, noise = (np.add.accumulate(each**2)[-1] for each in (wide, off))  # one row after the other
    assert found[:, 0].tolist() == signal.tolist()
    assert found[:, 1].tolist() == noise.tolist()
    assert found[:, 4].tolist() == (np.abs(off) > LIMIT).sum(axis=0).tolist()


def test_tensors_of_two_shapes_have_no_row():
    assert compare(np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32), axis=1).shape == (0, 7)


def test_sums_do_not_depend_on_the_threads(rng):
    reference, value = (rng.standard_normal((3, 5, 1009)).astype(np.float32) for _ in range(2))
    model = one_node("Compare", [reference, value], output=np.float64, domain="quarkfast", limit=LIMIT, axis=1)
    found = []
    for threads in (1, 2):
        options = ort.session_options()
        options.intra_op_num_threads = threads
        runner = ort.inference_session(model.SerializeToString(), options)
        found.append(runner.run(None, {"x0": reference, "x1": value})[0])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 5, 1009), 1), ((7, 16), -1), ((60, 131), -1), ((1300,), None), ((4, 15), 1)], ids=str
)
@pytest.mark.parametrize("limit", [LIMIT, np.inf])
@pytest.mark.parametrize("odd", [None, np.nan, np.inf])
def test_every_instruction_set_gives_the_same_bytes(rng, shape, axis, limit, odd):
    reference, value = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    if odd is not None:
        value.flat[value.size // 2] = odd
    attributes = {} if axis is None else {"axis": axis}
    found = set()
    for isa in quarkfast.available_isas():
        with quarkfast.use_isa(isa):
            model = one_node(
                "Compare",
                [reference, value],
                output=np.float64,
                domain="quarkfast",
                shape=None,
                limit=limit,
                **attributes,
            )
            found.add(session(model).run(None, {"x0": reference, "x1": value})[0].tobytes())
    assert len(found) == 1
    (made,) = (np.frombuffer(each).reshape(-1, 7) for each in found)
    known = expected(reference, value, axis, limit)
    np.testing.assert_allclose(made[:, :2], known[:, :2], rtol=reference.size * 2**-53)
    np.testing.assert_array_equal(made[:, 2:], known[:, 2:])


def test_the_limit_is_needed():
    one = np.ones(3, np.float32)
    with pytest.raises(ModelError, match=r"quarkfast\.Compare 'node': attribute 'limit'"):
        session(one_node("Compare", [one, one], output=np.float64, domain="quarkfast"))
