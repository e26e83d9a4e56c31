"""How default sessions are judged beside exact sums: chance is equal, and what a type could have kept is not."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast.formats import activation_formats
from support.agreement import best_ratio, ratios

_BEST = {"int8": 49.9, "uint8": 49.9, "int16": 98.1, "float16": 74.0, "bfloat16": 55.9, "float32": 152.3, "mx9": 49.9}


def _with_noise(signal, decibels, rng):
    noise = rng.standard_normal(signal.shape)
    return signal + noise * np.linalg.norm(signal) / np.linalg.norm(noise) * 10 ** (-decibels / 20)


def test_the_best_ratio_is_that_of_a_rounded_sine():
    sine = np.sin(np.arange(100_000, dtype=np.float64))
    for name, bits in (("int8", 8), ("int16", 16)):
        codes = np.rint(sine * 2 ** (bits - 1))
        assert quarkfast.evaluate.sqnr(sine, codes / 2 ** (bits - 1)) == pytest.approx(best_ratio(name), abs=0.1)


@pytest.mark.parametrize("name", _BEST)
def test_the_best_ratio_goes_with_the_type(name):
    assert best_ratio(name) == pytest.approx(_BEST[name], abs=0.05)


@pytest.mark.parametrize("name", sorted(activation_formats()))
def test_no_type_is_judged_by_less_than_8_bits(name):
    assert best_ratio(name) >= best_ratio("int8")


@pytest.mark.parametrize(("name", "lost"), [("uint8", 0), ("float32", 16), ("int16", 16)])
def test_chance_is_no_loss_and_less_than_the_type_keeps_is(name, lost, rng):
    signal = rng.standard_normal(1000)
    exact, default = ([_with_noise(signal, decibels, rng)] for decibels in (68, 52))
    assert ratios([signal], exact, name) - ratios([signal], default, name) == pytest.approx(lost)


def test_a_loss_of_8_bits_is_told(rng):
    signal = rng.standard_normal(1000)
    exact, default = ([_with_noise(signal, decibels, rng)] for decibels in (68, 40))
    assert ratios([signal], exact, "uint8") - ratios([signal], default, "uint8") == pytest.approx(9.9, abs=0.05)
