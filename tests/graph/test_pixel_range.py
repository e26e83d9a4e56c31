"""Inputs that take pixels from 0 to 255, found by the model."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from quarkfast.calibration.data import model_inputs, open_data
from quarkfast.errors import CalibrationError
from quarkfast.graph.pixel_range import why_bytes


def detector(size: float, *, behind: str = "y = Relu (c)", deviation: float = 1.0, kind: str = "float") -> ir.Model:
    """A convolution behind a slice, whose weights have a norm of `size` for each channel."""
    graph = f"""<ir_version: 8, opset_import: ["": 17]> g ({kind}[N, 3, 8, 8] x) => (float[N, 4, 8, 8] y) {{
        f = Cast <to = 1> (x) z = Slice (f, s, e) c = Conv (z, w) {behind} }}"""
    model = onnx.parser.parse_model(graph)
    weight = np.random.default_rng(5).normal(size=(4, 3, 1, 1)).astype(np.float32)
    weight *= size / np.sqrt(np.square(weight).sum(axis=(1, 2, 3), keepdims=True))
    arrays = {"w": weight, "s": np.int64([0]), "e": np.int64([9]), "one": np.ones(4, np.float32)}
    arrays["var"] = np.full(4, deviation**2, np.float32)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    return ir.from_proto(model)


NORM = "y = BatchNormalization (c, one, one, one, var)"


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (detector(0.02), "the small weights of its first convolution"),
        (detector(1.0), ""),
        (detector(0.5, behind=NORM, deviation=90.0), "the small weights of its first convolution"),
        (detector(0.02, behind=NORM, deviation=0.02), ""),
        (detector(1.0, kind="uint8"), "its type uint8"),
        (ir.from_onnx_text('<ir_version: 8, opset_import: ["": 17]> g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) '
                           '{ y = Sigmoid (x) }'), ""),
    ],
)  # fmt: skip
def test_pixels_up_to_255_are_told_by_small_weights(model: ir.Model, found: str) -> None:
    assert why_bytes(model, model.graph.inputs[0]).startswith(found)
    assert bool(why_bytes(model, model.graph.inputs[0])) == bool(found)


def test_metadata_about_pixels_goes_first() -> None:
    model = detector(0.02)
    model.metadata_props["Image.NominalPixelRange"] = "Normalized_0_1"
    assert why_bytes(model, model.graph.inputs[0]) == ""
    model.metadata_props["Image.NominalPixelRange"] = "NominalRange_0_255"
    assert why_bytes(model, model.graph.inputs[0]) == "its metadata NominalRange_0_255"


def test_a_recipe_that_divides_is_asked_back_and_settings_are_not(tmp_path) -> None:
    pillow = pytest.importorskip("PIL.Image", reason="no Pillow: the extra `images` is not installed")
    pillow.fromarray(np.full((8, 8, 3), 200, np.uint8)).save(tmp_path / "a.png")
    inputs = model_inputs(detector(0.02))
    sentence = (
        r"from 0 to 255 for 'x', by the small weights .*, got yolo, which divides by 255; take yolox, or to divide"
    )
    with pytest.raises(CalibrationError, match=sentence):
        open_data(tmp_path, inputs, preprocess="yolo")
    with pytest.raises(CalibrationError, match=r"expected one of yolox, none .* for a folder of 1 image, got nothing"):
        open_data(tmp_path, inputs)
    assert open_data(tmp_path, inputs, preprocess='{"recipe": "yolo"}').first["x"].max() < 1
    assert open_data(tmp_path, inputs, preprocess="yolox").first["x"].max() == 200
