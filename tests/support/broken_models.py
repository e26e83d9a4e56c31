"""Models that no quantizer can take: cut short, inconsistent, or absurd in what they declare."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from support.tiny_models import conv_relu_model, tiny_model

__all__ = ["BROKEN_MODELS", "huge_constant", "huge_input", "unknown_input", "unknown_output"]

_NAN = np.full((3, 3, 1, 1), np.nan, np.float32)
_INFINITE = np.full((3, 3, 1, 1), np.inf, np.float32)
_LINEAR = "g (float[N, 4] x) => (float[N, 4] y) { y = MatMul (x, w) }"


def _cut(share: float) -> bytes:
    data = conv_relu_model().SerializeToString()
    return data[: int(len(data) * share)]


def _cyclic() -> onnx.ModelProto:
    return tiny_model("g (float[N, 4] x) => (float[N, 4] y) { a = Add (x, b) b = Relu (a) y = Relu (b) }")


def unknown_input() -> onnx.ModelProto:
    """Returns a sum with a value that nothing gives."""
    return tiny_model("g (float[N, 4] x) => (float[N, 4] y) { y = Add (x, nothing) }")


def unknown_output() -> onnx.ModelProto:
    """Returns a network whose output nothing gives."""
    model = conv_relu_model()
    model.graph.output[0].name = "nothing"
    return model


def _with_opset(version: int, domain: str = "") -> onnx.ModelProto:
    model = conv_relu_model()
    model.opset_import[0].version, model.opset_import[0].domain = version, domain
    return model


def _declared(dims: tuple[int, ...], data: bytes = b"") -> onnx.ModelProto:
    """Returns a product whose weight says that it is of shape `dims`, whatever its data."""
    model = tiny_model(_LINEAR)
    model.graph.initializer.add(name="w", data_type=onnx.TensorProto.FLOAT, dims=dims, raw_data=data)
    return model


def _external(location: str, dims: tuple[int, ...] = (4, 4), **more: int) -> onnx.ModelProto:
    model = tiny_model(_LINEAR)
    tensor = model.graph.initializer.add(name="w", data_type=onnx.TensorProto.FLOAT, dims=dims)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=str(value))
    return model


def _external_attribute(location: str) -> onnx.ModelProto:
    model = tiny_model("g (float[N, 4] x) => (float[N, 4] y) { w = Constant <value_float = 1.0> () y = MatMul (x, w) }")
    attribute = model.graph.node[0].attribute[0]
    attribute.Clear()
    attribute.name, attribute.type = "value", onnx.AttributeProto.TENSOR
    attribute.t.CopyFrom(_external(location).graph.initializer[0])
    return model


def huge_input() -> onnx.ModelProto:
    """Returns a Relu over 2^80 elements."""
    return tiny_model("g (float[1099511627776, 1099511627776] x) => (float[A, B] y) { y = Relu (x) }")


def huge_constant() -> onnx.ModelProto:
    """Returns a sum with 2^40 zeros that it makes itself."""
    text = "g (float[N] x) => (float[A] y) { c = ConstantOfShape (s) y = Add (x, c) }"
    return tiny_model(text, {"s": np.int64([1 << 40])})


_NOT_ONNX = r"expected an ONNX model, got a file that is truncated or not ONNX"
#: Parameters of tests: what makes a model, and the pattern of the sentence that it meets.
BROKEN_MODELS: list[Any] = [
    pytest.param(lambda: conv_relu_model(w2=_NAN), r"tensor 'w2': expected (numbers|finite weights), got .*", id="nan"),
    pytest.param(lambda: conv_relu_model(w2=_INFINITE), r"tensor 'w2': expected finite weights, got .*", id="infinite"),
    pytest.param(lambda: b"", r".*expected an ONNX file, got an empty file", id="empty"),
    pytest.param(lambda: b"not a model at all", f".*{_NOT_ONNX}", id="garbage"),
    pytest.param(lambda: b"\x00" * 4096, f".*{_NOT_ONNX}", id="zeros"),
    pytest.param(lambda: _cut(0.3), f".*{_NOT_ONNX}", id="truncated at 30 %"),
    pytest.param(lambda: _cut(0.99), f".*{_NOT_ONNX}", id="truncated at 99 %"),
    pytest.param(unknown_input, r".*: expected every input of a node to exist, got 'nothing' .*", id="no input"),
    pytest.param(unknown_output, r".*: expected every output to exist, got 'nothing', .*", id="no output"),
    pytest.param(_cyclic, r".*: expected a graph without cycles, got one whose nodes feed each other", id="cyclic"),
    pytest.param(
        lambda: _with_opset(999), r"model: expected an operator set version from 1 to \d+, got 999", id="opset"
    ),
    pytest.param(
        lambda: _with_opset(17, "x.y"),
        r"model: expected operators of the ONNX standard, got an import of 'x.y' alone",
        id="no opset",
    ),
    pytest.param(
        lambda: _external("none.data"), r".*bytes of external data in 'none.data', got no such file", id="missing"
    ),
    pytest.param(lambda: _external("../in.data"), r".*external data inside the model's folder, got .*", id="outside"),
    pytest.param(lambda: _external("/etc/hostname"), r".*external data inside the model's folder.*", id="absolute"),
    pytest.param(lambda: _external("link.data"), r".*external data inside the model's folder.*", id="link outside"),
    pytest.param(
        lambda: _external_attribute("../in.data"),
        r".*external data inside the model's folder.*",
        id="attribute outside",
    ),
    pytest.param(
        lambda: _external("in.data", (1 << 20, 1 << 20)),
        r".*expected \d+ bytes of external data .*",
        id="absurd external",
    ),
    pytest.param(
        lambda: _external("in.data", (1 << 20, 1 << 20), length=64), r".*, got a length of 64", id="absurd and short"
    ),
    pytest.param(
        lambda: _external("in.data", offset=-64), r".*expected a number of at least 0 as offset.*", id="negative offset"
    ),
    pytest.param(lambda: _declared((1 << 30, 1 << 30)), r".*tensor 'w': expected .*", id="absurd shape"),
    pytest.param(lambda: _declared((1 << 62, 1 << 62)), r".*tensor 'w': expected .*", id="overflowing shape"),
    pytest.param(lambda: _declared((-4, 4), b"\0" * 64), r".*tensor 'w': expected .*", id="negative shape"),
    pytest.param(lambda: _declared((4, 4), b"\0" * 60), r".*tensor 'w': expected .*", id="too few bytes"),
]
