from __future__ import annotations

import ml_dtypes
import numpy as np

from quarkfast.graph.placement import Quantizer
from quarkfast.quantization.codes import codes_of, limited


def test_symmetric_weights_do_not_use_the_lowest_code():
    quantizer = Quantizer("int8", np.float32(1 / 127), np.int64(0), None, -127, 127)
    assert codes_of(np.float32([-1, -1.1, 0, 1]), quantizer).tolist() == [-127, -127, 0, 127]


def test_a_bias_is_divided_in_double_precision():
    scale = np.float32(1e-7)
    bias = np.float32([123.456789])
    quantizer = Quantizer("int32", scale, np.int64(0))
    expected = np.rint(np.float64(bias[0]) / np.float64(scale))
    assert codes_of(bias, quantizer).tolist() == [expected]
    assert np.rint(bias / scale)[0] != expected


def test_bfloat16_weights_are_limited_to_normal_finite_values():
    values = np.float32([0.0, -0.0, 1e-40, -1e-40, 3.4e38, -3.4e38, 1.0])
    codes = codes_of(values, Quantizer("bfloat16", np.float32(1), np.int64(0)))
    assert codes.dtype == ml_dtypes.bfloat16
    largest = float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)
    tiny = float(ml_dtypes.finfo(ml_dtypes.bfloat16).tiny)
    assert codes.astype(np.float64).tolist() == [0, 0, tiny, -tiny, largest, -largest, 1]
    assert np.signbit(codes.astype(np.float32)[1])


def test_float16_weights_do_not_become_infinite():
    assert limited(np.float32([1e6, -1e6, 2.0]), "float16").tolist() == [65504, -65504, 2]
