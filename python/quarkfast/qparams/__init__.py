"""From the range of a tensor to scale and zero point: every rule that a target may ask for, computed in float64.

Every scale that leaves this module is finite, greater than zero and exactly a value of its dtype. Ranges that hold NaN
or infinity are refused. Where AMD Quark's rules give something else, ``docs/numerics.md`` ("Quantization parameters")
says what and why. All functions work element by element on arrays of ranges, one element a channel or block.
"""

from quarkfast.qparams.pairs import HIGHEST, Order, fit_pairs, from_rows, grow_scales, overflowing_pairs, rows_of
from quarkfast.qparams.powers import (
    LARGEST_MULTIPLIER,
    PowerOfTwoRule,
    dyadic_scale,
    power_of_two,
    power_of_two_candidates,
    search_power_of_two,
)
from quarkfast.qparams.ranges import SOFTMAX_RANGE, QParams, code_range, from_range, stored_scale

__all__ = [
    "HIGHEST",
    "LARGEST_MULTIPLIER",
    "SOFTMAX_RANGE",
    "Order",
    "PowerOfTwoRule",
    "QParams",
    "code_range",
    "dyadic_scale",
    "fit_pairs",
    "from_range",
    "from_rows",
    "grow_scales",
    "overflowing_pairs",
    "power_of_two",
    "power_of_two_candidates",
    "rows_of",
    "search_power_of_two",
    "stored_scale",
]
