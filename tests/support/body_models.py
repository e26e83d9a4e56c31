"""Models with layers in bodies of If, Loop and Scan, whose constants lie inside, outside, or both."""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray

from support.graph_text import parse_model

__all__ = ["BODIES", "body_model", "body_samples"]

_WIDTH = 16

# Each takes `x`, and gives `t` of the same shape. In bodies `w` is a constant of their own where they have one of that
# name, as two of an If may; `outer` belongs to the model's own graph, and `shared` is read there too.
BODIES = {
    "if": """t = If (positive) <
        then_branch = one () => (float[N, 16] o) { m = MatMul (x, w) o = Add (m, b) },
        else_branch = other () => (float[N, 16] o) { m = MatMul (x, w) o = Relu (m) }>""",
    "if with outer constants": """t = If (positive) <
        then_branch = one () => (float[N, 16] o) { m = MatMul (x, outer) o = Add (m, b) },
        else_branch = other () => (float[N, 16] o) { m = MatMul (x, shared) o = Relu (m) }>""",
    "loop": """t = Loop (steps, always, x) <
        body = step (int64 i, bool go, float[N, 16] s) => (bool again, float[N, 16] o) {
            again = Identity (go) m = MatMul (s, w) a = Add (m, b) o = Tanh (a) }>""",
    "scan": """start = ReduceMean <axes = [0], keepdims = 0> (x)
        last, t = Scan <num_scan_inputs = 1, body = step (float[16] s, float[16] row) => (float[16] next, float[16] o) {
            a = Add (s, row) r = Unsqueeze (a, first) m = MatMul (r, w) f = Squeeze (m, first) o = Tanh (f)
            next = Identity (o) }> (start, x)""",
    "nested": """t = If (positive) <
        then_branch = one () => (float[N, 16] o) {
            u = MatMul (x, w)
            o = Loop (steps, always, u) <
                body = step (int64 i, bool go, float[N, 16] s) => (bool again, float[N, 16] p) {
                    again = Identity (go) m1 = MatMul (s, v) n = MatMul (m1, shared) p = Tanh (n) }>
        },
        else_branch = other () => (float[N, 16] o) { m = Gemm (x, w, b) o = Relu (m) }>""",
}


def body_model(kind: str, *, constant_nodes: bool = False) -> onnx.ModelProto:
    """Returns MatMul -> one of `BODIES` -> MatMul over [N, 16], weights seeded.

    Args:
        kind: A key of `BODIES`.
        constant_nodes: Whether constants of bodies are nodes and not initializers.
    """
    model = parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
    bodies (float[N, 16] x0) => (float[N, 16] y) <float zero = {{0}}, int64 steps = {{2}}, bool always = {{1}}> {{
        x = MatMul (x0, shared)
        mean = ReduceMean <keepdims = 0> (x)
        positive = Greater (mean, zero)
        {BODIES[kind]}
        y = MatMul (t, last_weight)
    }}""")
    rng = np.random.default_rng(5)
    for name in ("shared", "outer", "last_weight"):
        _add(model.graph, name, _weight(rng), nodes=False)
    for body in _bodies(model.graph):
        made = {name for node in body.node for name in node.output}
        read = {name for node in body.node for name in node.input} - made
        own = {
            "w": _weight(rng),
            "v": _weight(rng),
            "b": rng.normal(size=_WIDTH).astype(np.float32),
            "first": np.array([0]),
        }
        for name in [name for name in own if name in read]:
            _add(body, name, own[name], nodes=constant_nodes)
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type.lower()}_{index}"
    return model


def body_samples(count: int = 8) -> NDArray[np.float32]:
    """Returns seeded rows, the mean of some of which is positive."""
    return np.random.default_rng(6).normal(size=(count, _WIDTH)).astype(np.float32)


def _weight(rng: np.random.Generator) -> NDArray[np.float32]:
    return rng.normal(0, _WIDTH**-0.5, (_WIDTH, _WIDTH)).astype(np.float32)


def _add(graph: onnx.GraphProto, name: str, array: NDArray[np.generic], *, nodes: bool) -> None:
    tensor = onnx.numpy_helper.from_array(array, name)
    if nodes:
        graph.node.insert(0, onnx.helper.make_node("Constant", [], [name], value=tensor))
    else:
        graph.initializer.append(tensor)


def _bodies(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """Returns the bodies in a graph, each behind the one around it."""
    found = []
    for attribute in (each for node in graph.node for each in node.attribute):
        if attribute.HasField("g"):
            found += [attribute.g, *_bodies(attribute.g)]
    return found
