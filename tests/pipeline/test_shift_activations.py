"""Activation shifting in whole quantizations: what it brings, when it is left out, and what presets have to have."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest

import quarkfast
from quarkfast.errors import ConfigError
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.pipeline.metadata import read_changes
from support.tiny_models import tiny_model

NETWORK = """g (float[N, 3, 12, 12] x) => (float[N, 8, 12, 12] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w0, b)
    r = Relu (a)
    c = Conv <pads = [1, 1, 1, 1]> (r, w1, b)
    t = Relu (c)
    d = Conv (t, w2, b)
    s = Add (d, r)
    u = Relu (s)
    y = Conv (u, w3, b)
}"""
NOTE = "activation shifting: "


def _network(text=NETWORK):
    rng = np.random.default_rng(3)
    shapes = {"w0": (8, 3, 3, 3), "w1": (8, 8, 3, 3), "w2": (8, 8, 1, 1), "w3": (8, 8, 1, 1)}
    arrays = {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items() if name in text}
    return tiny_model(text, arrays | {"b": rng.normal(0, 0.2, 8).astype(np.float32)})


def _x(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 3, 12, 12)).astype(np.float32)


def _quantized(model=None, **options):
    # Weights, inputs and outputs of 16 bits show what the activations between lose.
    wide = {"dtype": "int16"}
    given = {"preset": "A8W8", "calibration_data": _x(64), "weight_type": "int16", "tensors": {"x": wide, "y": wide}}
    given |= options
    return quarkfast.quantize(_network() if model is None else model, **given)


def _ratio(result, model=None):
    x = _x(64, 9)
    (wanted,) = exact_session(_network() if model is None else model).run(None, {"x": x})
    return sqnr(wanted, exact_session(result.model_bytes).run(None, {"x": x})[0])


def _types(result):
    return [node.op_type for node in result.proto.graph.node]


@pytest.mark.parametrize("strict", [False, True])
def test_outputs_have_less_noise_and_codes_do_what_relu_did(strict, tmp_path):
    plain, shifted = (_quantized(shift_activations=each, strict=strict) for each in (False, True))
    assert any(note.startswith(NOTE) for note in shifted.summary.notes)
    # Of three activations behind Relu the squared step is a quarter, 6 dB; that of the fourth may be larger.
    assert _ratio(shifted) > _ratio(plain) + 2
    # Weights of 8 bits add their noise to both.
    narrow = [_quantized(shift_activations=each, strict=strict, weight_type="int8") for each in (False, True)]
    assert _ratio(narrow[1]) > _ratio(narrow[0]) + 1
    assert "Relu" not in _types(shifted)
    # ONNX Runtime drops those that end where codes do: of the two that no sum ties.
    path = tmp_path / "optimized.onnx"
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(shifted.model_bytes, options)
    kept = [node.output[0] for node in onnx.load(path).graph.node if node.op_type == "Clip"]
    assert _types(shifted).count("Clip") == 3
    assert len(kept) <= 1
    assert _types(shifted).count("Pad") == 1
    # Pads are pass-through: they have the scale of what they read.
    pads = {node.output[0]: node for node in shifted.proto.graph.node if node.op_type == "Pad"}
    makers = {name: node for node in shifted.proto.graph.node for name in node.output}
    for quantizer in (node for node in shifted.proto.graph.node if node.input[0] in pads):
        assert makers[pads[quantizer.input[0]].input[0]].input[1] == quantizer.input[1]


def test_weights_of_8_bits_lose_nothing_by_an_offset():
    """With rounded weights alone a layer of data less c computes what it did: biases have c times these weights."""
    result = _quantized(shift_activations=True, weight_type="int8", bias_correction=False, strict=True)
    arrays = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
    layer = next(node for node in result.proto.graph.node if node.op_type == "Conv" and "Pad" in node.input[0])
    makers = {name: node for node in result.proto.graph.node for name in node.output}
    weight, bias = (
        arrays[maker.input[0]].astype(np.float64) * arrays[maker.input[1]]
        for maker in (makers[name] for name in layer.input[1:])
    )
    pad = makers[makers[makers[layer.input[0]].input[0]].input[0]]
    offset = -float(arrays[pad.input[2]])
    plain = _network()
    given = {each.name: onnx.numpy_helper.to_array(each) for each in plain.graph.initializer}["b"]
    lost = given + offset * weight.sum(axis=(1, 2, 3)) - bias
    # What is left is the offset of the output, one number for all channels, and half a step of the bias.
    step = float(arrays[makers[layer.input[2]].input[1]].max())
    assert np.ptp(lost) <= step * (1 + 1e-3)


@pytest.mark.parametrize("preset", ["U8S8", "XINT8", "A16W8", "BF16"])
def test_presets_without_symmetric_codes_and_float_scales_refuse_it(preset):
    with pytest.raises(ConfigError, match="shift_activations: expected a preset whose activations are symmetric"):
        quarkfast.quantize(_network(), preset=preset, calibration_data=_x(8), shift_activations=True)


def test_it_is_left_out_where_it_brings_nothing_and_the_model_is_that_without_it():
    text = "g (float[N, 3, 12, 12] x) => (float[N, 8, 10, 10] y) { a = Conv (x, w0, b) y = Sigmoid (a) }"
    model = _network(text)
    plain, shifted = (_quantized(model, shift_activations=each, strict=True) for each in (False, True))
    assert "activation shifting was left out: no offset makes scales smaller" in shifted.summary.notes
    assert shifted.model_bytes == plain.model_bytes


def test_it_is_left_out_where_outputs_are_worse(monkeypatch):
    """Offsets three times as large as the ranges."""
    name = "quarkfast.pipeline.shift_steps.find_shifts"

    def too_much(groups, reaches, policy, find=quarkfast.pipeline.shift_steps.find_shifts):
        found = find(groups, reaches, policy)
        return None if found is None else found._replace(offsets=dict.fromkeys(found.offsets, 8.0))

    monkeypatch.setattr(name, too_much)
    plain, shifted = (_quantized(shift_activations=each) for each in (False, True))
    (note,) = [each for each in shifted.summary.notes if each.startswith("activation shifting was left out")]
    assert note.endswith("strict=True keeps it")
    assert shifted.model_bytes == plain.model_bytes


def _levers(least, **options):
    made = quarkfast.quantize(_network(), preset="A8W8", calibration_data=_x(64), min_sqnr=least, **options)
    return made.summary.levers


def _shifted(levers):
    return [index for index, each in enumerate(levers) if each.lever == "shift_activations=True"]


def test_the_ladder_shifts_where_that_may_be_enough_and_again_beside_the_rest():
    far = _levers(200.0)
    assert _shifted(far) == [len(far) - 1]
    (descent,) = [index for index, each in enumerate(far) if each.lever == "rounding=descent"]
    enough = _levers(far[descent].assured + 1)
    assert _shifted(enough) == [descent + 1] == [len(enough) - 1]
    assert enough[-1].kept
    # What shifting brings by itself, and a little more.
    short = _levers(enough[-1].assured + 0.1)
    assert _shifted(short) == [descent + 1, len(short) - 1]
    assert not short[descent + 1].kept
    assert any("int16" in each.lever for each in short[descent + 2 : -1])


def test_the_ladder_leaves_offsets_to_who_named_them():
    assert not _shifted(_levers(200.0, shift_activations=False))


def test_ranges_without_limits_are_fitted_beside_a_rounding():
    """Limits have codes by then."""

    def scales(**options):
        result = quarkfast.quantize(
            _network(), preset="A8W8", calibration_data=_x(64), rounding="descent", shift_activations=True, **options
        )
        assert any(note.startswith(NOTE) for note in result.summary.notes)
        return {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}

    fitted, whole = scales(), scales(search_ranges=False)
    assert fitted["d_scale"] < whole["d_scale"]
    assert all(fitted[f"{name}_scale"] == whole[f"{name}_scale"] for name in ("r", "t", "u"))


def test_tensors_of_16_bits_get_no_pad():
    result = _quantized(shift_activations=True, strict=True, tensors={"r": {"dtype": "int16"}})
    assert "Pad" not in _types(result)
    assert "r" not in read_changes(onnx_ir.from_proto(result.proto), "offsets")


def test_the_ladder_passes_by_where_nothing_can_be_shifted():
    text = "g (float[N, 3, 12, 12] x) => (float[N, 8, 10, 10] y) { a = Conv (x, w0, b) y = Sigmoid (a) }"
    result = quarkfast.quantize(_network(text), preset="A8W8", calibration_data=_x(32), min_sqnr=200.0)
    assert "shift_activations=True" not in [each.lever for each in result.summary.levers]


def test_a_saved_calibration_is_that_without_offsets(tmp_path):
    path = tmp_path / "seen.json"
    quarkfast.calibrate(_network(), _x(64), preset="A8W8").save(path)
    assert any(
        note.startswith(NOTE)
        for note in quarkfast.quantize(
            _network(), preset="A8W8", calibration=path, shift_activations=True
        ).summary.notes
    )


@pytest.mark.parametrize("offsets", [None, "[1", '["r"]', '{"r": "2", "t": [1], "u": NaN}'])
def test_tensors_are_compared_with_what_they_were_less_the_offset(tmp_path, offsets):
    """Metadata that are something else count as none."""
    reference, path = tmp_path / "float.onnx", tmp_path / "shifted.onnx"
    onnx.save(_network(), reference)
    model = _quantized(shift_activations=True, strict=True).proto
    if offsets is not None:
        next(each for each in model.metadata_props if each.key == "quarkfast.offsets").value = offsets
    onnx.save(model, path)
    found = {each.tensor: each for each in quarkfast.compare_models(reference, path, _x(16)).tensors}
    for name in ("r", "t", "u"):
        assert (found[name].sqnr > 25) is (offsets is None)
        assert found[name].clipped < 0.01


def test_gains_of_finer_weights_are_predicted_where_the_model_is_made_anew(tmp_path):
    """Their biases have offsets times the sums of the rounded weights."""
    reference, path = tmp_path / "float.onnx", tmp_path / "shifted.onnx"
    onnx.save(_network(), reference)
    quarkfast.quantize(reference, path, "A8W8", _x(32), shift_activations=True, strict=True)
    for calibration_data, kinds in ((None, {"activation"}), (_x(32), {"activation", "weight"})):
        found = quarkfast.compare_models(reference, path, _x(8), predict=9, calibration_data=calibration_data)
        kind_of = {each.tensor: each.kind for each in found.worst}
        assert {kind_of[name] for name, _ in found.prediction.alone} == kinds
