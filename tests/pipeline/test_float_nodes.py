"""Which nodes stay float so that an activation needs no codes."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.pipeline.float_nodes import nodes_left_float
from quarkfast.pipeline.wide_bytes import wide_shares
from support.quality_models import samples
from support.tiny_models import tiny_model

# Layers with a Relu each; the second is narrow.
WIDTHS = (32, 32, 4, 32, 32, 32, 8)


def layers() -> onnx.ModelProto:
    rng = np.random.default_rng(6)
    weights = {f"w{index}": rng.normal(0, 0.3, shape) for index, shape in enumerate(pairwise(WIDTHS))}
    steps = [f"a{i} = MatMul (h{i}, w{i})  h{i + 1} = Relu (a{i})" for i in range(len(weights))]
    text = f"g (float[N, 32] h0) => (float[N, 8] h{len(weights)}) {{ {' '.join(steps)} }}"
    return tiny_model(text, {name: np.asarray(each, np.float32) for name, each in weights.items()})


FEED = {"h0": samples(2)}


def quantized(**options) -> quarkfast.QuantizedModel:
    given = {"h0": samples()}
    return quarkfast.quantize(layers(), preset="XINT8", calibration_data=given, equalize=False, **options)


def names_of(outputs: list[str]) -> list[str]:
    return [node.name for node in layers().graph.node if node.output[0] in outputs]


def test_what_computes_a_tensor_and_what_reads_it_stay_float_with_what_is_fused():
    result = quantized()
    found = nodes_left_float(result.model_bytes, result.summary.records, ["h2"], FEED, 0.25)
    assert found == names_of(["a1", "h2", "a2", "h3"])
    again = quantized(exclude=[f"^{re.escape(name)}" for name in found])
    assert "h2" not in again.summary.records.tensors
    assert {"h1", "h3"} <= again.summary.records.tensors.keys()


@pytest.mark.parametrize("ranked", [["h2", "h3", "h4"], ["h4", "h2"], ["h5", "h4", "h3", "h2", "h1"], ["h6", "h2"]])
def test_no_more_than_a_quarter_of_the_bytes_has_more_than_8_bits(ranked):
    result = quantized()
    found = nodes_left_float(result.model_bytes, result.summary.records, ranked, FEED, 0.25)
    again = quantized(exclude=found)
    shares = wide_shares(again.model_bytes, again.summary.records, FEED)
    assert max(shares) <= 0.25
    assert bool(found) == (max(shares) > 0)
