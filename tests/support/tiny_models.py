"""Models of a few nodes, built in ten lines each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.graph.load import load_model
from quarkfast.pipeline.prepare import prepare
from support.graph_text import parse_graph


def tiny_model(
    text: str, initializers: Mapping[str, NDArray[Any]] | None = None, opset: int = 17, ir_version: int = 8
) -> onnx.ModelProto:
    """Returns a model from ONNX's graph text and arrays for the names it does not define."""
    graph = parse_graph(text)
    for name, array in (initializers or {}).items():
        graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    for index, node in enumerate(graph.node):
        node.name = node.name or f"{node.op_type.lower()}_{index}"
    opsets = [onnx.helper.make_opsetid("", opset)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)


def conv_relu_model(**changed: NDArray[Any]) -> onnx.ModelProto:
    """Returns Conv -> Relu -> Conv -> Add(x) over [N, 3, 8, 8], weights seeded; `changed` replaces arrays by name."""
    rng = np.random.default_rng(7)
    arrays = {
        "w1": rng.normal(0, 0.2, (3, 3, 3, 3)).astype(np.float32),
        "b1": rng.normal(0, 0.2, 3).astype(np.float32),
        "w2": rng.normal(0, 0.2, (3, 3, 1, 1)).astype(np.float32),
    }
    text = """g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) {
        c1 = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
        r1 = Relu (c1)
        c2 = Conv (r1, w2)
        y = Add (c2, x)
    }"""
    return tiny_model(text, arrays | changed)


def prepared_between_layers(
    body: str, shapes: Mapping[str, tuple[int, ...]], output: str, **arrays: NDArray[Any]
) -> tuple[ir.Model, dict[str, ir.Value]]:
    """Returns Conv -> `body`, from `a` to `z`, -> Conv as a prepared model, and what its nodes compute, by name."""
    text = f"g (float[N, 3, 8, 8] x) => ({output} y) {{ a = Conv (x, w0, b0) {body} y = Conv (z, w2) }}"
    rng = np.random.default_rng(0)
    given = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items() if name in text}
    model = prepare(load_model(tiny_model(text, given | arrays)), 13)
    return model, {value.name or "": value for node in model.graph for value in node.outputs}


def samples(count: int = 8, shape: tuple[int, ...] = (3, 8, 8)) -> NDArray[np.float32]:
    """Returns seeded normal samples."""
    return np.random.default_rng(11).normal(size=(count, *shape)).astype(np.float32)


def arrays_of(model: ir.Model) -> dict[str, NDArray[Any]]:
    """The contents of a model's initializers, by name."""
    return {name: value.const_value.numpy() for name, value in model.graph.initializers.items() if value.const_value}


def operators_of(model: ir.Model) -> list[str]:
    """The types of a model's nodes, in order."""
    return [node.op_type for node in model.graph]


def run_as_written(data: bytes, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """The first output of a model that onnxruntime must run with exact sums and without optimizing it, for ``x``."""
    output: NDArray[np.float32] = exact_session(data).run(None, {"x": x})[0]
    return output


def run_exactly(model: onnx.ModelProto, feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """Every output of a model that runs as it stands."""
    outputs: list[NDArray[Any]] = exact_session(model).run(None, dict(feed))
    return outputs
