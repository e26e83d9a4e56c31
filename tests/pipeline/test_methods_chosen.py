"""A method of calibration, chosen by name: from data, from a calibration, from the command line."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.calibration import calibrate_prepared
from quarkfast.cli import main
from quarkfast.errors import CalibrationError
from quarkfast.ranges.registry import METHODS
from support.tiny_models import conv_relu_model, samples

PRESETS = ("A8W8", "A16W8", "U8S8", "XINT8")


def _scales(result):
    return {
        value.name: onnx.numpy_helper.to_array(value)
        for value in result.proto.graph.initializer
        if value.name.endswith("_scale")
    }


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("method", METHODS)
def test_one_calibration_serves_every_method_without_running_the_model(preset, method, monkeypatch):
    calibration = quarkfast.calibrate(conv_relu_model(), samples(64), batch_size=8)
    options = {"preset": preset, "batch_size": 8, "method": method, "bias_correction": False}
    direct = quarkfast.quantize(conv_relu_model(), calibration_data=samples(64), **options)
    monkeypatch.setattr("quarkfast.ort.run", None)
    result = quarkfast.quantize(conv_relu_model(), calibration=calibration, **options)
    assert result.model_bytes == direct.model_bytes
    onnx.checker.check_model(result.proto, full_check=preset != "XINT8")


def test_methods_give_different_scales_to_data_with_an_outlier():
    data = samples(64)
    data[0, 0, 0, 0] = 100.0
    calibration = quarkfast.calibrate(conv_relu_model(), data)
    scales = [
        float(_scales(quarkfast.quantize(conv_relu_model(), calibration=calibration, **options))["x_scale"])
        for options in (
            {"method": "minmax"},
            {"method": "minmse"},
            {"method": "percentile", "percentile": 99.99},
            {"method": "distribution"},
        )
    ]
    assert np.isclose(scales[0], 100 / 127)
    assert len(set(scales)) == 4
    assert max(scales) == scales[0]


def test_a_moving_average_is_the_mean_over_runs():
    data = samples(64)
    data[0, 0, 0, 0] = 100.0
    result = quarkfast.quantize(
        conv_relu_model(), preset="U8S8", calibration_data=data, method="moving_average", batch_size=16
    )
    ends = np.mean([[part.min(), part.max()] for part in np.split(data, 4)], axis=0, dtype=np.float64)
    np.testing.assert_allclose(_scales(result)["x_scale"], (ends[1] - ends[0]) / 255, rtol=1e-6)  # float32 of float64


@pytest.mark.parametrize("per_channel", [True, False])
def test_weights_take_a_method_too(per_channel):
    weights = np.random.default_rng(3).normal(0, 0.2, (3, 3, 3, 3)).astype(np.float32)
    weights[0, 0, 0, 0] = 9.0
    model = conv_relu_model(w1=weights)
    least, widest = (
        _scales(
            quarkfast.quantize(
                model, None, "A8W8", samples(), weight_method=method, per_channel=per_channel, strict=True
            )
        )
        for method in ("distribution", "minmax")
    )
    assert least["w1_scale"].shape == widest["w1_scale"].shape == ((3,) if per_channel else ())
    assert (least["w1_scale"] <= widest["w1_scale"]).all()
    assert least["w1_scale"].max() < widest["w1_scale"].max()


def test_a_calibration_without_histograms_is_refused_where_a_method_reads_them():
    calibration = quarkfast.calibrate(conv_relu_model(), samples(), histogram=False)
    with pytest.raises(CalibrationError, match=r"expected a histogram of tensor 'x', which method 'entropy' reads"):
        quarkfast.quantize(conv_relu_model(), calibration=calibration, method="entropy")
    assert quarkfast.quantize(conv_relu_model(), calibration=calibration).summary.samples == 8


def test_histograms_are_gathered_only_where_the_method_reads_them(monkeypatch):
    asked = []

    def remember(run, samples, report):
        asked.append(run.request.histogram)
        return calibrate_prepared(run, samples, report)

    monkeypatch.setattr("quarkfast.pipeline.calibration_source.calibrate_prepared", remember)
    for method in ("minmax", "minmse"):
        quarkfast.quantize(conv_relu_model(), calibration_data=samples(), method=method)
    assert asked == [False, True]


def test_the_command_line_takes_a_method(tmp_path, capsys):
    onnx.save(conv_relu_model(), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", samples(64))
    arguments = ["quantize", str(tmp_path / "model.onnx"), "--calibration-data", str(tmp_path / "x.npy"), "-f"]
    options = [
        "--method",
        "layerwise_percentile",
        "--percentiles",
        "90",
        "--percentiles",
        "99",
        "--percentile-metric",
        "mse",
    ]
    assert main([*arguments, *options, "--weight-method", "minmse"]) == 0
    expected = quarkfast.quantize(
        conv_relu_model(),
        calibration_data=samples(64),
        method="layerwise_percentile",
        percentiles=[90.0, 99.0],
        percentile_metric="mse",
        weight_method="minmse",
    )
    assert (tmp_path / "model_a8w8.onnx").read_bytes() == expected.model_bytes
    assert main([*arguments, "--method", "minmsee"]) == 2
    assert "did you mean 'minmse'" in capsys.readouterr().err
