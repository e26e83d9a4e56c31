"""Text, sequences, optionals, maps and codes of 4 bits in a model: every verb takes them, or says why it does not."""

from __future__ import annotations

import onnx
import pytest

import quarkfast
from quarkfast.config import PRESETS
from quarkfast.errors import ModelError
from support.every_verb import run_every_verb
from support.typed_models import FED, TYPED, typed_model

_KINDS, _PRESETS = [*TYPED], [*PRESETS]
# Each kind with three presets, and each preset with a kind.
_PAIRS = sorted(
    {(kind, _PRESETS[(7 * place + turn) % len(_PRESETS)]) for place, kind in enumerate(_KINDS) for turn in (0, 3, 17)}
)


@pytest.mark.parametrize(("kind", "preset"), _PAIRS)
def test_every_verb_takes_what_is_no_tensor_of_floats(kind, preset, tmp_path):
    model, samples = typed_model(kind)
    run_every_verb(model, preset, samples, tmp_path)


@pytest.mark.parametrize("kind", FED)
def test_an_input_that_cannot_be_fed_is_refused_in_words(kind, tmp_path):
    """Optionals of a tensor are fed as that; of sequences and maps no file of samples holds any."""
    model, samples = typed_model(kind)
    if kind == "an optional":
        run_every_verb(model, "A8W8", {**samples, "f": samples["x"]}, tmp_path)
        return
    onnx.save(model, tmp_path / "model.onnx")
    for data in ("random", samples):
        for verb in (quarkfast.calibrate, quarkfast.quantize):
            with pytest.raises(ModelError, match=r"expected tensors for inputs, got 'f', which is a (sequence|map)"):
                verb(tmp_path / "model.onnx", calibration_data=data)
        for compare in (quarkfast.compare_models, quarkfast.evaluate_models):
            with pytest.raises(ModelError, match=r"expected tensors for inputs, got 'f', which is a (sequence|map)"):
                compare(tmp_path / "model.onnx", tmp_path / "model.onnx", data)
    if kind == "a sequence":
        assert quarkfast.quantize(model, preset="INT8_WO").summary.weights == 2
        assert quarkfast.quantize(model, preset="BF16").summary.weights == 2


def test_outputs_that_are_not_measured_are_named():
    model, samples = typed_model("a sequence as an output")
    result = quarkfast.quantize(model, calibration_data=samples)
    assert [name for name, _ in result.summary.outputs] == ["y"]
    assert "outputs that are no single tensor are not measured: 'q'" in result.summary.notes
    compared = quarkfast.compare_models(model, result.proto, samples)
    assert "'q': an output that is no single tensor of numbers" in compared.not_compared
