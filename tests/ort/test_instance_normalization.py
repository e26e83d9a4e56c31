"""ExtendedInstanceNormalization against Quark's recorded answers and its own laws."""

from typing import Any

import numpy as np
import pytest

from golden.vectors import Case, bits, cases
from quarkfast.errors import ModelError

from .models import Array, one_node, run, session

OP = "ExtendedInstanceNormalization"
NODE = f"com.amd.quark.{OP} 'node': "


def normalize(*inputs: Array, **options: Any) -> Array:
    return run(OP, *inputs, **options)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in cases("instance_normalization")])
def test_the_bits_are_those_of_quark(case: Case, isa: str) -> None:
    for operator, domain in ((OP, "com.amd.quark"), ("VitisInstanceNormalization", "com.vai.quantize")):
        y = run(operator, *case.inputs, domain=domain, **case.attributes)
        assert (bits(y) == bits(case.output)).all()


def test_instances_do_not_depend_on_each_other_or_on_threads(rng: np.random.Generator) -> None:
    x = rng.standard_normal((12, 7, 63, 61)).astype(np.float32)  # more than are summed side by side
    gamma, beta = rng.standard_normal((2, 7)).astype(np.float32)
    together = normalize(x, gamma, beta, threads=4)
    alone = np.concatenate([normalize(part, gamma, beta, threads=1) for part in np.split(x, 12)])
    assert together.tobytes() == alone.tobytes()


def test_squares_below_the_range_of_float32_are_added_in_full(isa: str) -> None:
    # Each of the small squares is a bit more than half a unit of the sum: rounded to float32 first, none would count.
    x = np.full((1, 1, 1 + (1 << 17)), 2.0**-73 * (1 + 2.0**-7), np.float32)
    x[0, 0, 0] = 2.0**-61
    y = normalize(x, np.ones(1, np.float32), np.zeros(1, np.float32), epsilon=0.0)
    assert y[0, 0, 0] == 360  # so do the operators of AMD Quark 0.13; without the small squares it is 364


def test_the_result_is_close_to_the_textbook(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3, 50)).astype(np.float32)
    gamma, beta = rng.uniform(0.5, 1, (2, 3, 1)).astype(np.float32)
    exact = gamma * (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + 1e-5) + beta
    # Seven roundings to 8 bits, of values up to 5 after the last: 7 * 5 * 2^-9.
    tolerance = 7 * 5 * 2.0**-9
    assert np.abs(normalize(x, gamma.ravel(), beta.ravel()) - exact).max() < tolerance


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0)], ids=str)
def test_tensors_without_elements_stay_empty(shape: tuple[int, ...]) -> None:
    channels = np.ones(shape[1], np.float32)
    assert normalize(np.ones(shape, np.float32), channels, channels).shape == shape


def test_nan_stays_in_its_instance() -> None:
    x = np.ones((1, 2, 4), np.float32)
    x[0, 1, 2] = np.nan
    y = normalize(x, np.ones(2, np.float32), np.zeros(2, np.float32))
    assert np.isnan(y).tolist() == [[[False] * 4, [True] * 4]]


def test_a_vector_is_rejected_with_the_session() -> None:
    with pytest.raises(ModelError) as caught:
        session(one_node(OP, [np.ones(3, np.float32)] * 3))
    assert NODE + "x: expected at least 2 dimensions, batch and channels, got 1" in str(caught.value)


def test_channels_that_do_not_fit_are_rejected_when_the_model_runs() -> None:
    from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

    x, two, three = np.ones((1, 3, 2), np.float32), np.ones(2, np.float32), np.ones(3, np.float32)
    for inputs, name in (((x, two, three), "scale"), ((x, three, two), "bias")):
        with pytest.raises(InvalidArgument) as caught:
            normalize(*inputs)
        assert NODE + f"{name}: expected shape (3,), one value for each channel, got (2,)" in str(caught.value)
