"""Threads of NumPy's products, as the library that makes them tells."""

import pytest
from threadpoolctl import ThreadpoolController

from quarkfast.reconstruction.blas_threads import blas_threads_for

BLAS = ThreadpoolController().select(user_api="blas")
FEW, MANY = 576, 1536


def threads() -> list[int]:
    return [each["num_threads"] for each in BLAS.info()]


@pytest.fixture(autouse=True)
def two_threads():
    with BLAS.limit(limits=2):
        if threads() != [2]:
            pytest.skip("NumPy's BLAS takes no number of threads here")
        yield
        assert threads() == [2]


def test_layers_with_few_inputs_take_one_thread():
    with blas_threads_for(FEW):
        assert threads() == [1]


def test_layers_with_many_inputs_take_what_there_is():
    with blas_threads_for(MANY):
        assert threads() == [2]


def test_threads_come_back_after_an_error():
    with pytest.raises(KeyError), blas_threads_for(FEW):
        raise KeyError


def test_the_last_of_calls_that_overlap_gives_threads_back():
    first, second = blas_threads_for(FEW), blas_threads_for(FEW)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert threads() == [1]
    second.__exit__(None, None, None)
