"""`min_sqnr`: options that cost more, the cheapest first, until the outputs are good enough."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.pair_trial import PairTrial
from quarkfast.quantization.activation_precision import choose_activations
from quarkfast.search.quality import Quality
from quarkfast.search.quality_goal import QualityGoal
from support.quality_models import model, samples
from support.tiny_models import run_as_written, tiny_model


def quantized(least: float, **options) -> quarkfast.QuantizedModel:
    options = {"preset": "A8W8", "weight_type": "int16", "calibration_data": samples()} | options
    return quarkfast.quantize(model(), min_sqnr=least, **options)


def ratio(result: quarkfast.QuantizedModel) -> float:
    x = samples(64, 5)
    (expected,) = exact_session(model()).run(None, {"x": x})
    return sqnr(expected, run_as_written(result.model_bytes, x))


def test_what_is_good_enough_stays_as_it_was_asked_for():
    result = quantized(-50.0)
    assert [each.lever for each in result.summary.levers] == ["as asked"]
    # Eight of the samples judge.
    fitting = [{"x": row[None]} for row in samples()[:24]]
    plain = quarkfast.quantize(model(), preset="A8W8", weight_type="int16", calibration_data=fitting)
    assert result.model_bytes == plain.model_bytes


def test_activations_that_8_bits_cannot_carry_get_16():
    plain, result = (quantized(least) for least in (-50.0, 35.0))
    widened = result.summary.levers[-1]
    assert widened.kept
    assert widened.lever.startswith("int16 for ")
    assert result.summary.levers[-1].sqnr > result.summary.levers[0].sqnr
    assert ratio(result) > ratio(plain) + 6
    types = {node.output[0]: node for node in result.proto.graph.node if node.op_type == "QuantizeLinear"}
    zeros = {each.name: each.data_type for each in result.proto.graph.initializer}
    wide = [node.input[0] for node in types.values() if zeros.get(node.input[2]) == onnx.TensorProto.INT16]
    assert 0 < len(wide) < len(types)


def test_a_target_that_cannot_be_met_is_told_and_the_best_is_kept():
    result = quantized(200.0)
    levers = result.summary.levers
    best = max(each.sqnr for each in levers if each.kept)
    found = f"min_sqnr: 200 dB cannot be met, {best:.1f} dB is the best that was found, "
    assert any(note.startswith(found) for note in result.summary.notes)
    names = ["as asked", "output_bias_correction=True", "method=minmse", "rounding=descent"]
    assert [each.lever for each in levers[:4]] == names


def test_an_option_that_is_given_is_not_changed():
    given = {"method": "percentile", "rounding": "nearest", "shift_activations": False, "output_bias_correction": False}
    result = quantized(200.0, **given)
    assert not [each for each in result.summary.levers if "=" in each.lever]


def test_activations_get_16_bits_beside_a_rounding_that_is_given():
    result = quantized(40.0, rounding="descent")
    assert [each.lever for each in result.summary.levers[:2]] == ["as asked", "method=minmse"]
    assert any(each.lever.startswith("int16 for ") and each.kept for each in result.summary.levers)


@pytest.mark.parametrize("rounding", ["nearest", "descent"])
def test_activations_come_before_weights_whose_codes_were_chosen_by_outputs(rounding):
    names = [
        each.lever.split(" ")[0] for each in quantized(200.0, rounding=rounding, weight_type="int8").summary.levers
    ]
    order = ["weights", "int16"] if rounding == "nearest" else ["int16", "weights"]
    assert [name for name in names if name in order] == order


def test_codes_that_were_no_help_are_chosen_again_beside_activations_of_16_bits():
    levers = quantized(200.0, weight_type="int8").summary.levers
    chosen = [at for at, each in enumerate(levers) if each.lever == "rounding=descent"]
    assert [levers[at].kept for at in chosen] == [False, True]
    between = levers[chosen[0] : chosen[1]]
    assert any(each.lever.startswith("int16 for ") and each.kept for each in between)
    best = max(each.sqnr for each in between if each.kept)
    assert levers[chosen[1]].sqnr > best + 3


def test_biases_make_up_for_means_before_codes_do():
    kept = {each.lever: each.kept for each in quantized(200.0, preset="XINT8", weight_type="int8").summary.levers}
    assert list(kept)[:3] == ["as asked", "output_bias_correction=True", "rounding=descent"]
    assert kept["output_bias_correction=True"]


def test_codes_that_helped_are_not_chosen_again():
    given = {"preset": "XINT8", "weight_type": "int8", "output_bias_correction": False}
    levers = quantized(200.0, **given).summary.levers
    assert [each.kept for each in levers if each.lever == "rounding=descent"] == [True]


def test_logits_count_as_outputs_do():
    """Probabilities of a model that is sure tell little of what its logits lost."""
    sure = model()
    sure.graph.node[-1].output[0] = "logits"
    sure.graph.node.append(onnx.helper.make_node("Softmax", ["logits"], ["y"], "softmax"))
    plain, result = (
        quarkfast.quantize(sure, preset="A8W8", calibration_data=samples(), weight_type="int16", min_sqnr=least)
        for least in (-50.0, 30.0)
    )
    first, last = plain.summary.levers[0], result.summary.levers[-1]
    assert first.logits is not None
    assert first.logits != pytest.approx(first.sqnr, abs=0.5)
    assert min(last.logits, last.sqnr) >= 30
    assert f"(logits {last.logits:.1f})" in str(last)
    poor = quarkfast.quantize(sure, preset="A8W8", calibration_data=samples(), method="minmax", min_sqnr=200.0)
    assert any(" of logits) is the best that was found" in note for note in poor.summary.notes)


@pytest.mark.parametrize(
    ("found", "best", "better"),
    [
        ((12.0, None), (11.0, None), True),
        ((11.05, None), (11.0, None), False),
        ((12.0, 10.0), (11.0, 10.0), False),
        ((12.0, 9.0), (11.0, 10.0), False),  # outputs rise by chance
        ((10.9, 12.0), (11.0, 10.0), True),
        ((26.0, 12.0), (40.0, 10.0), True),
        ((25.5, 25.5), (40.0, 24.9), True),  # good enough
    ],
)
def test_the_worse_of_outputs_and_logits_must_rise(found, best, better):
    goal = QualityGoal(min_sqnr=25.0)
    one, other = (Quality(ratio, None, logits) for ratio, logits in (found, best))
    assert goal.is_better(one, other) == better


@pytest.mark.parametrize(("found", "better"), [(16.9, False), (17.1, True), (25.0, True)])
def test_a_lever_that_costs_more_has_to_bring_more(found, better):
    goal = QualityGoal(min_sqnr=25.0)
    best = Quality(11.0 if found < 25 else 24.0)
    assert goal.is_better(Quality(found), best, 6.0) == better


@pytest.mark.parametrize(
    ("metric", "ratio", "better"), [(80.0, 12.0, False), (80.0, 18.0, True), (60.0, 18.0, False), (99.5, 12.0, True)]
)
def test_a_metric_alone_does_not_say_that_a_lever_that_costs_more_is_worth_it(metric, ratio, better):
    goal = QualityGoal(max_drop=1.0, reference=Quality(np.inf, 100.0))
    assert goal.is_better(Quality(ratio, metric), Quality(11.0, 70.0), 6.0) == better
    assert goal.is_better(Quality(ratio, metric), Quality(11.0, 70.0)) == (metric > 70)


def test_a_ratio_is_met_with_what_is_in_doubt_taken_off():
    goal = QualityGoal(min_sqnr=25.0)
    assert goal.is_met(Quality(26.0, None, 27.0, doubt=1.0))
    unsure = Quality(26.0, None, 27.0, doubt=1.1)
    assert not goal.is_met(unsure)
    assert goal.notes(unsure, 0.1) == [
        "min_sqnr: 25 dB cannot be met, 26.0 dB (27.0 of logits) is the best that was found, 24.9 assured; "
        "max_above_8_bits above 0.25 lets levers widen more of the bytes"
    ]
    assert goal.is_better(Quality(25.5, doubt=0.4), unsure)


def test_a_target_that_few_samples_meet_by_chance_pulls_another_lever():
    """One of the samples that judge has most of the noise: others may have more of it."""
    plain = quantized(-50.0).summary
    (first,) = plain.levers
    assert first.assured < first.sqnr - 0.5
    assert plain.judged == 8
    between = (first.assured + first.sqnr) / 2
    levers = quantized(between).summary.levers
    assert len(levers) > 1
    assert levers[-1].assured >= between


def test_one_sample_that_judges_says_nothing_of_others():
    result = quantized(-50.0, calibration_data=samples(7)).summary
    assert result.judged == 1
    assert result.levers[0].assured == result.levers[0].sqnr
    assert ("judged on", "1 sample held apart, which says nothing of others") in result.rows()


def test_a_metric_that_falls_is_not_made_up_for_by_decibels():
    goal = QualityGoal(max_drop=1.0, metric=lambda session, data: 0.0)
    goal.reference = Quality(np.inf, 90.0)
    assert not goal.is_better(Quality(30.0, 80.0), Quality(10.0, 82.0))
    assert goal.is_better(Quality(9.0, 83.0), Quality(10.0, 82.0))
    assert not goal.is_better(Quality(9.0, 82.0, 12.0), Quality(10.0, 82.0, 11.0))


def small_weight_that_matters() -> onnx.ModelProto:
    """A product of a small weight, and two of large ones that add a thousandth to it."""
    rng = np.random.default_rng(4)
    shapes = {"w": (32, 8), "v": (32, 64), "u": (64, 8)}
    weights = {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items()}
    text = """g (float[N, 32] x) => (float[N, 8] y) {
        a = MatMul (x, w)  b = MatMul (x, v)  c = Mul (b, small)  d = MatMul (c, u)  y = Add (a, d)
    }"""
    return tiny_model(text, weights | {"small": np.float32([1e-3])})


def test_weights_get_16_bits_where_they_take_what_is_missing():
    given = {"preset": "A16W8", "calibration_data": samples()}
    result = quarkfast.quantize(small_weight_that_matters(), min_sqnr=46.0, **given)
    last = result.summary.levers[-1]
    # Half of the noise that is aimed at, which is as far above 46 dB as is in doubt.
    aim = 46 + max(1.0, result.summary.levers[0].sqnr - result.summary.levers[0].assured)
    assert last.lever == f"weights that alone leave {aim + 10 * np.log10(2):.1f} dB"
    assert last.kept
    assert last.sqnr > last.assured > 46 > result.summary.levers[0].sqnr
    types = {each.name: each.data_type for each in result.proto.graph.initializer}
    assert types["w_quantized"] == onnx.TensorProto.INT16
    assert types["v_quantized"] == types["u_quantized"] == onnx.TensorProto.INT8
    strict = quarkfast.quantize(small_weight_that_matters(), min_sqnr=46.0, strict=True, **given)
    assert not [each for each in strict.summary.levers if each.lever.startswith("weights")]


def unequal_channels_and_weights() -> onnx.ModelProto:
    """Returns a model with an output for which activations matter, and one for which weights do."""
    rng, factors = np.random.default_rng(4), np.float32([1, 30, 1, 30])
    shapes = {"w1": (32, 4), "w2": (4, 24), "v": (32, 64), "w": (64, 16)}
    weights = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    text = """g (float[N, 32] x) => (float[N, 24] y, float[N, 16] z) {
        a = MatMul (x, w1)  t = Tanh (a)  m = Mul (t, f)  n = Neg (m)  o = Mul (n, i)  y = MatMul (o, w2)
        b = MatMul (x, v)  s = Sigmoid (b)  z = MatMul (s, w)
    }"""
    return tiny_model(text, weights | {"f": factors, "i": 1 / factors})


def test_weights_and_activations_get_more_bits_together_where_weights_alone_were_no_help(monkeypatch):
    given = {"preset": "A8W8", "calibration_data": samples(), "rounding": "nearest", "method": "minmax"}
    given |= {"equalize": False, "output_bias_correction": False, "min_sqnr": 45.0}
    model = unequal_channels_and_weights()
    in_turn = quarkfast.quantize(model, **given).summary.levers
    is_better, asked = QualityGoal.is_better, []

    def refusing_the_first(*args):
        asked.append(args)
        return len(asked) > 1 and is_better(*args)

    monkeypatch.setattr(QualityGoal, "is_better", refusing_the_first)
    together = quarkfast.quantize(model, **given).summary.levers
    assert [(each.lever.split()[0], each.kept) for each in in_turn] == [
        *(("as", True), ("weights", True), ("int16", True))
    ]
    assert [(each.lever.split()[0], each.kept) for each in together] == [
        *(("as", True), ("weights", False), ("int16", True), ("both", True))
    ]
    assert together[-1].sqnr == in_turn[-1].sqnr > together[-2].sqnr


def test_nodes_stay_float_where_a_device_takes_no_16_bits():
    narrow = replace(quarkfast.TARGETS["ryzenai-a8w8"], activation_types=("int8",))
    plain, result = (quantized(least, target=narrow, shift_activations=False) for least in (-50.0, 60.0))
    (lever,) = (each for each in result.summary.levers if each.lever.startswith("float for "))
    assert lever.lever == "float for 5 nodes ('gemm_0', 'sigmoid_1', 'mul_2', ...)"
    assert lever.kept
    assert ratio(result) > ratio(plain) + 1.5
    assert 0 < result.summary.above_8_bits.activations <= 0.25
    assert "min_sqnr: ryzenai-a8w8 takes no int16 activations" in result.summary.notes
    left = {each.name: each.reason for each in result.summary.left_float}
    assert {"sigmoid_1", "mul_2"} <= left.keys()


def test_progress_tells_how_many_runs_choose_tensors():
    seen = []
    quantized(
        35.0, progress=lambda stage, done, total: seen.append((done, total)) if stage == "choose tensors" else None
    )
    counted = [(done, total) for done, total in seen if total is not None]
    assert len(counted) > 4
    assert all(done <= total for done, total in counted)
    assert counted[-1][0] == max(done for done, _ in counted)


@pytest.mark.parametrize("stage", ["judge", "choose tensors"])
def test_what_is_interrupted_leaves_nothing(tmp_path, stage):
    def stop(name, done, total):
        if name == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quantized(35.0, output=tmp_path / "q.onnx", progress=stop)
    assert not list(tmp_path.iterdir())


def test_the_same_bytes_on_every_run():
    assert quantized(35.0).model_bytes == quantized(35.0).model_bytes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"preset": "BF16_WO", "weight_type": "bfloat16"},
            "min_sqnr: expected a preset that levers change, got BF16_WO",
        ),
        ({"calibration_data": None}, "min_sqnr: expected calibration_data to judge outputs on, got none"),
        ({"calibration_data": "random"}, "min_sqnr: expected real samples to judge outputs on, got random ones"),
        ({"calibration": object(), "calibration_data": None}, "min_sqnr: expected calibration_data"),
        ({"min_sqnr": float("nan")}, "min_sqnr: expected a finite number of dB, got nan"),
    ],
)
def test_what_cannot_be_judged_is_refused(options, message):
    with pytest.raises(quarkfast.ConfigError, match=message):
        quantized(**{"least": options.pop("min_sqnr", 20.0), **options})


def test_the_command_line_writes_a_report_of_the_levers(tmp_path):
    onnx.save(model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=samples())
    paths = ["-o", tmp_path / "q.onnx", "--report", tmp_path / "r.json", "--calibration-data", tmp_path / "x.npz"]
    assert (
        main(list(map(str, ["quantize", tmp_path / "m.onnx", *paths, "--weight-type", "int16", "--min-sqnr", "35"])))
        == ExitCode.OK
    )
    levers = json.loads((tmp_path / "r.json").read_text())["levers"]
    assert levers[0]["lever"] == "as asked"
    assert set(levers[0]) == {"lever", "seconds", "bytes", "sqnr", "kept", "metric", "logits", "assured"}
    assert (tmp_path / "q.onnx").read_bytes() == quantized(35.0).model_bytes


def test_pairs_left_out_of_a_trial_round_nothing():
    result = quarkfast.quantize(model(), preset="A8W8", calibration_data=samples(), weight_type="int16")
    feed = {"x": samples(4, 7)}
    trial = PairTrial(result.model_bytes, model().SerializeToString(), [feed])
    (expected,) = exact_session(model()).run(None, feed)
    found = run_as_written(result.model_bytes, feed["x"])
    noise = np.square(np.float64(expected) - found).sum() / np.square(np.float64(expected)).sum()
    assert trial.noise(tuple(trial.sizes)) == pytest.approx(noise)
    trial.close()  # a session is opened again where noise is asked for
    # Weights of 16 bits remain, whose smallest rows have 8 of these.
    assert trial.noise(()) < noise / 100
    assert trial.sizes["x"] == 4 * 32
    trial.close()


def test_a_tensor_that_two_pairs_read_is_left_out_at_both():
    """One of them reads codes that another node reads too, so that these stay."""
    ops = '<ir_version: 10, opset_import: ["": 21]>'
    wanted = onnx.parser.parse_model(f"{ops} g (float[4] x) => (float[4] y) {{ y = Add (x, x) }}")
    quantized = onnx.parser.parse_model(
        f"""{ops} g (float[4] x) => (float[4] y) <float s = {{0.5}}, int8 z = {{0}}> {{
            a = QuantizeLinear (x, s, z)  b = DequantizeLinear (a, s, z)  c = DequantizeLinear (a, s, z)
            y = Add (b, c)
        }}"""
    )
    x = np.float32([0.25, 0.6, 1.0, -1.2])
    trial = PairTrial(quantized.SerializeToString(), wanted.SerializeToString(), [{"x": x}])
    assert trial.sizes == {"x": 4}
    assert trial.noise(()) == 0
    rounded = np.rint(x / np.float32(0.5)) * 0.5
    assert trial.noise(["x"]) == pytest.approx(np.square(x - rounded).sum() / np.square(x).sum(), rel=1e-6)


@pytest.mark.parametrize("bad", [("c",), ("b", "f"), ("h",)])
def test_tensors_are_chosen_by_what_they_do_within_the_limit(bad):
    """Noise adds up: one tensor that makes most of it is found among others."""
    sizes = dict.fromkeys("abcdefgh", 10)

    def noise(rounded):
        return sum(1.0 if name in bad else 1e-4 for name in rounded)

    chosen = choose_activations(sizes, noise, noise, 0.01, 20)
    assert set(chosen) == set(bad)
    assert choose_activations(sizes, noise, noise, 10.0, 20) == ()
    # Where the limit does not let in all that is needed, what it lets in is taken.
    assert len(choose_activations(sizes, noise, lambda rounded: float(len(rounded)), 0.5, 20)) == 2


def test_groups_that_matter_little_are_not_looked_into():
    sizes, asked = dict.fromkeys(map(str, range(64)), 10), []

    def own(rounded):
        asked.append(rounded)
        return sum(1.0 if name == "5" else 1e-6 for name in rounded)

    assert choose_activations(sizes, own, own, 0.01, 160) == ("5",)
    assert len(asked) < 2 * 8 + 8
