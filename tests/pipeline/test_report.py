"""`QuantizedModel.write_report`: every preset has a page, whatever the model holds, and errors are sentences."""

from __future__ import annotations

import json
import re

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.errors import OutputError
from support.tiny_models import conv_relu_model, samples, tiny_model

HOSTILE = "</script><script>alert(1)</script>"


def _data(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL).group(1))


@pytest.mark.parametrize("preset", ["A8W8", "A16W8", "U8S8", "XINT8", "DYNAMIC", "BF16", "BFP16", "MX6", "FP16"])
def test_every_preset_has_a_page(tmp_path, preset):
    result = quarkfast.quantize(conv_relu_model(), preset=preset, calibration_data=samples(), histograms=True)
    path = result.write_report(tmp_path / "r.html")
    text = path.read_text(encoding="utf-8")
    assert f"a model in {preset}" in text
    assert all(f"<code>{name}</code>" in text or name in text for name in ("conv_0", "relu_1", "add_3"))
    assert len(_data(text)["nodes"]) == len(result.summary.records.nodes) >= 4


@pytest.mark.parametrize("preset", ["INT8_WO", "INT4_WO", "MATMUL_NBITS", "BF16_WO"])
def test_stored_weights_have_a_page(tmp_path, preset):
    model = tiny_model("g (float[N, 256] x) => (float[A, B] y) { y = MatMul (x, w) }", {"w": np.ones((256, 256), "f")})
    text = quarkfast.quantize(model, preset=preset).write_report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "matmul_0" in text
    assert "times smaller" in text


def test_names_of_the_users_model_stay_text(tmp_path):
    proto = conv_relu_model()
    for node in proto.graph.node:
        node.name = HOSTILE + node.name
        node.output[:] = [HOSTILE + name if name in ("c1", "r1") else name for name in node.output]
        node.input[:] = [HOSTILE + name if name in ("c1", "r1") else name for name in node.input]
    result = quarkfast.quantize(proto, calibration_data=samples(), exclude=[HOSTILE + "add_3"])
    text = result.write_report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert text.count("<script") == 2
    assert HOSTILE not in text
    assert any(HOSTILE in tensor["n"] for tensor in _data(text)["tensors"])


@pytest.mark.filterwarnings("ignore:quantize. nothing in the model can be quantized")
def test_a_copy_of_somebody_elses_model_has_a_page(tmp_path):
    proto = tiny_model("g (int64[N] x) => (int64[N] y) { y = Identity (x) }")
    proto.metadata_props.append(onnx.StringStringEntryProto(key="quarkfast.scheme", value="{<no JSON>"))
    text = quarkfast.quantize(proto, calibration_data={"x": np.ones((2,), np.int64)}).write_report(tmp_path / "r.html")
    assert "no JSON" not in text.read_text(encoding="utf-8")


def test_masks_of_minus_infinity_have_a_page(tmp_path):
    mask = np.where(np.eye(8) > 0, 0, -np.inf).astype(np.float32)
    model = tiny_model("g (float[N, 8, 8] x) => (float[N, 8, 8] y) { s = Add (x, m) y = Softmax (s) }", {"m": mask})
    result = quarkfast.quantize(model, calibration_data=samples(8, (8, 8)), histograms=True)
    _data(result.write_report(tmp_path / "r.html").read_text(encoding="utf-8"))


def test_the_same_quantization_has_the_same_page_but_for_the_seconds(tmp_path):
    texts = []
    for name in ("a.html", "b.html"):
        result = quarkfast.quantize(conv_relu_model(), calibration_data=samples())
        result.summary.seconds.clear()
        texts.append(result.write_report(tmp_path / name).read_bytes())
    assert texts[0] == texts[1]


def test_plain_data_is_what_the_summary_says_and_what_is_given(tmp_path):
    result = quarkfast.quantize(conv_relu_model(), tmp_path / "m.onnx", calibration_data=samples())
    path = result.write_report(tmp_path / "r.json", more={"model": "float.onnx"})
    found = json.loads(path.read_text(encoding="utf-8"))
    plain = json.loads(json.dumps(result.summary.to_dict()))
    assert found == {"output": str(tmp_path / "m.onnx"), "model": "float.onnx", **plain}


def test_a_page_that_cannot_be_written_is_a_sentence_and_leaves_nothing(tmp_path):
    result = quarkfast.quantize(conv_relu_model(), calibration_data=samples())
    with pytest.raises(OutputError, match=r"^report: expected a file name that ends in \.html or \.json, got 'r'$"):
        result.write_report("r")
    with pytest.raises(OutputError, match=r"^output: expected an existing folder, got "):
        result.write_report(tmp_path / "no" / "r.html")
    assert list(tmp_path.iterdir()) == []
