"""Quantize MODEL by a preset of Quark in few steps: ``quark_few_steps.py MODEL OUT PRESET DATA.npz COUNT STEPS TUNED``.

Run with the Python of an environment that has Quark. COUNT samples calibrate, and ``FastFinetune`` gets NumIterations
STEPS, DataSize TUNED and MemOptLevel 0. What a layer reads is computed from what the layers before it gave, and not
from the model's input anew: the same numbers in a tenth of the time. The mixed types search for what to mix and then,
with their threshold of 0, mix every layer whatever was found: that search is left out, and one sample judges each step.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from quark.onnx import ModelQuantizer
from quark.onnx.algorithm.finetuning import onnx_subgraph
from quark.onnx.algorithm.mprecision.sensitivity_analyzer import SensitivityAnalyzer, SensitivityResult
from quark.onnx.quantization.config import Config, get_default_config

model, out, preset, data, count, steps, tuned = sys.argv[1:8]
((name, array),) = np.load(data).items()
samples = iter(array[: int(count)])


class Reader:
    """What Quark asks for samples."""

    def get_next(self) -> object:
        """Returns a sample, or None."""
        found = next(samples, None)
        return None if found is None else {name: found[None]}


def behind(proto: onnx.ModelProto, wanted: str, known: dict[str, Any]) -> tuple[list[onnx.NodeProto], list[str]]:
    """Returns the nodes between what is known and a tensor, and what of the known they read."""
    makers = {each: node for node in proto.graph.node for each in node.output}
    todo, seen, needed = [wanted], set[str](), set[str]()
    while todo:
        tensor = todo.pop()
        if tensor in seen or tensor in known:
            continue
        seen.add(tensor)
        if tensor in makers:
            needed.add(makers[tensor].output[0])
            todo.extend(filter(None, makers[tensor].input))
    nodes = [node for node in proto.graph.node if node.output[0] in needed]
    return nodes, sorted({each for node in nodes for each in node.input if each in known})


def read_by(self: Any, index: int) -> list[np.ndarray]:
    """Returns what a layer of the quantized model reads; those before it are tuned."""
    wanted = self.qsubgraph_input_tensor_list[index]
    if not hasattr(self, "known"):
        self.known = {name: [array[at][None] for at in range(min(int(count), self.data_size))]}
    if wanted not in self.known:
        nodes, feeds = behind(self.qmodel, wanted, self.known)
        read = {each for node in nodes for each in node.input}
        constants = [each for each in self.qmodel.graph.initializer if each.name in read]
        ends = [onnx.helper.make_tensor_value_info(each, 1, self.known[each][0].shape) for each in feeds]
        graph = onnx.helper.make_graph(nodes, "part", ends, [onnx.ValueInfoProto(name=wanted)], constants)
        version = {"opset_imports": self.qmodel.opset_import, "ir_version": self.qmodel.ir_version}
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        onnx_subgraph.register_custom_ops_library(options, self.device)
        part = onnx.helper.make_model(graph, **version).SerializeToString()
        session = ort.InferenceSession(part, options, providers=["CPUExecutionProvider"])
        rows = range(len(self.known[name]))
        self.known[wanted] = [session.run(None, {each: self.known[each][at] for each in feeds})[0] for at in rows]
    return list(self.known[wanted])


def analyze(self: Any, quant_model: onnx.ModelProto, *_: object) -> list[SensitivityResult]:
    """Returns every layer, in the model's order."""
    if self._config.metric_threshold != 0 or len(self._strategy.target_config_list) != 1:
        raise SystemExit(f"{preset}: expected a preset that mixes every layer")
    return [SensitivityResult(each, [each], 0.0, [0.0], 0) for each in self._candidate_nodes(quant_model)]


SensitivityAnalyzer.analyze = analyze
onnx_subgraph.Subgraph.get_q_input_data = read_by
config = get_default_config(preset)
few = {"NumIterations": int(steps), "DataSize": int(tuned), "MemOptLevel": 0}
if "AutoMixprecision" in config.extra_options:
    config.extra_options["AutoMixprecision"] = {**config.extra_options["AutoMixprecision"], "DataSize": 1}
config.extra_options["FastFinetune"] = {**config.extra_options["FastFinetune"], **few}
ModelQuantizer(Config(global_quant_config=config)).quantize_model(model, out, Reader())
