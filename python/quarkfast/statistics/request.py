"""Statistics requests: what is to be gathered of which tensors; those of several steps are merged into one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from quarkfast.errors import CalibrationError

__all__ = ["StatisticsRequest", "TensorRequest"]


class TensorRequest(NamedTuple):
    """What is wanted of one tensor beside its range, which is always gathered.

    Attributes:
        histogram: Whether to count a dyadic histogram.
        moments: Whether to sum values and their squares.
        channel_axis: The axis whose indices have a largest magnitude each; None gathers none.

    Example:
        >>> TensorRequest(histogram=True) | TensorRequest(channel_axis=-1)
        TensorRequest(histogram=True, moments=False, channel_axis=-1)
    """

    histogram: bool = False
    moments: bool = False
    channel_axis: int | None = None

    def __or__(self, other: TensorRequest) -> TensorRequest:
        """Returns a request for what either wants.

        Raises:
            CalibrationError: If the two want the channels of different axes.
        """
        axes = {each.channel_axis for each in (self, other)} - {None}
        if len(axes) > 1:
            first, second = self.channel_axis, other.channel_axis
            raise CalibrationError(f"statistics: expected one axis of a tensor's channels, got {first} and {second}")
        axis = axes.pop() if axes else None
        return TensorRequest(self.histogram or other.histogram, self.moments or other.moments, axis)


@dataclass(frozen=True)
class StatisticsRequest:
    """Tensor -> what is wanted of it. The order is that of the statistics that come of it.

    Example:
        >>> ranges = StatisticsRequest.of(["x", "y"], histogram=True)
        >>> merged = ranges | StatisticsRequest.of_channels({"y": -1})
        >>> merged.tensors["y"]
        TensorRequest(histogram=True, moments=False, channel_axis=-1)
        >>> list(merged), bool(merged), bool(StatisticsRequest())
        (['x', 'y'], True, False)
    """

    tensors: Mapping[str, TensorRequest] = field(default_factory=dict)

    @classmethod
    def of(cls, tensors: Iterable[str], *, histogram: bool = False, moments: bool = False) -> StatisticsRequest:
        """Asks for the same of every one of `tensors`: its range, and what is named."""
        return cls({name: TensorRequest(histogram, moments) for name in tensors})

    @classmethod
    def of_channels(cls, axes: Mapping[str, int]) -> StatisticsRequest:
        """Asks for the largest magnitude in each channel of tensors, given the axis of the channels of each."""
        return cls({name: TensorRequest(channel_axis=axis) for name, axis in axes.items()})

    def __or__(self, other: StatisticsRequest) -> StatisticsRequest:
        """Returns one request for both; tensors of `self` come first.

        Raises:
            CalibrationError: If the two want the channels of different axes of a tensor.
        """
        merged = dict(self.tensors)
        for name, each in other.tensors.items():
            merged[name] = merged[name] | each if name in merged else each
        return StatisticsRequest(merged)

    def __iter__(self) -> Iterator[str]:
        """Yields the names of the tensors."""
        return iter(self.tensors)

    def __len__(self) -> int:
        """Returns the number of tensors."""
        return len(self.tensors)

    @property
    def histogram(self) -> bool:
        """Whether a histogram of any tensor is wanted."""
        return any(each.histogram for each in self.tensors.values())

    @property
    def moments(self) -> bool:
        """Whether sums of any tensor are wanted."""
        return any(each.moments for each in self.tensors.values())
