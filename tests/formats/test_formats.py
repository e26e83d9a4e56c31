"""The number formats: what their rows say, and what one more row costs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

import quarkfast
from quarkfast import formats
from quarkfast.demo.data import MODEL, load_images
from quarkfast.errors import ConfigError, UnsupportedError
from quarkfast.formats import block, scalar
from quarkfast.formats.scalar import SCALAR_FORMATS, ScalarFormat
from quarkfast.writers.nodes import find_form

FLOATS = [row for row in SCALAR_FORMATS.values() if not row.is_integer]


@pytest.mark.parametrize("row", [*SCALAR_FORMATS.values(), formats.FLOAT32], ids=lambda row: row.name)
def test_a_row_says_what_ml_dtypes_says(row):
    info = (ml_dtypes.iinfo if row.is_integer else ml_dtypes.finfo)(row.dtype)
    assert info.bits == row.stored_bits
    assert row.signed == (info.min < 0)
    if not row.storage:
        assert (info.bits, float(info.min), float(info.max)) == (row.bits, row.qmin, row.qmax)
        assert row.dtype.name == row.name
    if row.onnx in {each.value for each in ir.DataType if each.value}:
        assert ir.DataType(row.onnx).numpy() == row.dtype


def test_names_of_formats_are_unique():
    assert not SCALAR_FORMATS.keys() & block.BLOCK_FORMATS.keys()
    assert formats.FLOAT32.name not in {*SCALAR_FORMATS, *block.BLOCK_FORMATS}


def test_a_format_that_does_not_exist_is_one_sentence():
    with pytest.raises(ConfigError, match=r"format: expected one of int2, .*, got 'itn8'; did you mean 'int8'\?"):
        formats.find("itn8")
    assert formats.get("itn8") is None


def test_three_bits_lie_in_the_narrowest_type_that_runtimes_have():
    int3 = SCALAR_FORMATS["int3"]
    assert (int3.bits, int3.stored_bits, int3.qmin, int3.qmax) == (3, 4, -4, 3)
    assert int3.dtype == ml_dtypes.int4
    assert ir.DataType(int3.onnx) == ir.DataType.INT4


def test_formats_of_activations_and_weights_are_written_with_operators():
    for name in {*formats.activation_formats(), *formats.weight_formats()}:
        for spelling in ("qdq", "cast"):
            assert find_form(name, spelling).opset >= 10


def test_a_format_that_no_operator_takes_is_refused():
    with pytest.raises(UnsupportedError, match="format int2: expected one that operators take, got one that none"):
        find_form("int2", "qdq")


def test_a_scalar_format_with_existing_kernels_is_one_row(monkeypatch):
    int5 = ScalarFormat(
        name="int5", code="i8", bits=5, qmin=-16, qmax=15, onnx=onnx.TensorProto.INT8, storage="int8", weight=True,
        is_integer=True, needs_scale=True, linear_opset=10, dequantize_opset=10,
    )  # fmt: skip
    monkeypatch.setitem(scalar._BY_NAME, "int5", int5)
    result = quarkfast.quantize(MODEL, calibration_data=load_images().calibration[:16], weight_type="int5")
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
    weights = [codes for name, codes in stored.items() if name.endswith("_quantized") and codes.ndim > 1]
    assert len(weights) == 8
    assert {codes.dtype for codes in weights} == {np.dtype(np.int8)}
    assert (min(codes.min() for codes in weights), max(codes.max() for codes in weights)) == (-15, 15)  # symmetric
    assert result.summary.weight == "int5"
    onnx.checker.check_model(result.proto, full_check=True)
