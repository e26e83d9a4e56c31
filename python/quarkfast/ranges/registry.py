"""The methods of range estimation and their parameters, one row each: a method is a function and its row here.

Nothing heavy is imported: the configuration and the command line read names, defaults and help from these rows. The
function of a method is imported when it is first used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from quarkfast.errors import ConfigError

if TYPE_CHECKING:
    from quarkfast.qparams import PowerOfTwoRule
    from quarkfast.ranges.summary import ClippingRange, RangeSpec, TensorSummary

__all__ = ["METHODS", "PARAMETERS", "Parameter", "RangeMethod"]

ValueKind = Literal["number", "numbers", "count", "name"]


class Parameter(NamedTuple):
    """One parameter of range methods: an option for activations, and a field of a `TensorSpec`.

    Attributes:
        name: Name of the field.
        kind: What values are: a number, a list of numbers, an integer above 0, or a name.
        default: Value where none is given.
        help: One sentence for the command line and the pages.
        quark_key: Quark's key.
        check: Raises ConfigError for a value of the kind that makes no sense.
        unread: The value that is accepted, without effect, where no method reads the parameter.
        option: Name of the option; that of the field if empty.
    """

    name: str
    kind: ValueKind
    default: Any
    help: str
    quark_key: str
    check: Callable[[str, Any], None]
    unread: Any
    option: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeMethod:
    """One method of range estimation.

    Attributes:
        name: Name of the method, and of its function in `module`.
        module: Full name of the module that has the function.
        range: The range that it finds, in a few words of Markdown.
        needs_histogram: Whether it reads the histogram of a tensor, or its extremes alone.
        takes_floats: Whether it goes with scaled floats, which have no error of integer codes.
        parameters: Names of the parameters that it reads.
        power_of_two: How a scale is rounded to a power of two where these are asked for.
        searches_constants: Whether powers of two for constants are searched over the values, not their histogram.
    """

    name: str
    module: str
    range: str
    needs_histogram: bool = True
    takes_floats: bool = False
    parameters: tuple[str, ...] = ()
    power_of_two: PowerOfTwoRule = "nearest"
    searches_constants: bool = False

    @property
    def estimate(self) -> Callable[[TensorSummary, RangeSpec], ClippingRange]:
        """The function: from the statistics of a tensor with finite values to the range to keep."""
        function = getattr(importlib.import_module(self.module), self.name)
        return cast("Callable[[TensorSummary, RangeSpec], ClippingRange]", function)


def _check_percent(name: str, value: float) -> None:
    if not 0 < value <= 100:
        raise ConfigError(f"{name}: expected percents above 0 and up to 100, got {value}")


def _check_percents(name: str, value: tuple[float, ...]) -> None:
    if not value:
        raise ConfigError(f"{name}: expected at least one, got none")
    for percent in value:
        _check_percent(name, percent)


def _check_levels(name: str, value: int | None) -> None:
    if value is not None and not 2 <= value <= 2048:
        raise ConfigError(f"{name}: expected 2 to 2048, got {value}")


def _check_bins(name: str, value: int | None) -> None:
    if value is not None and (not 128 <= value <= 4096 or value & (value - 1)):
        raise ConfigError(f"{name}: expected a power of two from 128 to 4096, got {value}")


def _one_of(*known: str) -> Callable[[str, str], None]:
    def check(name: str, value: str) -> None:
        if value not in known:
            raise ConfigError(f"{name}: expected one of {', '.join(known)}, got {value!r}")

    return check


_PARAMETERS = (
    Parameter(
        name="percentile",
        kind="number",
        default=99.999,
        help="Percent of the values to keep, with percentile.",
        quark_key="Percentile",
        check=_check_percent,
        unread=99.999,
    ),
    Parameter(
        name="percentiles",
        kind="numbers",
        default=(99.99, 99.999, 99.99999),
        help="What layerwise_percentile chooses from.",
        quark_key="PercentileCandidates",
        check=_check_percents,
        unread=(99.99, 99.999, 99.99999),
    ),
    Parameter(
        name="metric",
        kind="name",
        default="mae",
        help="What layerwise_percentile chooses by: mae or mse.",
        quark_key="LWPMetric",
        check=_one_of("mae", "mse"),
        unread="mae",
        option="percentile_metric",  # metric is that of outputs
    ),
    Parameter(
        name="scenario",
        kind="name",
        default="same",
        help="What distribution reads: same (the values) or p3 (their cube roots).",
        quark_key="Scenario",
        check=_one_of("same", "p3"),
        unread="same",
    ),
    Parameter(
        name="bins",
        kind="count",
        default=None,
        help="With entropy: onnxruntime's rule, with so many bins.",
        quark_key="NumBins",
        check=_check_bins,
        unread=2048,  # what every histogram has on each side of zero
    ),
    Parameter(
        name="levels",
        kind="count",
        default=None,
        help="Groups of values, with entropy; half the codes by default.",
        quark_key="NumQuantizedBins",
        check=_check_levels,
        unread=128,
    ),
)

_ROWS = (
    RangeMethod(
        name="minmax",
        module="quarkfast.ranges.methods",
        range="the extremes; the default of activations in A8W8, A16W8 and U8S8, and of their weights with "
        "`per_channel`",
        needs_histogram=False,
        takes_floats=True,
    ),
    RangeMethod(
        name="moving_average",
        module="quarkfast.ranges.methods",
        range="the mean of the minima and the mean of the maxima over runs, so it depends on `batch_size`, but not on "
        "the order of runs; also `moving_average=True` with `minmax`",
        needs_histogram=False,
        takes_floats=True,
    ),
    RangeMethod(
        name="nonoverflow",
        module="quarkfast.ranges.methods",
        range="the extremes; power-of-two scales are rounded up, so that nothing saturates",
        needs_histogram=False,
        takes_floats=True,
        power_of_two="ceil",
    ),
    RangeMethod(
        name="percentile",
        module="quarkfast.ranges.methods",
        range="what keeps so many percent of the magnitudes, or of the values where the range is not symmetric",
        takes_floats=True,
        parameters=("percentile",),
    ),
    RangeMethod(
        name="layerwise_percentile",
        module="quarkfast.ranges.methods",
        range="the percentile of several that leaves the least error",
        parameters=("percentiles", "metric"),
    ),
    RangeMethod(
        name="entropy",
        module="quarkfast.ranges.methods",
        range="the least Kullback-Leibler divergence; with `bins`, by onnxruntime's arithmetic",
        takes_floats=True,
        parameters=("levels", "bins"),
    ),
    RangeMethod(
        name="distribution",
        module="quarkfast.ranges.methods",
        range="mean and so many standard deviations as suit a normal distribution",
        takes_floats=True,
        parameters=("scenario",),
    ),
    RangeMethod(
        name="minmse",
        module="quarkfast.ranges.methods",
        range="the least expected squared error, among float scales or among powers of two; the default of XINT8, and "
        "of weights with one scale in A8W8, A16W8 and U8S8",
        searches_constants=True,
    ),
    RangeMethod(
        name="auto",
        module="quarkfast.ranges.methods",
        range="of the extremes, `minmse` and three percentiles the one of least expected squared error in the tensor's "
        "own type",
    ),
)

PARAMETERS: Mapping[str, Parameter] = MappingProxyType({row.name: row for row in _PARAMETERS})
"""Name -> parameter."""

_BY_NAME = {row.name: row for row in _ROWS}

METHODS: Mapping[str, RangeMethod] = MappingProxyType(_BY_NAME)
"""Name -> method."""
