"""Requests for statistics are merged tensor by tensor."""

from __future__ import annotations

import pytest

from quarkfast.errors import CalibrationError
from quarkfast.statistics import StatisticsRequest, TensorRequest


def test_a_merged_request_wants_what_either_wants():
    ranges = StatisticsRequest.of(["x", "y"], histogram=True)
    channels = StatisticsRequest.of_channels({"z": 1, "y": -1})
    merged = ranges | channels
    assert merged.tensors == {
        "x": TensorRequest(histogram=True),
        "y": TensorRequest(histogram=True, channel_axis=-1),
        "z": TensorRequest(channel_axis=1),
    }
    assert list(merged) == ["x", "y", "z"]
    assert merged.histogram
    assert not merged.moments
    assert (merged | StatisticsRequest.of(["x"], moments=True)).moments


def test_an_empty_request_changes_nothing():
    request = StatisticsRequest.of(["x"])
    assert request | StatisticsRequest() == request
    assert StatisticsRequest() | request == request
    assert not StatisticsRequest()


def test_the_first_axis_is_an_axis():
    merged = StatisticsRequest.of_channels({"x": 0}) | StatisticsRequest.of(["x"])
    assert merged.tensors["x"].channel_axis == 0


def test_channels_of_two_axes_are_refused():
    with pytest.raises(CalibrationError, match=r"^statistics: expected one axis of a tensor's channels, got 1 and -1"):
        StatisticsRequest.of_channels({"x": 1}) | StatisticsRequest.of_channels({"x": -1})
