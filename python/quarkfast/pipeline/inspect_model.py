"""What is in a model, quantized or not: types, scales, operators, sizes, and who made it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard, tensor_of
from quarkfast.graph.load import ModelSource, external_files, load_model, model_bytes
from quarkfast.graph.operators import DEQUANTIZERS, QUANTIZERS
from quarkfast.graph.subgraphs import graphs_of
from quarkfast.graph.written_codes import table_behind
from quarkfast.pipeline.metadata import quantized_by

__all__ = ["ModelFacts", "QuantizedGroup", "Tensors", "inspect_model"]

OUR_DOMAINS = ("com.amd.quark", "com.vai.quantize", "quarkfast")
_RUNTIME_DOMAINS = (
    "com.microsoft",
    "com.microsoft.nchwc",
    "com.microsoft.experimental",
    "ai.onnx.ml",
    "ai.onnx.training",
)
_SCHEME = "quarkfast.scheme"
# Operators of codes, and which of their inputs is a weight; behind it QLinear operators have its scale and zero point.
_WEIGHTS = {"ConvInteger": 1, "DynamicQuantizeLSTM": 1, "MatMulInteger": 1, "QLinearConv": 3, "QLinearMatMul": 3}
# The mantissa of a power of two, as np.frexp gives it.
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class QuantizedGroup:
    """Tensors that are quantized alike.

    Attributes:
        what: ``"activations"`` or ``"constants"``.
        dtype: Type of the codes; of block formats the operator that rounds.
        granularity: ``"tensor"``, ``"channel"`` or ``"block"``; empty where no scale is stored.
        power_of_two: Whether every scale is a power of two; None where no scale is stored.
        symmetric: Whether every zero point is 0, or the middle of an unsigned type; None as above.
        count: How many tensors.
    """

    what: str
    dtype: str
    granularity: str
    power_of_two: bool | None
    symmetric: bool | None
    count: int

    def __str__(self) -> str:
        scales = {None: "", True: "power-of-two scales", False: "float scales"}[self.power_of_two]
        zero = {None: "", True: "symmetric", False: "asymmetric"}[self.symmetric]
        details = ", ".join(filter(None, (f"per {self.granularity}" if self.granularity else "", zero, scales)))
        return f"{self.count} {self.what} in {self.dtype}" + (f" ({details})" if details else "")


@dataclass(frozen=True, slots=True)
class Tensors:
    """Constants of one type: how many, with how many values, in how many bytes."""

    dtype: str
    count: int
    values: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is in a model.

    Attributes:
        bytes: Size of the file and of the files that its constants lie in.
        external: Names of those files.
        ir_version: Version of the ONNX format.
        opsets: Domain -> version; the standard's domain is ``"ai.onnx"``.
        producer: Name and version of the tool that wrote it, as the file says.
        quantized_by: The tool that quantized it, and where that is a guess, from what; None where it is not known.
        preset: What quarkfast was asked for; None if it did not write the model.
        inputs: Name -> type and shape; without those that have a default.
        outputs: The same.
        operators: Domain and type of operators -> how many, bodies included; the standard's without domain.
        ours: Domains whose operators are in quarkfast's library.
        unknown: Domains that neither the standard, ONNX Runtime nor quarkfast has.
        quantized: What is quantized, and how.
        constants: By type, the most bytes first.
    """

    bytes: int
    external: tuple[str, ...]
    ir_version: int
    opsets: Mapping[str, int]
    producer: str
    quantized_by: str | None
    preset: str | None
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    operators: Mapping[str, int]
    ours: tuple[str, ...]
    unknown: tuple[str, ...]
    quantized: tuple[QuantizedGroup, ...]
    constants: tuple[Tensors, ...]

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON."""
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """Returns what a table of two columns shows."""
        rows = [("producer", self.producer or "not named")]
        rows += [("preset", self.preset)] if self.preset else []
        rows += [("quantized by", self.quantized_by)] if self.quantized_by else []
        rows.append(("format", f"ir_version {self.ir_version}, " + self._used_opsets()))
        rows.append(("bytes", f"{self.bytes:,}" + (f", partly in {', '.join(self.external)}" if self.external else "")))
        rows += [("input", f"{name!r}: {text}") for name, text in self.inputs.items()]
        rows += [("output", f"{name!r}: {text}") for name, text in self.outputs.items()]
        rows += [("quantized", str(each)) for each in self.quantized] or [
            ("quantized", "nothing: no codes and no pairs")
        ]
        for each in self.constants:
            rows.append(("constants", f"{each.count} {each.dtype}, {each.values:,} values, {each.bytes:,} bytes"))
        rows.append(("operators", _listed(self.operators)))
        rows += [
            ("needs", f"{each}: operators of quarkfast's library; quarkfast.register(options)") for each in self.ours
        ]
        rows += [
            ("unknown", f"{each}: a domain that ONNX Runtime and quarkfast have no operators of")
            for each in self.unknown
        ]
        return rows

    def _used_opsets(self) -> str:
        """Returns the domains that have a node, and how many have none: some tools import all that they know."""
        used = {operator.rpartition("::")[0] or "ai.onnx" for operator in self.operators} | {"ai.onnx"}
        found = {domain: version for domain, version in self.opsets.items() if domain in used}
        unused = len(self.opsets) - len(found)
        return _listed(found) + (f", and {unused} domains that no node uses" if unused else "")


def inspect_model(model: ModelSource) -> ModelFacts:
    """Says what is in a model of any tool. Large constants are counted and not read.

    Args:
        model: Path of an ONNX file, an ``onnx.ModelProto`` or an ``onnx_ir.Model``.

    Raises:
        ModelError: If it cannot be read, or refers to files outside its folder.

    Example:
        >>> import quarkfast
        >>> from quarkfast.demo.data import MODEL, load_images
        >>> result = quarkfast.quantize(MODEL, "digits.onnx", "XINT8", {"image": load_images().calibration})
        >>> facts = quarkfast.inspect_model("digits.onnx")
        >>> facts.preset, {each.power_of_two for each in facts.quantized if each.granularity}
        ('XINT8', {True})
    """
    loaded = load_model(model)
    graphs = [*graphs_of(loaded), *(function.graph for function in loaded.functions.values())]
    nodes = [node for graph in graphs for node in graph]
    operators = Counter(node.op_type if is_standard(node) else f"{node.domain}::{node.op_type}" for node in nodes)
    domains = {node.domain for node in nodes if not is_standard(node)} - {key[0] for key in loaded.functions}
    return ModelFacts(
        bytes=model_bytes(model, loaded),
        external=tuple(sorted(path.name for path in external_files(loaded))),
        ir_version=loaded.ir_version,
        opsets={domain or "ai.onnx": version for domain, version in sorted(loaded.opset_imports.items())},
        producer=" ".join(filter(None, (loaded.producer_name, loaded.producer_version))),
        quantized_by=quantized_by(loaded, nodes),
        preset=_preset(loaded),
        inputs={value.name or "": _described(value) for value in loaded.graph.inputs if not is_constant(value)},
        outputs={value.name or "": _described(value) for value in loaded.graph.outputs},
        operators=dict(operators.most_common()),
        ours=tuple(sorted(domains.intersection(OUR_DOMAINS))),
        unknown=tuple(sorted(domains.difference(OUR_DOMAINS, _RUNTIME_DOMAINS))),
        quantized=_quantized(nodes),
        constants=_constants(graphs, nodes),
    )


def _preset(model: ir.Model) -> str | None:
    """Returns the preset in the metadata that quarkfast writes; None where it is not there, or not readable."""
    try:
        found = json.loads(model.metadata_props.get(_SCHEME, "null"))
    except (ValueError, RecursionError):
        return None
    name = found.get("name") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None


def _described(value: ir.Value) -> str:
    dtype = "unknown" if value.dtype is None else value.dtype.name.lower()
    if value.shape is None:
        return dtype
    sizes = (size if isinstance(size, int) else size.value or "?" for size in value.shape)
    return f"{dtype}[{', '.join(map(str, sizes))}]"


def _quantized(nodes: list[ir.Node]) -> tuple[QuantizedGroup, ...]:
    found = Counter(each for node in nodes if (each := _kind(node)) is not None)
    return tuple(QuantizedGroup(*kind, count) for kind, count in found.most_common())


def _kind(node: ir.Node) -> tuple[str, str, str, bool | None, bool | None] | None:
    """Returns how a node quantizes a tensor: activations where they become codes, constants where they are codes."""
    constant = bool(node.inputs) and is_constant(node.inputs[0])
    if node.op_type == "MatMulNBits":
        bits, block = node.attributes.get_int("bits", 4), node.attributes.get_int("block_size", 0)
        return "constants", f"{bits} bits for MatMulNBits", f"block of {block}" if block else "channel", None, None
    if node.op_type == "DynamicQuantizeLinear":
        return "activations", "uint8 when the model runs", "tensor", None, None
    if node.op_type in QUANTIZERS & DEQUANTIZERS:  # they round, and store no codes
        return ("constants" if constant else "activations"), node.op_type, "block", None, None
    if node.op_type == "DequantizeBlock":
        return "constants", f"blocks of {node.attributes.get_string('format', '')}", "block", None, None
    place = _WEIGHTS.get(node.op_type, len(node.inputs))  # of a domain of one's own it may have any inputs
    if place < len(node.inputs) and is_constant(node.inputs[place]):
        return "constants", _codes(node.inputs[place]), *(_scales(node, place) if place > 1 else ("", None, None))
    if node.op_type in DEQUANTIZERS and (constant or table_behind(node) is not None):
        return "constants", _codes(node.inputs[0]), *_scales(node)
    if node.op_type in QUANTIZERS:
        return ("constants" if constant else "activations"), _codes(node.outputs[0], node), *_scales(node)
    return None


def _codes(value: ir.Value | None, quantizer: ir.Node | None = None) -> str:
    """Returns the type of codes: of the zero point, where shape inference did not say."""
    if quantizer is not None and len(quantizer.inputs) > 2 and quantizer.inputs[2] is not None:
        value = quantizer.inputs[2]
    dtype = None if value is None else value.dtype
    if dtype is None and quantizer is not None:
        dtype = ir.DataType(quantizer.attributes.get_int("output_dtype", 0) or ir.DataType.UINT8)
    return "unknown codes" if dtype is None else dtype.name.lower()


def _scales(node: ir.Node, codes: int = 0) -> tuple[str, bool | None, bool | None]:
    """Returns granularity, whether scales are powers of two, and whether zero points are the middle.

    Scale and zero point are the inputs behind that of the codes.
    """
    scale = node.inputs[codes + 1] if len(node.inputs) > codes + 1 else None
    if scale is None or not is_constant(scale):
        return "", None, None
    values = array_of(scale).astype(np.float64)
    granularity = "tensor" if values.size == 1 else "channel"
    if node.attributes.get_int("block_size", 0):
        granularity = "block"
    mantissas = np.frexp(values)[0]
    point = node.inputs[codes + 2] if len(node.inputs) > codes + 2 else None
    symmetric = point is None or (is_constant(point) and _is_middle(point))
    return granularity, bool((mantissas == _HALF).all()), symmetric


def _is_middle(point: ir.Value) -> bool:
    dtype = tensor_of(point).dtype
    middle = 0
    if dtype.is_integer() and not dtype.is_signed():
        middle = 1 << (int(dtype.bitwidth) - 1)
    return bool((array_of(point).astype(np.float64) == middle).all())


def _constants(graphs: list[Any], nodes: list[ir.Node]) -> tuple[Tensors, ...]:
    count: Counter[str] = Counter()
    values: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for tensor in _tensors(graphs, nodes):
        name = tensor.dtype.name.lower()
        count[name] += 1
        values[name] += int(tensor.size)
        size[name] += int(tensor.nbytes)
    return tuple(Tensors(name, count[name], values[name], bytes_) for name, bytes_ in size.most_common())


def _tensors(graphs: list[Any], nodes: list[ir.Node]) -> Iterator[ir.TensorProtocol]:
    for graph in graphs:
        yield from (tensor_of(value) for value in graph.initializers.values() if is_constant(value))
    for node in nodes:
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                yield attribute.value


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
