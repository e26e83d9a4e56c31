"""`max_drop`: a metric of the user's own decides how much is enough."""

from __future__ import annotations

import json
import sys

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.pipeline.summary import LeverResult, pareto_front
from support.quality_models import model, samples

ROWS = samples(200, 11)
(OUTPUTS,) = exact_session(model()).run(None, {"x": ROWS})
ANSWERS = OUTPUTS.argmax(axis=1)


def agreement(session, data) -> float:
    """The percentage of rows with the float model's answer."""
    (outputs,) = session.run(None, {"x": data})
    return 100 * float((outputs.argmax(axis=1) == ANSWERS).mean())


def judged(max_drop: float, **options) -> quarkfast.QuantizedModel:
    given = {"preset": "A8W8", "weight_type": "int16", "calibration_data": samples(), "metric": agreement}
    return quarkfast.quantize(model(), max_drop=max_drop, **(given | {"metric_data": ROWS} | options))


def test_a_metric_that_drops_little_leaves_the_model_as_it_was_asked_for():
    result = judged(100.0)
    assert [each.lever for each in result.summary.levers] == ["as asked"]
    assert result.model_bytes == judged(100.0, min_sqnr=-50.0).model_bytes
    assert result.summary.levers[0].metric == agreement(exact_session(result.model_bytes), ROWS)
    assert "of the float model 100" in result.summary.notes[-1]


def test_levers_are_pulled_until_the_metric_is_near_enough():
    result = judged(4.0)
    first, last = result.summary.levers[0], result.summary.levers[-1]
    assert first.metric < 96 <= last.metric == agreement(exact_session(result.model_bytes), ROWS)
    assert last.kept
    assert last.lever.startswith("int16 for ")
    assert last.sqnr > first.sqnr


def test_a_drop_that_cannot_be_met_is_told():
    result = judged(0.0, metric=lambda session, data: float(len(session.get_inputs()) == 1 and _is_float(session)))
    missed = "max_drop: metric 0, of the float model 1; a drop of 0 cannot be met; "
    assert result.summary.notes[-1] == missed + "max_above_8_bits above 0.25 lets levers widen more of the bytes"
    aims = [each for each in result.summary.levers if each.lever.startswith("int16 for ")]
    assert len(aims) > 1
    assert max(each.sqnr for each in aims if each.kept) > result.summary.levers[0].sqnr + 6


def _is_float(session) -> bool:
    """Whether a session is on the float model, by its sums."""
    return bool(np.array_equal(session.run(None, {"x": ROWS})[0], OUTPUTS))


def test_both_targets_hold():
    result = judged(100.0, min_sqnr=30.0)
    assert result.summary.levers[-1].sqnr >= 30
    other = judged(4.0, min_sqnr=-50.0)
    assert other.summary.levers[-1].metric >= 96


def test_a_metric_reads_the_samples_held_apart_where_it_is_given_nothing():
    seen = []

    def metric(session, data):
        seen.append(data)
        return 1.0

    judged(0.0, metric=metric, metric_data=None)
    assert [len(data) for data in seen] == [8, 8]  # the float model's, and one lever's
    np.testing.assert_array_equal([feed["x"][0] for feed in seen[0]], samples()[24:])


def test_the_metric_of_a_method_has_a_name_of_its_own():
    options = {"preset": "A8W8", "calibration_data": samples(), "method": "layerwise_percentile"}
    chosen = quarkfast.quantize(model(), percentile_metric="mse", **options)
    assert chosen.model_bytes == quarkfast.quantize(model(), LWPMetric="mse", **options).model_bytes
    with pytest.raises(quarkfast.ConfigError, match=r"^metric: expected a function or 'module:function', got 'mse'"):
        quarkfast.quantize(model(), metric="mse", **options)


def _raises(session, data):
    raise OSError("no labels")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": None, "metric_data": None}, "max_drop: expected a metric, of which it is the drop, got none"),
        ({"max_drop": None}, "metric: expected max_drop, how far it may fall below the float model's, got none"),
        ({"max_drop": None, "metric": None}, "metric_data: expected a metric that takes it, got none"),
        ({"max_drop": -1.0}, "max_drop: expected a number from 0 up, in the unit of the metric, got -1.0"),
        ({"max_drop": float("nan")}, "max_drop: expected a number from 0 up, in the unit of the metric, got nan"),
        ({"metric": 3}, "metric: expected a function or 'module:function', got int"),
        ({"metric": ":name"}, "metric: expected a function or 'module:function', got ':name'"),
        ({"metric": "no_such_module:name"}, "metric: expected the function 'no_such_module:name', got ModuleNotFound"),
        ({"metric": "json:no_such"}, "metric: expected the function 'json:no_such', got AttributeError"),
        ({"metric": "json:__name__"}, "metric: expected a function or 'module:function', got str"),
        ({"metric": _raises}, "metric: expected a number, got OSError: no labels"),
        ({"metric": lambda session, data: "good"}, "metric: expected a number, got ValueError"),
        ({"metric": lambda session, data: float("nan")}, "metric: expected a finite number, got nan"),
        ({"preset": "BF16_WO", "weight_type": "bfloat16"}, "max_drop: expected a preset that levers change, "),
    ],
)
def test_what_is_no_metric_is_refused(tmp_path, options, message):
    output = tmp_path / "q.onnx"
    with pytest.raises(quarkfast.ConfigError, match=message.replace("(", r"\(")):
        judged(**({"max_drop": 1.0, "output": output} | options))
    assert not output.exists()


def test_the_command_line_takes_a_function_of_the_working_folder(tmp_path, monkeypatch):
    onnx.save(model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=samples())
    np.savez(tmp_path / "labels.npz", x=ROWS, answers=ANSWERS)
    (tmp_path / "my_metric.py").write_text(
        "import numpy as np\n"
        "def agreement(session, path):\n"
        "    data = np.load(path)\n"
        "    return 100 * (session.run(None, {'x': data['x']})[0].argmax(axis=1) == data['answers']).mean()\n"
        "def broken(session, path):\n"
        "    raise KeyError('answers')\n"
    )
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    words = ["quantize", "m.onnx", "-o", "q.onnx", "--report", "r.json", "--calibration-data", "x.npz"]
    words += ["--weight-type", "int16", "--max-drop", "4", "--metric-data", "labels.npz", "--metric"]
    assert main([*words, "my_metric:broken"]) == ExitCode.USAGE
    assert not (tmp_path / "q.onnx").exists()
    assert main([*words, "my_metric:agreement"]) == ExitCode.OK
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["levers"][-1]["metric"] >= 96
    smallest = min(each["bytes"] for each in report["levers"])
    candidates = [each for each in report["levers"] if each["bytes"] == smallest]
    best = max(candidates, key=lambda each: (each["metric"], each["sqnr"]))
    assert report["pareto_front"][0] == best["lever"]
    assert report["pareto_front"][-1] == report["levers"][-1]["lever"]
    assert (tmp_path / "q.onnx").read_bytes() == judged(4.0).model_bytes
    assert sys.path == path


def test_the_front_has_what_nothing_smaller_is_better_than():
    levers = [
        LeverResult("a", 1.0, 100, 20.0, True, 0.5),
        LeverResult("b", 1.0, 100, 21.0, True, 0.5),
        LeverResult("c", 1.0, 150, 30.0, False, 0.4),
        LeverResult("d", 1.0, 200, 19.0, True, 0.6),
    ]
    assert [each.lever for each in pareto_front(levers)] == ["b", "d"]
