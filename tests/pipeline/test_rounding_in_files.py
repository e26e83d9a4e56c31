"""Weights that are rounded while they lie in files."""

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.algorithms import output_bias_correction
from quarkfast.graph import external_constants
from quarkfast.reconstruction import walk
from support.tiny_models import tiny_model

TEXT = """g (float[N, 8] x) => (float[N, 8] y) {
    h = Gemm (x, v, b)
    r = Relu (h)
    p = MatMul (r, w)
    y = Add (p, d)
}"""
RECURRENT = """g (float[T, N, 8] x) => (float[1, N, 8] h) {
    y, h = RNN <hidden_size = 8> (x, v, w)
}"""
SHAPES = {TEXT: (8, 8), RECURRENT: (1, 8, 8)}
SAMPLES = {TEXT: (40, 8), RECURRENT: (5, 1, 8)}

CASES = {
    "A8W8-descent": (TEXT, "A8W8", {"rounding": "descent"}),
    "A8W8-output_bias_correction": (TEXT, "A8W8", {"output_bias_correction": True}),
    "A8W8-float_biases": (TEXT, "A8W8", {"rounding": "descent", "bias_correction": False, "weight_type": "int16"}),
    "BF16-gptq": (TEXT, "BF16", {"rounding": "gptq"}),
    "DYNAMIC-descent": (TEXT, "DYNAMIC", {"rounding": "descent"}),
    "INT8_WO-descent": (TEXT, "INT8_WO", {"rounding": "descent"}),
    "INT8_WO-recurrent": (RECURRENT, "INT8_WO", {"rounding": "descent"}),
}


@pytest.mark.parametrize(("text", "preset", "options"), CASES.values(), ids=list(CASES))
def test_weights_in_files_give_the_bytes_of_weights_in_memory(text, preset, options, tmp_path, monkeypatch, rng):
    arrays = {name: rng.normal(size=SHAPES[text]).astype(np.float32) for name in "vw"}
    arrays |= {name: rng.normal(size=8).astype(np.float32) for name in "bd" if text is TEXT}
    samples = [{"x": rng.normal(size=SAMPLES[text]).astype(np.float32)} for _ in range(8)]
    seen = []

    def spied(models, *given, **named):
        seen.append(models)
        walk.go_through(models, *given, **named)

    monkeypatch.setattr("quarkfast.reconstruction.reconstruct.go_through", spied)
    monkeypatch.setattr(output_bias_correction, "go_through", spied)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = []
    for least in (None, 1):
        if least is not None:
            monkeypatch.setattr(external_constants, "_WRITTEN", least)
            monkeypatch.setattr(external_constants, "_LEAST", least)
        found.append(quarkfast.quantize(tiny_model(text, arrays), None, preset, samples, **options).model_bytes)
    assert found[0] == found[1]
    assert [_refers_to_files(models.quantized) for models in seen] == [False, True]
    assert not list(tmp_path.iterdir())


def _refers_to_files(model):
    return any(each.data_location == onnx.TensorProto.EXTERNAL for each in model.graph.initializer if each.name in "vw")
