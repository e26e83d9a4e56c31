from __future__ import annotations

import math

import numpy as np
import pytest

from quarkfast.config import TensorSpec
from quarkfast.graph.scalar_functions import SCALAR_FUNCTIONS
from quarkfast.kernels import histogram
from quarkfast.ranges.function_range import range_for_function
from quarkfast.ranges.methods import params_for

VALUES = np.random.default_rng(3).normal(-2, 4, 1 << 16).astype(np.float32)
H = histogram(VALUES)
SEEN = (H.range.min, H.range.max)
SPECS = {
    "uint8": TensorSpec("uint8", symmetric=False),
    "int8": TensorSpec("int8", symmetric=True),
    "power of two": TensorSpec("int8", symmetric=True, scale="power_of_two"),
    "uint4": TensorSpec("uint4", symmetric=False),
}


def _noise(low, high, spec, compute):
    """Returns the mean squared error of the results for the values themselves."""
    params = params_for(low, high, spec)
    codes = np.clip(np.rint(VALUES / params.scale) + params.zero_point, params.qmin, params.qmax)
    rounded = (codes - params.zero_point.astype(np.float64)) * params.scale.astype(np.float64)
    return float(np.mean((compute(rounded) - compute(VALUES.astype(np.float64))) ** 2))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("name", ["HardSwish", "SiLU", "Mish", "Gelu by Tanh", "Sigmoid", "HardSigmoid", "Tanh"])
def test_the_error_falls_by_a_decibel_or_nothing_changes(name, spec):
    compute = SCALAR_FUNCTIONS[name].compute
    worth = 1 / 4 if spec.scale == "power_of_two" else 10**-0.1
    found = range_for_function(H, SEEN, spec, compute, worth)
    if found is None:
        return
    before, after = _noise(*SEEN, spec, compute), _noise(found.low, found.high, spec, compute)
    assert after < before * 10**-0.09  # a decibel by the histogram
    signal = float(np.mean(compute(VALUES.astype(np.float64)) ** 2))
    # Bins are a sixteenth of a step of 8 bits or narrower.
    assert found.sqnr == pytest.approx(10 * math.log10(signal / after), abs=0.1)


def test_hard_swish_loses_what_is_constant_and_no_more():
    found = range_for_function(H, SEEN, SPECS["uint8"], SCALAR_FUNCTIONS["HardSwish"].compute, 0.8)
    assert -3.3 < found.low < -2.7
    assert found.high > SEEN[1] * (1 - 1 / 510)


@pytest.mark.parametrize("name", ["SiLU", "Mish", "Gelu", "Sigmoid", "HardSigmoid"])
def test_results_for_what_is_cut_differ_by_half_a_step_of_theirs(name):
    compute = SCALAR_FUNCTIONS[name].compute
    found = range_for_function(H, SEEN, SPECS["uint8"], compute, 0.8)
    results = compute(VALUES.astype(np.float64))
    at_ends = compute(np.clip(VALUES, found.low, found.high).astype(np.float64))
    assert found.low > SEEN[0]
    assert np.abs(at_ends - results).max() <= np.ptp(results) / 255 / 2 + 1e-6  # and ends of bins in float32


def test_where_the_function_rises_nothing_changes():
    assert range_for_function(H, SEEN, SPECS["uint8"], lambda x: x**3, 0.8) is None


def test_scores_of_which_none_is_above_zero_keep_what_a_sigmoid_tells_apart():
    logits = histogram(-(np.abs(VALUES) ** 3) - np.float32(2))
    found = range_for_function(logits, (-4000.0, -2.0), SPECS["int8"], SCALAR_FUNCTIONS["Sigmoid"].compute, 0.8)
    # Below -8.3 a Sigmoid gives less than half of a 255th of the 0.12 that it gives at -2; ends are tried at 64ths.
    assert -16 < found.low < -8.3
    assert found.high == 0


def test_powers_of_two_give_up_an_octave_that_nothing_is_lost_by():
    compute, spec = SCALAR_FUNCTIONS["Sigmoid"].compute, SPECS["power of two"]
    assert range_for_function(histogram(VALUES * 16), (-256.0, 256.0), spec, compute, 1 / 4).low > -64
    assert range_for_function(histogram(VALUES * np.float32(0.3)), (-6.0, 6.0), spec, compute, 1 / 4) is None


def test_what_a_method_has_cut_off_stays_so():
    assert range_for_function(H, (-2.0, 3.0), SPECS["uint8"], SCALAR_FUNCTIONS["SiLU"].compute, 0.8) is None
