"""Sessions that judge: the same sums with VNNI and without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from quarkfast.errors import ModelError
from quarkfast.evaluate.exact_sums import exact_session, with_exact_products
from support.tiny_models import tiny_model

# 64 products of 255 and 127 or 126: pairs of them saturate in 16 bits.
CODES, WEIGHT = np.full((2, 64), 255, np.uint8), np.int8([[127, -127, 126]] * 64)
OPERANDS = "(uint8[N, 64] x) => (int32[N, 3] y)"


def product_model(arguments: str = "x, w", **arrays: np.ndarray) -> onnx.ModelProto:
    return tiny_model(f"g {OPERANDS} {{ y = MatMulInteger ({arguments}) }}", {"w": WEIGHT} | arrays)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.int64) @ b.astype(np.int64)


def test_integer_products_are_exact() -> None:
    got = exact_session(product_model()).run(None, {"x": CODES})[0]
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, product(CODES, WEIGHT))


@pytest.mark.parametrize(
    ("arguments", "left", "right"),
    [
        ("x, w, zx", 3, 0),
        ("x, w, zx, zw", 3, 5),
        ("x, w, '', zw", 0, 5),
        ("x, w, zx, each", 3, np.int64([1, -2, 3])),
    ],
)  # fmt: skip
def test_zero_points_are_taken_off(arguments: str, left: int, right: int | np.ndarray) -> None:
    arrays = {"zx": np.uint8(3), "zw": np.int8(5), "each": np.int8([1, -2, 3])}
    text = arguments.replace("''", '""')
    names = [name.strip().strip('"') for name in text.split(",")]
    model = product_model("x, w", **{name: np.asarray(arrays[name]) for name in names if name in arrays})
    model.graph.node[0].input[:] = names
    got = exact_session(model).run(None, {"x": CODES})[0]
    np.testing.assert_array_equal(got, product(CODES.astype(np.int64) - left, WEIGHT.astype(np.int64) - right))


def test_products_in_bodies_are_exact() -> None:
    text = """g (bool c, uint8[N, 64] x) => (int32[N, 3] y) {
        y = If (c) <
            then_branch = t () => (int32[N, 3] a) { a = MatMulInteger (x, w) },
            else_branch = e () => (int32[N, 3] b) { p = MatMulInteger (x, w)  b = Neg (p) }
        >
    }"""
    session = exact_session(tiny_model(text, {"w": WEIGHT}))
    for flag, sign in ((True, 1), (False, -1)):
        got = session.run(None, {"c": np.asarray(flag), "x": CODES})[0]
        np.testing.assert_array_equal(got, sign * product(CODES, WEIGHT))


def test_products_in_functions_are_exact() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (uint8[N, 64] x, int8[64, 3] w) => (int32[N, 3] y) { y = own.f (x, w) }
        <domain: "own", opset_import: ["" : 17]> f (a, b) => (c) { c = MatMulInteger (a, b) }"""
    got = exact_session(onnx.parser.parse_model(text)).run(None, {"x": CODES, "w": WEIGHT})[0]
    np.testing.assert_array_equal(got, product(CODES, WEIGHT))


def test_the_model_itself_stays_as_it_is() -> None:
    model = product_model()
    before = model.SerializeToString()
    assert [node.op_type for node in with_exact_products(model).graph.node].count("MatMulInteger") == 0
    assert model.SerializeToString() == before


def test_a_path_its_bytes_and_the_model_give_the_same(tmp_path: Path) -> None:
    model = product_model()
    onnx.save(model, tmp_path / "m.onnx")
    for source in (tmp_path / "m.onnx", str(tmp_path / "m.onnx"), model.SerializeToString(), model):
        np.testing.assert_array_equal(exact_session(source).run(None, {"x": CODES})[0], product(CODES, WEIGHT))


def test_constants_in_files_are_found(tmp_path: Path) -> None:
    onnx.save(product_model(), tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    got = exact_session(tmp_path / "m.onnx").run(None, {"x": CODES})[0]
    np.testing.assert_array_equal(got, product(CODES, WEIGHT))


@pytest.mark.parametrize("source", [b"MatMulInteger", b"nothing", Path("absent.onnx")])
def test_what_is_no_model_is_refused(source: bytes | Path) -> None:
    with pytest.raises(ModelError, match="onnxruntime rejects it"):
        exact_session(source)
