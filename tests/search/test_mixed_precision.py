"""`mixed_precision`: layers with other types than the rest."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.config.mixed_precision import read_mixed_precision
from quarkfast.config.quark import get_default_config, scheme_of
from quarkfast.config.quark.algorithm import AutoMixprecisionConfig
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.quantization.layer_candidates import LayerCandidate
from quarkfast.search.layer_sensitivity import size_of
from support.tiny_models import run_as_written, tiny_model

# A chain of four layers. One weight of the third is 200 times as large as the others, and nothing reads the channel
# behind it: with one scale, 8 bits leave little of the rest.
TEXT = """g (float[N, 16] x) => (float[N, 8] y) {
    a = Gemm <transB = 0> (x, w1, b1)
    r = Relu (a)
    c = Gemm (r, w2, b2)
    s = Relu (c)
    d = Gemm (s, w3, b3)
    t = Relu (d)
    y = Gemm (t, w4, b4)
}"""


def model() -> onnx.ModelProto:
    rng = np.random.default_rng(11)
    weights = {}
    for index, (rows, columns) in enumerate([(16, 16), (16, 16), (16, 16), (16, 8)], 1):
        weights[f"w{index}"] = rng.normal(0, rows**-0.5, (rows, columns)).astype(np.float32)
        weights[f"b{index}"] = rng.normal(0, 0.1, columns).astype(np.float32)
    weights["w3"][0, 0] = 50
    weights["w4"][0] = 0
    found = tiny_model(TEXT, weights)
    for node in found.graph.node:
        node.name = f"layer_{node.output[0]}"
    return found


def samples(count: int = 32, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, (count, 16)).astype(np.float32)


def quantized(settings, **options):
    """A8W8 with layers in 16 bits, unless the settings say otherwise."""
    given = {"preset": "A8W8", "calibration_data": samples(), "strict": True} | options
    types = {"activation": {"dtype": "int16"}, "weight": {"dtype": "int16"}}
    settings = settings if "forms" in settings else types | settings
    return quarkfast.quantize(model(), mixed_precision=settings, **given)


def weight_types(result) -> dict[str, str]:
    """The types of the stored weights, by their float names."""
    stored = {
        each.name: onnx.TensorProto.DataType.Name(each.data_type).lower() for each in result.proto.graph.initializer
    }
    return {name: stored[each] for each in stored for name in ("w1", "w2", "w3", "w4") if each.startswith(f"{name}_q")}


def test_without_a_limit_every_layer_changes():
    result = quantized({})
    assert set(weight_types(result).values()) == {"int16"}
    assert "mixed precision: int16 for 4 of 4 layers ('layer_a', 'layer_c'" in result.summary.notes[-1]


def test_layers_are_named_excluded_and_given_forms_of_their_own():
    changed = weight_types(quantized({"include": ["layer_a", "layer_c"], "exclude": ["layer_c"]}))
    assert changed == {"w1": "int16", "w2": "int8", "w3": "int8", "w4": "int8"}
    forms = [{"nodes": ["layer_y"], "weight": {"dtype": "int16"}}, {"weight": {"dtype": "uint8"}}]
    assert weight_types(quantized({"forms": forms})) == {"w1": "uint8", "w2": "uint8", "w3": "uint8", "w4": "int16"}


def test_rules_of_the_user_win():
    result = quantized({}, layers=[{"nodes": ["layer_a"], "weight": {"dtype": "int8"}}])
    assert weight_types(result)["w1"] == "int8"


def test_a_model_without_such_layers_keeps_the_presets_types():
    result = quantized({"op_types": ["Conv"]})
    assert set(weight_types(result).values()) == {"int8"}
    assert result.summary.notes[-1] == "mixed precision: none of 0 layers has other types than the preset"


@pytest.mark.parametrize("name", ["S16S16_MIXED_S8S8", "BF16_MIXED_BFP16", "BF16_MIXED_MXINT8"])
def test_quarks_mixed_presets_run(name):
    result = quarkfast.quantize(model(), preset=scheme_of(get_default_config(name)), calibration_data=samples())
    onnx.checker.check_model(result.proto, full_check=True)
    assert "for 4 of 4 layers" in result.summary.notes[-1]


def ratio(result) -> float:
    x = samples(64, 5)
    (expected,) = exact_session(model()).run(None, {"x": x})
    return sqnr(expected, run_as_written(result.model_bytes, x))


def lever_of(result):
    (kept,) = (each for each in result.summary.levers if each.kept)
    return kept


def wide(settings, **options):
    """From 16 bits to 8, where layers matter least."""
    types = {"forms": [{"activation": {"dtype": "int8"}, "weight": {"dtype": "int8"}}]}
    return quantized(types | settings, activation_type="int16", weight_type="int16", **options)


def test_quality_raises_the_layer_that_matters_and_no_more():
    result = quantized({"objective": "quality", "threshold": 28})
    assert weight_types(result)["w3"] == "int16"
    assert "int8" in weight_types(result).values()
    kept, plain = lever_of(result), result.summary.levers[0]
    assert kept.sqnr >= 28 > plain.sqnr
    assert ratio(result) > ratio(quantized({"include": ["layer_a"], "exclude": ["layer_a"]})) + 6
    assert f"{kept.sqnr:.1f} dB instead of {plain.sqnr:.1f} dB on 8 samples held apart" in result.summary.notes[-1]


def test_speed_lowers_what_matters_least_and_stays_above_the_threshold():
    result = wide({"threshold": 28})
    types = weight_types(result)
    assert types["w3"] == "int16"
    assert "int8" in types.values()
    assert lever_of(result).sqnr >= 28
    assert lever_of(result).bytes < result.summary.levers[0].bytes


def test_nothing_changes_where_nothing_needs_to_or_nothing_helps():
    met = quantized({"objective": "quality", "threshold": 1})
    assert set(weight_types(met).values()) == {"int8"}
    assert len(met.summary.levers) == 1
    out_of_reach = wide({"threshold": 300})
    assert set(weight_types(out_of_reach).values()) == {"int16"}
    assert "sqnr 300 cannot be met" in out_of_reach.summary.notes[-1]
    same = {"activation": {"dtype": "int8"}, "weight": {"dtype": "int8"}}
    useless = quantized({"forms": [same], "objective": "quality", "threshold": 300})
    assert "none of 4 layers has other types than the preset" in useless.summary.notes[-1]


def test_all_change_without_a_ranking_where_that_is_good_enough():
    result = wide({"threshold": 1})
    assert set(weight_types(result).values()) == {"int8"}
    assert len(result.summary.levers) == 2


def test_quality_that_cannot_be_met_takes_what_comes_near_and_says_so():
    result = quantized({"objective": "quality", "threshold": 300})
    assert weight_types(result)["w3"] == "int16"
    assert "sqnr 300 cannot be met" in result.summary.notes[-1]


@pytest.mark.parametrize(
    ("share_of", "share", "count"), [("layers", 0.25, 1), ("layers", 0.5, 2), ("bytes", 0.3, 1), ("operations", 0.3, 1)]
)
def test_a_share_is_the_most_that_changes(share_of, share, count):
    result = quantized({"objective": "quality", "share": share, "share_of": share_of})
    assert list(weight_types(result).values()).count("int16") == count
    assert weight_types(result)["w3"] == "int16"


def test_layers_are_only_ranked_when_asked():
    result = quantized({"rank_only": True})
    assert set(weight_types(result).values()) == {"int8"}
    plain, *alone = result.summary.levers
    assert plain.kept
    assert {each.lever for each in alone} == {f"int16 for 'layer_{name}' alone" for name in "acdy"}
    assert max(alone, key=lambda each: each.sqnr) is alone[0]
    assert alone[0].lever == "int16 for 'layer_d' alone"


def test_of_several_forms_a_layer_gets_the_best():
    forms = [{"weight": {"dtype": "uint8"}}, {"weight": {"dtype": "int16"}}]
    result = quantized({"forms": forms, "include": ["layer_d"]})
    assert weight_types(result)["w3"] == "int16"


@pytest.mark.parametrize("metric", ["psnr", "l2", "kl", "cosine"])
def test_every_metric_finds_the_layer(metric):
    result = quantized({"objective": "quality", "share": 0.25, "metric": metric, "output": 0, "samples": None})
    assert weight_types(result)["w3"] == "int16"


def test_floats_and_blocks_mix_with_thresholds_too():
    forms = [{"activation": {"dtype": "mxint8"}, "weight": {"dtype": "mxint8"}}]
    result = quantized({"forms": forms, "threshold": 35}, preset="BF16")
    assert lever_of(result).sqnr >= 35
    onnx.checker.check_model(result.proto, full_check=True)


def test_the_same_bytes_on_every_run_and_in_the_file(tmp_path):
    first, again = (
        quantized({"objective": "quality", "threshold": 28}, output=path) for path in (None, tmp_path / "m")
    )
    assert first.model_bytes == again.model_bytes == (tmp_path / "m").read_bytes()


def test_the_command_line_takes_the_settings_as_json(tmp_path):
    onnx.save(model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=samples())
    settings = {"weight": {"dtype": "int16"}, "objective": "quality", "threshold": 28}
    names = [str(tmp_path / name) for name in ("m.onnx", "q.onnx", "x.npz", "r.json")]
    flags = ["-p", "A8W8", "--strict", "--calibration-data", names[2]]
    flags += ["--mixed-precision", json.dumps(settings), "--report"]
    assert main(["quantize", names[0], "-o", names[1], *flags, names[3]]) == ExitCode.OK
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["levers"][0]["lever"] == "as asked, without mixed precision"
    assert any(note.startswith("mixed precision: int16 weights for ") for note in report["notes"])


def test_layers_whose_input_others_read_too_may_be_left_alone():
    proto = tiny_model(
        "g (float[N, 16] x) => (float[N, 16] y) { a = Gemm (x, w1) b = Gemm (x, w2) c = Add (a, b) y = Gemm (c, w2) }",
        {name: np.eye(16, dtype=np.float32) for name in ("w1", "w2")},
    )
    settings = {"weight": {"dtype": "int16"}, "own_inputs": True}
    result = quarkfast.quantize(proto, calibration_data=samples(), preset="A8W8", mixed_precision=settings)
    assert "for 1 of 1 layers" in result.summary.notes[-1]


def test_multiplications_are_not_counted_where_shapes_are_unknown():
    settings = read_mixed_precision({"weight": {"dtype": "int16"}, "share_of": "operations"})
    message = "share_of: expected layers or bytes where the shapes of 'a' are unknown, got operations"
    with pytest.raises(quarkfast.ConfigError, match=message):
        size_of(LayerCandidate("a", 4, None, settings.forms), settings)


def test_random_samples_and_a_calibration_cannot_judge():
    with pytest.raises(quarkfast.ConfigError, match="expected real samples to judge outputs on, got random ones"):
        quantized({"threshold": 20}, calibration_data="random")
    with pytest.raises(quarkfast.ConfigError, match="expected calibration_data to judge outputs on, got none"):
        quantized({"threshold": 20}, calibration_data=None)
    known = quarkfast.calibrate(model(), samples())
    with pytest.raises(quarkfast.ConfigError, match="expected calibration_data to judge outputs on, got a calibration"):
        quantized({"threshold": 20}, calibration_data=None, calibration=known)


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        (
            {"threshold": 20, "output": 1},
            {},
            r"output: expected the index of an output of floats \(0\), got 1",
        ),
        ({"include": ["nothing"]}, {}, "mixed_precision: include: expected the name of a node, got 'nothing'"),
        ({"exclude": ["^("]}, {}, "mixed_precision: exclude: expected a regular expression"),
        ({}, {"min_sqnr": 20}, "min_sqnr: expected it or mixed_precision, got both"),
    ],
)
def test_what_makes_no_sense_meets_a_sentence(settings, options, message):
    with pytest.raises(quarkfast.ConfigError, match=message):
        quantized(settings, **options)


def quark(**settings):
    """From 16 bits to 8, as a script for Quark says it: the quantizer, its algorithms, its layer configuration."""
    layer = quarkfast.QLayerConfig(quarkfast.Int16Spec(), weight=quarkfast.Int16Spec())
    target = quarkfast.QLayerConfig(quarkfast.Int8Spec(), weight=quarkfast.Int8Spec())
    given = {"target_layer_config": target, "metric_default": "sqnr", "metric_threshold": -28} | settings
    algorithms = [AutoMixprecisionConfig(**given)]
    return quarkfast.ModelQuantizer(quarkfast.QConfig(layer, algo_config=algorithms)), algorithms, layer


@pytest.mark.parametrize(
    "settings", [{}, {"metric_default": "l2", "metric_threshold": 0.5}, {"metric_threshold": None}]
)
def test_quarks_class_runs_in_a_configuration_and_beside_one(settings):
    quantizer, algorithms, layer = quark(**settings)
    inside = quantizer.quantize_model(model(), calibration_data_reader=samples())
    beside = quarkfast.ModelQuantizer(quarkfast.QConfig(layer))
    assert beside.quantize_model(model(), None, samples(), algorithms=algorithms) == inside
    onnx.checker.check_model(inside, full_check=True)


def test_quarks_threshold_in_decibels_holds():
    quantizer, _, _ = quark()
    result = quarkfast.quantize(model(), preset=quantizer.scheme, calibration_data=samples())
    assert weight_types(result)["w3"] == "int16"
    assert "int8" in weight_types(result).values()
    assert lever_of(result).sqnr >= 28
