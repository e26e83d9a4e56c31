"""Small sound models of every kind, from which mutations start."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx

import quarkfast
from quarkfast.demo.data import MODEL
from support.models_at_hand import _attention, _layers
from support.operator_models import OPERATORS, operator_model
from support.tiny_models import conv_relu_model, tiny_model
from support.weight_models import tied_model

_RNG = np.random.default_rng(3)

_TEXTS = {
    "if": """g (float[N, 8] x, bool b) => (float[N, 8] y) {
        a = MatMul (x, w)
        t = If (b) <
            then_branch = yes () => (float[N, 8] p) { p = MatMul (a, w) },
            else_branch = no () => (float[N, 8] q) { two = Constant <value = float {2.0}> () q = Mul (a, two) }
        >
        y = Relu (t)
    }""",
    "loop": """g (float[N, 8] x, int64 n, bool b) => (float[N, 8] y) {
        y = Loop (n, b, x) <body = step (int64 i, bool go, float[N, 8] v) => (bool on, float[N, 8] r) {
            on = Identity (go)
            m = MatMul (v, w)
            r = Tanh (m)
        }>
    }""",
    "scan": """g (float[1, 8] s, float[T, 1, 8] x) => (float[1, 8] last, float[T, 1, 8] y) {
        last, y = Scan <num_scan_inputs = 1, body = f (float[1, 8] a, float[1, 8] v) => (float[1, 8] c, float[1, 8] d) {
            m = MatMul (v, w)
            c = Add (a, m)
            d = Sigmoid (c)
        }> (s, x)
    }""",
    "normalization": """g (float[N, 3, 8, 8] x) => (float[N, 5] y) {
        c = Conv <pads = [1, 1, 1, 1], kernel_shape = [3, 3]> (x, k, kb)
        n = BatchNormalization (c, s, sb, m, v)
        r = Relu (n)
        p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
        f = Flatten (p)
        y = Gemm (f, w64, b5)
    }""",
    "texts": """g (string[N] t, float[N, 8] x) => (float[N, 8] y) {
        e = StringNormalizer <case_change_action = "LOWER"> (t)
        y = MatMul (x, w)
    }""",
    "sequences": """g (float[4, 8] x) => (seq(float[2, 8]) s, float[2, 8] y) {
        m = MatMul (x, w)
        s = SplitToSequence <axis = 0> (m, parts)
        y = SequenceAt (s, zero)
    }""",
    "shapes": """g (float[N, 3, 8, 8] x) => (float[N, K] y) {
        c = Conv (x, k, kb)
        s = Shape (c)
        n = Gather <axis = 0> (s, zero)
        u = Unsqueeze (n, axes)
        t = Concat <axis = 0> (u, minus)
        r = Reshape (c, t)
        q = Slice (r, axes, ends, minus2)
        y = Softmax <axis = -1> (q)
    }""",
    "recurrent": """g (float[5, 2, 8] x) => (float[5, 1, 2, 4] y, float[5, 1, 2, 4] z) {
        y, h, c = LSTM <hidden_size = 4> (x, lw, lr, lb)
        z, g = GRU <hidden_size = 4, linear_before_reset = 1> (x, gw, gr)
    }""",
    "quantizing": """g (float[N, 8] x) => (float[N, 8] y) {
        q, s, z = DynamicQuantizeLinear (x)
        i = MatMulInteger (q, codes, z)
        f = Cast <to = 1> (i)
        y = Mul (f, s)
    }""",
}


def _normal(*shape: int) -> np.ndarray:
    return _RNG.normal(0, 0.4, shape).astype(np.float32)


_CONSTANTS = {
    "w": _normal(8, 8), "k": _normal(4, 3, 3, 3), "kb": _normal(4), "s": np.abs(_normal(4)) + 0.5, "sb": _normal(4),
    "m": _normal(4), "v": np.abs(_normal(4)) + 0.5, "w64": _normal(64, 5), "b5": _normal(5), "zero": np.int64(0),
    "parts": np.int64([2, 2]), "axes": np.int64([0]), "minus": np.int64([-1]), "minus2": np.int64([1]),
    "ends": np.int64([5]), "lw": _normal(1, 16, 8), "lr": _normal(1, 16, 4), "lb": _normal(1, 32),
    "gw": _normal(1, 12, 8), "gr": _normal(1, 12, 4), "codes": np.ones((8, 8), np.int8),
}  # fmt: skip

_PRESETS = (
    "A8W8",
    "XINT8",
    "U8S8",
    "DYNAMIC",
    "BF16",
    "BFP16",
    "MX9",
    "MXFP4E2M1",
    "INT8_WO",
    "INT4_WO",
    "MATMUL_NBITS",
)


def _float_models() -> Iterator[tuple[str, onnx.ModelProto]]:
    yield "conv_relu", conv_relu_model()
    yield "layers", onnx.ModelProto.FromString(_layers().model.SerializeToString())  # type: ignore[union-attr]
    yield "attention", onnx.ModelProto.FromString(_attention().model.SerializeToString())  # type: ignore[union-attr]
    yield "tied", tied_model()
    yield "demo", onnx.load(MODEL)
    for name, text in _TEXTS.items():
        used = {key: array for key, array in _CONSTANTS.items() if any(key in part for part in _reads(text))}
        yield name, tiny_model(text, used)
    yield (
        "function",
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17, "my": 1]> g (float[N, 4] x) => (float[N, 4] y) { y = my.f (x) }'
            '<domain: "my", opset_import: ["": 17]> f (x) => (y) { r = Relu (x) y = Add (r, x) }'
        ),
    )
    sparse = tiny_model("g (float[N, 4] x) => (float[N, 4] y) { y = Add (x, c) }")
    values, places = (onnx.numpy_helper.from_array(each) for each in (np.float32([1, 2]), np.int64([0, 3])))
    values.name = "c"
    sparse.graph.sparse_initializer.append(onnx.SparseTensorProto(dims=[4], values=values, indices=places))
    yield "sparse", sparse
    yield from ((f"operator_{name}", operator_model(name)) for name in OPERATORS)


def _reads(text: str) -> list[list[str]]:
    words = "".join(letter if letter.isalnum() or letter == "_" else " " for letter in text).split()
    return [words]


def write_seeds(folder: Path) -> None:
    """Writes every seed into a folder of its own in `folder`; quantized ones are made by quarkfast itself."""
    for name, model in _float_models():
        _at(folder, name).write_bytes(model.SerializeToString())
    outside = _at(folder, "external")
    onnx.save(conv_relu_model(), outside, save_as_external_data=True, location="m.data", size_threshold=0)
    bases = itertools.cycle(("conv_relu", "attention", "normalization", "recurrent"))
    for preset in _PRESETS:
        for base in itertools.islice(bases, 3):
            model = onnx.load(folder / base / "m.onnx")
            result = quarkfast.quantize(model, preset=preset, calibration_data="random", samples=4, strict=True)
            _at(folder, f"{base}_{preset}").write_bytes(result.model_bytes)


def _at(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name / "m.onnx"
