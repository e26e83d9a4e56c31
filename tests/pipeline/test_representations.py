"""What a result shows of itself in an interpreter and in a notebook."""

from __future__ import annotations

import pytest

import quarkfast
from support.tiny_models import conv_relu_model, samples


@pytest.fixture(scope="module")
def result():
    return quarkfast.quantize(conv_relu_model(), preset="A8W8", calibration_data=samples())


def test_a_quantized_model_is_one_short_paragraph(result):
    assert repr(result).startswith("QuantizedModel in memory: A8W8 for ryzenai-a8w8; 4 nodes quantized, 0 left float; ")
    assert repr(result.summary) == repr(result).replace("QuantizedModel in memory", "Summary")
    assert len(repr(result)) < 200
    assert "\n" not in repr(result)


def test_a_written_model_says_where(result, tmp_path):
    path = tmp_path / "q.onnx"
    written = quarkfast.quantize(conv_relu_model(), path, "BF16")
    assert repr(written).startswith(f"QuantizedModel at {str(path)!r}: BF16 for ")


def test_a_notebook_shows_the_rows_of_the_summary_and_names_cannot_act_in_it():
    model = conv_relu_model()
    model.graph.node[0].name = "<b>conv</b>"
    page = quarkfast.quantize(model, preset="A8W8", calibration_data=samples(), exclude=["<b>conv</b>"])._repr_html_()
    assert page.startswith("<table><tr><th>preset</th><td>A8W8 ")
    assert "&lt;b&gt;conv&lt;/b&gt;" in page
    assert "<b>" not in page


def test_what_is_gathered_planned_and_compared_is_one_line(result):
    calibration = quarkfast.calibrate(conv_relu_model(), samples())
    assert repr(calibration) == f"Calibration: {len(calibration.tensors)} tensors on 8 samples"
    assert repr(quarkfast.plan(conv_relu_model(), "A8W8")).startswith("ModelPlan: A8W8 for ryzenai-a8w8; 4 nodes")
    compared = quarkfast.compare_models(conv_relu_model(), result.proto, samples())
    assert repr(compared).startswith(f"Comparison: {len(compared.tensors)} tensors on 8 samples; worst ")
