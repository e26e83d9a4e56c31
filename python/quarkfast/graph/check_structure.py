"""What a file says about its graph: names, order, operators, held against ONNX before any of it is believed."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TypeVar

import onnx
from onnx.defs import OpSchema

from quarkfast.errors import ModelError, shown
from quarkfast.graph.schemas import ATTRIBUTES, CONTRIB_DOMAINS, LEAST_INPUTS, own_schema

__all__ = ["check_structure"]

# Bodies within bodies: each takes three of the hundred messages that protobuf reads within each other.
_DEEPEST = 30

# What schemas say of operators that take any number.
_MOST = 2**31 - 1
_KNOWN = frozenset(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}

_Named = TypeVar("_Named", onnx.GraphProto, onnx.FunctionProto)
_FIELDS = {
    onnx.AttributeProto.TENSOR: "t",
    onnx.AttributeProto.GRAPH: "g",
    onnx.AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    onnx.AttributeProto.TYPE_PROTO: "tp",
}


def check_structure(model: onnx.ModelProto, where: str) -> None:
    """Makes sure that `model` is a graph at all: text is text, names are unique and exist, nothing feeds itself.

    Bodies of If, Loop and Scan and local functions count too. Nodes need not be sorted. Operators that onnx or
    quarkfast knows have as many inputs and outputs as their schema allows, all attributes that it demands, and none of
    another type. Reads no data of tensors; takes time in proportion to the number of nodes and names.

    Args:
        model: As it was read.
        where: The model's name for messages.

    Raises:
        ModelError: If it is none.
    """
    check = _Check(model, where)
    check.texts(
        "model", (model.producer_name, model.producer_version, model.domain, model.doc_string),
        (text for entry in model.metadata_props for text in (entry.key, entry.value)),
        (opset.domain for opset in model.opset_import),
    )  # fmt: skip
    for function in model.functions:
        check.function(function)
    check.calls()
    for name, reader in check.graph(model.graph, 0).items():
        raise check.missing(name, reader)


class _Check:
    def __init__(self, model: onnx.ModelProto, where: str) -> None:
        self._where = where
        self._functions = {(each.domain, each.name, each.overload): each for each in model.functions}
        if len(self._functions) < len(model.functions):
            raise self._error("model", "local functions with names of their own", "two of one name")
        self._opsets = _versions(model.opset_import)
        self._called: dict[tuple[str, str, str], set[tuple[str, str, str]]] = {}
        self._demanded: dict[tuple[str, str, str], list[int]] = {}
        self._calls: set[tuple[str, str, str]] = set()

    def _error(self, part: str, expected: str, got: str) -> ModelError:
        place = self._where if part == "model" else f"{self._where}: {part}"
        return ModelError(f"{place}: expected {expected}, got {got}")

    def missing(self, name: str, reader: str) -> ModelError:
        """Returns the error about a name that is read and that nothing gives."""
        if not reader:
            return self._error("model", "every output to exist", f"{name!r}, which nothing produces")
        got = f"{name!r} as input of node {reader!r}, which nothing produces"
        return self._error("model", "every input of a node to exist", got)

    def texts(self, part: str, *texts: Iterable[str]) -> None:
        """Makes sure that names and comments are text: protobuf hands out bytes where they are no UTF-8."""
        for text in (each for several in texts for each in several):
            if not isinstance(text, str):
                raise self._error(part, "text in UTF-8", shown(text))

    def function(self, function: onnx.FunctionProto) -> None:
        """Checks a local function as if it were a graph."""
        around = self._opsets
        self._opsets = _versions(function.opset_import) if function.opset_import else around
        key = (function.domain, function.name, function.overload)
        self._calls = self._called.setdefault(key, set())
        self.texts("model", (*key, function.doc_string), function.input, function.output, function.attribute)
        self._unique("model", function.input)
        forms = [(_form(each.op_type, each.domain, self._opsets.get(each.domain, 0)), each) for each in function.node]
        read = {name for form, each in forms if form is not None for name in each.input[: form.inputs[0]]}
        self._demanded[key] = [index for index, name in enumerate(function.input) if name in read]
        for name, reader in self._nodes(function, set(function.input), function.output, 0).items():
            raise self.missing(name, reader)
        self._opsets = around

    def calls(self) -> None:
        """Makes sure that local functions do not call themselves, one through another."""
        if _is_cyclic({key: [each for each in called if each in self._called] for key, called in self._called.items()}):
            raise self._error("model", "local functions without recursion", "some that call each other")

    def graph(self, graph: onnx.GraphProto, depth: int) -> dict[str, str]:
        """Checks a graph and its bodies; returns the names that come from around it, with who reads them."""
        if depth > _DEEPEST:
            raise self._error("model", f"at most {_DEEPEST} bodies within each other", "more")
        constants = [each.name for each in graph.initializer] + [each.values.name for each in graph.sparse_initializer]
        inputs = [each.name for each in graph.input]
        self.texts("model", (graph.name, graph.doc_string), constants)
        for value in (*graph.input, *graph.output, *graph.value_info):
            self.texts("model", (value.name, value.doc_string), _sizes(value.type))
        for value in graph.input if not depth else ():
            if value.type.HasField("tensor_type") and value.type.tensor_type.elem_type not in _KNOWN:
                raise self._error(
                    f"tensor {value.name!r}", "a known element type", str(value.type.tensor_type.elem_type)
                )
        self._unique("model", inputs)
        self._unique("model", constants)
        return self._nodes(graph, {*inputs, *constants}, [each.name for each in graph.output], depth)

    def _nodes(self, graph: _Named, known: set[str], outputs: Sequence[str], depth: int) -> dict[str, str]:
        producers: dict[str, int] = {}
        for index, node in enumerate(graph.node):
            for name in node.output:
                if name in known or name in producers:
                    raise self._error("model", "values with names of their own", f"two that are named {name!r}")
                if name:
                    producers[name] = index
        around, feeds, is_sorted = dict[str, str](), list[list[int]](), True
        for index, node in enumerate(graph.node):
            reads = self._node(node, depth)
            feeds.append([producers[name] for name in reads if name in producers])
            is_sorted &= all(each < index for each in feeds[-1])
            around.update((name, reads[name]) for name in reads if name not in producers and name not in known)
        if not is_sorted and _is_cyclic(dict(enumerate(feeds))):
            raise self._error("model", "a graph without cycles", "one whose nodes feed each other")
        return {
            **dict.fromkeys((name for name in outputs if name not in producers and name not in known), ""),
            **around,
        }

    def _node(self, node: onnx.NodeProto, depth: int) -> dict[str, str]:
        """Checks a node; returns the names that it and its bodies read, with the node that reads each."""
        label = node.name or node.op_type
        part = f"node {label!r}"
        self.texts(
            part, (node.name, node.op_type, node.domain, node.overload, node.doc_string), node.input, node.output
        )
        self._operator(node, part)
        reads = {name: str(label) for name in node.input if name}
        for attribute in node.attribute:
            if not attribute.type:
                raise self._error(part, f"a type of attribute {attribute.name!r}", "none")
            field = _FIELDS.get(attribute.type)
            if field is not None and not attribute.HasField(field) and not attribute.ref_attr_name:
                raise self._error(part, f"a value of attribute {attribute.name!r}", "none")
            for body in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                reads |= {name: reader or str(label) for name, reader in self.graph(body, depth + 1).items()}
        return reads

    def _operator(self, node: onnx.NodeProto, part: str) -> None:
        key = (node.domain, node.op_type, node.overload)
        given = {each.name: each.type for each in node.attribute}
        self.texts(part, given)
        if len(given) < len(node.attribute):
            raise self._error(part, "attributes with names of their own", "two of one name")
        inputs, outputs = len(_shortened(node.input)), len(_shortened(node.output))
        if key in self._functions:
            self._calls.add(key)
            function = self._functions[key]
            self._count(part, "inputs", inputs, 0, len(function.input))
            self._count(part, "outputs", outputs, 0, len(function.output))
            for index in self._demanded.get(key, ()):
                if index >= inputs or not node.input[index]:
                    raise self._error(part, f"an input {function.input[index]!r} of {node.op_type}", "none")
            return
        form = _form(node.op_type, node.domain, self._opsets.get(node.domain, 0))
        if form is None:
            if node.domain in ("", *CONTRIB_DOMAINS):
                self._count(part, f"inputs of {node.op_type}", inputs, LEAST_INPUTS.get(node.op_type, 0), _MOST)
            self._types(part, given, _later(node.op_type, node.domain))
            return
        self._count(part, f"inputs of {node.op_type}", inputs, form.inputs[0], form.inputs[1])
        self._count(part, f"outputs of {node.op_type}", outputs, form.outputs[0], form.outputs[1])
        for name, index in form.needed:
            if index < inputs and not node.input[index]:
                raise self._error(part, f"an input {name!r} of {node.op_type}", "none")
        for name in form.required:
            if name not in given:
                raise self._error(part, f"an attribute {name!r} of {node.op_type}", "none")
        self._types(part, given, form.types)
        self._types(part, given, _later(node.op_type, node.domain), form.types)

    def _types(
        self, part: str, given: Mapping[str, int], kinds: Mapping[str, int], known: Mapping[str, int] | None = None
    ) -> None:
        """Makes sure that attributes are of the types `kinds`, but for those of `known`."""
        for name, kind in given.items():
            if name not in (known or ()) and kinds.get(name, kind) != kind:
                got, wanted = map(onnx.AttributeProto.AttributeType.Name, (kind, kinds[name]))
                raise self._error(part, f"an attribute {name!r} of type {wanted}", got)

    def _count(self, part: str, what: str, got: int, least: int, most: int) -> None:
        if not least <= got <= most:
            expected = str(least) if least == most else f"at least {least}" if most > got else f"at most {most}"
            raise self._error(part, f"{expected} {what}", str(got))

    def _unique(self, part: str, names: Sequence[str]) -> None:
        if len(set(names)) < len(names):
            twice = next(name for name, count in Counter(names).items() if count > 1)
            raise self._error(part, "values with names of their own", f"two that are named {twice!r}")


class _Form:
    """What a schema says, in plain numbers: to ask it is a call into C++ for each."""

    def __init__(self, schema: OpSchema) -> None:
        self.inputs = (schema.min_input, schema.max_input)
        self.outputs = (schema.min_output, schema.max_output)
        single = OpSchema.FormalParameterOption.Single
        self.needed = [(each.name, index) for index, each in enumerate(schema.inputs) if each.option == single]
        self.types: Mapping[str, int] = {
            name: int(each.type.value)  # type: ignore[attr-defined]
            for name, each in schema.attributes.items()
        }
        self.required = [name for name, each in schema.attributes.items() if each.required]


@cache
def _form(op_type: str, domain: str, version: int) -> _Form | None:
    """Returns what is known of an operator, None if nothing is."""
    domain = "" if domain == "ai.onnx" else domain
    own = own_schema(op_type, domain)
    if own is not None:
        return _Form(own)
    try:
        return _Form(onnx.defs.get_schema(op_type, version, domain)) if version > 0 else None
    except onnx.defs.SchemaError:
        return None


@cache
def _later(op_type: str, domain: str) -> Mapping[str, int]:
    """Returns the types of attributes that an operator has in its newest version, onnxruntime's operators included.

    Older versions may carry them: `quarkfast check` tells so.
    """
    if domain not in ("", "ai.onnx", *CONTRIB_DOMAINS):
        return {}
    form = _form(op_type, "", onnx.defs.onnx_opset_version())
    return {**(ATTRIBUTES if domain in CONTRIB_DOMAINS else {}), **(form.types if form is not None else {})}


def _versions(opsets: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    # A version that does not fit into 32 bits is refused where the operator set is asked for.
    found = {each.domain: min(max(each.version, 0), 2**31 - 1) for each in opsets}
    standard = found.get("", found.get("ai.onnx", 0))
    return {**found, "": standard, "ai.onnx": standard}


def _shortened(names: Sequence[str]) -> Sequence[str]:
    """Returns names without the empty ones at the end, which say that an optional value is left out."""
    end = len(names)
    while end and not names[end - 1]:
        end -= 1
    return names[:end]


def _sizes(kind: onnx.TypeProto) -> Iterator[str]:
    """Yields the texts of a type: names of dimensions."""
    yield kind.denotation
    if kind.HasField("tensor_type"):
        yield from (size.dim_param for size in kind.tensor_type.shape.dim)


_Key = TypeVar("_Key")


def _is_cyclic(feeds: Mapping[_Key, Sequence[_Key]]) -> bool:
    """Whether some of what feeds each other, directly or not, feeds itself."""
    readers: dict[_Key, list[_Key]] = {key: [] for key in feeds}
    waits = {key: len(given) for key, given in feeds.items()}
    for key, given in feeds.items():
        for each in given:
            readers[each].append(key)
    ready, done = deque(key for key, count in waits.items() if not count), 0
    while ready:
        done += 1
        for reader in readers[ready.popleft()]:
            waits[reader] -= 1
            if not waits[reader]:
                ready.append(reader)
    return done < len(feeds)
