"""From a model to another of the same values, or of values in another type."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from quarkfast.atomic_files import check_output
from quarkfast.deferred import ir
from quarkfast.errors import ConfigError, ModelError
from quarkfast.graph.access import array_of, name_of
from quarkfast.graph.external import check_not_a_source, needs_data_file, write_model
from quarkfast.graph.load import ModelSource, external_files, load_model
from quarkfast.graph.notes import notes_of
from quarkfast.graph.opset import choose_ir_version, convert_opset, convert_opset_exactly, opset_version
from quarkfast.graph.shape_inference import drop_stale_shapes
from quarkfast.search.quantize import quantize
from quarkfast.transforms.clean import lift_constants, sort
from quarkfast.transforms.fix_shapes import fix_inputs, fix_shapes, move_channels_last
from quarkfast.transforms.float_types import change_float_type
from quarkfast.transforms.half_precision import widen_ends, widen_half
from quarkfast.transforms.infer_types import infer_types, open_outputs
from quarkfast.transforms.pairs import DOMAINS, change_domain, remove_pairs, to_custom_pairs, to_standard_pairs

__all__ = [
    "BFLOAT16_FORMS",
    "Converted",
    "change_custom_domain",
    "convert_operator_set",
    "fix_input_shapes",
    "fix_input_values",
    "remove_qdq",
    "to_bfloat16",
    "to_bfp16",
    "to_channels_last",
    "to_custom_qdq",
    "to_float32",
    "to_standard_qdq",
]

Output = str | os.PathLike[str]

_FLOAT, _BFLOAT16 = ir.DataType.FLOAT, ir.DataType.BFLOAT16

# The first operator set in which Conv, pools and recurrent layers have bfloat16.
_BFLOAT16_SET = 22

BFLOAT16_FORMS: Mapping[str, str] = {
    "cast": "float32 with two Casts around each tensor that becomes bfloat16",
    "qdq": "float32 with Quark's Q/DQ nodes around it",
    "plain": "operators compute in bfloat16, which ONNX Runtime cannot on processors",
    "rounded": "float32 with constants that bfloat16 holds, and two Casts behind each input (VAIML's form)",
}
"""How a model may be in bfloat16."""


class Converted(NamedTuple):
    """What a converter did.

    Attributes:
        path: The file that was written.
        bytes: Its size, with that of a second file for the data, if there is one.
        changed: Whether the model is another than before.
        facts: What was done, as names and values.
    """

    path: Path
    bytes: int
    changed: bool
    facts: tuple[tuple[str, str], ...] = ()


class _Work:
    """A loaded model, which a converter changes or replaces, and what it has to say."""

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.changed = False
        self.facts: list[tuple[str, str]] = []
        self.result: Converted | None = None


@contextmanager
def _converting(model: ModelSource, output: Output) -> Iterator[_Work]:
    """Loads a model with constants as initializers and types inferred, and writes what became of it."""
    path, loaded = check_output(output), load_model(model)
    outside = external_files(loaded)
    check_not_a_source(path, model, outside)
    sort(loaded)
    notes = tuple(("note", note) for note in notes_of(loaded))
    lift_constants(loaded)
    drop_stale_shapes(loaded)
    infer_types(loaded)
    open_outputs(loaded)
    work = _Work(loaded)
    yield work
    open_outputs(work.model)
    _, size = write_model(work.model, path, external=bool(outside) or needs_data_file(work.model))
    work.result = Converted(path, size, work.changed, (*work.facts, *notes))


def _finished(work: _Work) -> Converted:
    assert work.result is not None
    return work.result


def to_bfloat16(model: ModelSource, output: Output, form: str = "cast") -> Converted:
    """Writes a float32 or float16 model in bfloat16.

    Args:
        model: Path of an ONNX file, or a model.
        output: Where to write.
        form: One of `BFLOAT16_FORMS`.

    Raises:
        ConfigError: If there is no such form.
        ModelError: If the model cannot be read.
        OutputError: If the result cannot be written.
        UnsupportedError: If this version cannot do it.

    Example:
        >>> from quarkfast.demo.data import MODEL
        >>> from quarkfast.tools import to_bfloat16
        >>> to_bfloat16(MODEL, "digits_bf16.onnx", "plain").changed
        True
    """
    if form not in BFLOAT16_FORMS:
        raise ConfigError(f"form: expected {', '.join(BFLOAT16_FORMS)}, got {form!r}")
    if form in ("cast", "qdq"):
        return _quantized(model, output, "BF16", bf16_qdq_to_cast=form == "cast")
    if form == "rounded":
        model = load_model(quantize(model, preset="BF16", bf16_qdq_to_cast=True).proto)
    with _converting(model, output) as work:
        if form == "rounded":
            work.changed = remove_pairs(work.model, keep_inputs=True)
        else:
            widen_half(work.model)
            work.model = convert_opset(work.model, _BFLOAT16_SET)
            infer_types(work.model)
            change_float_type(work.model, _FLOAT, _BFLOAT16, keep_ends=True)
            infer_types(work.model)
            work.changed = True
    return _finished(work)


def to_bfp16(model: ModelSource, output: Output) -> Converted:
    """Writes a float32 or float16 model in BFP16: 8 values share an exponent.

    Args and errors are those of :func:`to_bfloat16`.

    Example:
        >>> from quarkfast.demo.data import MODEL
        >>> from quarkfast.tools import to_bfp16
        >>> to_bfp16(MODEL, "digits_bfp16.onnx").changed
        True
    """
    return _quantized(model, output, "BFP16")


def _quantized(model: ModelSource, output: Output, preset: str, **options: Any) -> Converted:
    result = quantize(model, output, preset, **options)
    assert result.path is not None
    counts = [(f"quantized {op_type}", str(count)) for op_type, count in result.summary.quantized.items()]
    return Converted(result.path, result.summary.bytes_after, bool(counts), tuple(counts))


def to_float32(model: ModelSource, output: Output) -> Converted:
    """Writes a model in float16 or bfloat16 in float32, inputs and outputs too; Casts that do nothing then go.

    So do pairs, of Casts or of Quark's nodes, that round float32 to such a type and back.

    Values of constants stay as they are.

    Raises:
        ModelError: If the model cannot be read.
        OutputError: If the result cannot be written.

    Example:
        >>> from quarkfast.demo.data import MODEL
        >>> from quarkfast.tools import to_bfloat16, to_float32
        >>> narrow = to_bfloat16(MODEL, "digits_bf16.onnx", "plain")
        >>> to_float32(narrow.path, "digits_f32.onnx").bytes > narrow.bytes
        True
    """
    with _converting(model, output) as work:
        casts = sum(node.op_type == "Cast" for node in work.model.graph)
        work.changed = widen_ends(work.model)
        left = sum(node.op_type == "Cast" for node in work.model.graph)
        work.facts = [("Casts that went", str(casts - left))]
    return _finished(work)


def fix_input_shapes(model: ModelSource, output: Output, shapes: Mapping[str, Sequence[int]]) -> Converted:
    """Writes a model whose inputs have the shapes that are given; those of outputs follow, or must agree.

    Args:
        model: Path of an ONNX file, or a model.
        output: Where to write.
        shapes: By name of an input or output.

    Raises:
        ConfigError: If a name or shape is none.
        ModelError: If the model cannot be read, or says otherwise.
        OutputError: If the result cannot be written.

    Example:
        >>> from quarkfast.demo.data import MODEL
        >>> from quarkfast.tools import fix_input_shapes
        >>> fix_input_shapes(MODEL, "digits_1.onnx", {"image": [1, 1, 8, 8]}).facts[0]
        ("input 'image'", '[1, 1, 8, 8]')
    """
    with _converting(model, output) as work:
        work.changed = fix_shapes(work.model, shapes)
        ends = [("input", value) for value in work.model.graph.inputs]
        ends += [("output", value) for value in work.model.graph.outputs]
        work.facts = [(f"{what} {value.name!r}", _words(value.shape)) for what, value in ends]
    return _finished(work)


def fix_input_values(model: ModelSource, output: Output, values: Mapping[str, ArrayLike]) -> Converted:
    """Writes a model in which some inputs are constants; an If that they decide becomes the branch that it takes.

    Quantization leaves the bodies of an If float: voice activity detectors choose their layers by the sampling rate.

    Args:
        model: Path of an ONNX file, or a model.
        output: Where to write.
        values: By name of an input: an array of its shape, or one number, which fills it.

    Raises:
        ConfigError: If a name is no input, a value does not fit its type or shape, or no input would be left.
        ModelError: If the model cannot be read.
        OutputError: If the result cannot be written.

    Example:
        >>> import onnx
        >>> from quarkfast.tools import fix_input_values
        >>> graph = onnx.parser.parse_graph("g (float[4] x, float s) => (float[4] y) { y = Mul (x, s) }")
        >>> model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        >>> fix_input_values(model, "doubled.onnx", {"s": 2}).facts
        (("input 's'", '2.0'), ('nodes', '1 to 1'))
    """
    with _converting(model, output) as work:
        before = len(work.model.graph)
        inputs = {name_of(value): value for value in work.model.graph.inputs}
        fix_inputs(work.model, values)
        work.changed = bool(values)
        arrays = {name: array_of(inputs[name]) for name in values}
        work.facts = [(f"input {name!r}", str(array.tolist())) for name, array in arrays.items()]
        work.facts.append(("nodes", f"{before} to {len(work.model.graph)}"))
    return _finished(work)


def _words(shape: ir.Shape | None) -> str:
    if shape is None:
        return "unknown"
    return f"[{', '.join(str(size) if isinstance(size, int) else str(size.value or '?') for size in shape)}]"


def convert_operator_set(model: ModelSource, output: Output, version: int) -> Converted:
    """Writes a model in another version of ONNX's operator set, by onnx's converter.

    Raises:
        ModelError: If the model cannot be read.
        OutputError: If the result cannot be written.
        UnsupportedError: If onnx cannot convert it.

    Example:
        >>> from quarkfast.demo.data import MODEL
        >>> from quarkfast.tools import convert_operator_set
        >>> convert_operator_set(MODEL, "digits_21.onnx", 21).facts
        (('operator set', '17 to 21'),)
    """
    with _converting(model, output) as work:
        before = opset_version(work.model)
        work.model = convert_opset_exactly(work.model, version)
        choose_ir_version(work.model)
        work.changed = before != version
        work.facts = [("operator set", f"{before} to {version}")]
    return _finished(work)


def to_channels_last(model: ModelSource, output: Output) -> Converted:
    """Writes a model whose images go in and come out as NHWC: a Transpose behind inputs of four dimensions, and in
    front of outputs, which are called ``<output>_transpose`` then.

    Raises:
        ModelError: If the model cannot be read, or has no such input or output.
        OutputError: If the result cannot be written.

    Example:
        >>> from quarkfast.demo.data import MODEL
        >>> from quarkfast.tools import to_channels_last
        >>> to_channels_last(MODEL, "digits_nhwc.onnx").changed
        True
    """
    with _converting(model, output) as work:
        work.changed = move_channels_last(work.model)
        if not work.changed:
            raise ModelError("model: expected an input or output of 4 dimensions, got none")
    return _finished(work)


def to_standard_qdq(model: ModelSource, output: Output) -> Converted:
    """Writes a model with ONNX's QuantizeLinear and DequantizeLinear, or ONNX Runtime's, in place of Quark's.

    Raises:
        ModelError: If the model cannot be read.
        OutputError: If the result cannot be written.
    """
    return _renamed(model, output, to_standard_pairs)


def to_custom_qdq(model: ModelSource, output: Output) -> Converted:
    """Writes a model with Quark's Q/DQ nodes in place of those of ONNX and ONNX Runtime.

    Raises:
        ModelError: If the model cannot be read.
        OutputError: If the result cannot be written.
    """
    return _renamed(model, output, to_custom_pairs)


def _renamed(model: ModelSource, output: Output, rename: Callable[[ir.Model], tuple[int, int]]) -> Converted:
    with _converting(model, output) as work:
        changed, stayed = rename(work.model)
        work.changed = changed > 0
        work.facts = [("changed", f"{changed} nodes"), ("left as they are", f"{stayed} nodes")]
    return _finished(work)


def change_custom_domain(model: ModelSource, output: Output, domain: str) -> Converted:
    """Writes a model whose nodes of Quark have the names of one domain: ``com.amd.quark``, or ``com.vai.quantize``.

    Raises:
        ConfigError: If there is no such domain.
        ModelError: If the model cannot be read.
        OutputError: If the result cannot be written.
    """
    if domain not in DOMAINS:
        raise ConfigError(f"domain: expected {' or '.join(DOMAINS)}, got {domain!r}")
    with _converting(model, output) as work:
        count = change_domain(work.model, domain)
        work.changed = count > 0
        work.facts = [("changed", f"{count} nodes")]
    return _finished(work)


def remove_qdq(model: ModelSource, output: Output) -> Converted:
    """Writes a quantized model as a float one: pairs go, and constants of codes become the floats that they stand for.

    Raises:
        ModelError: If the model cannot be read.
        OutputError: If the result cannot be written.

    Example:
        >>> import quarkfast
        >>> from quarkfast.demo.data import MODEL, load_images
        >>> from quarkfast.tools import remove_qdq
        >>> result = quarkfast.quantize(MODEL, "digits.onnx", "A8W8", load_images().calibration)
        >>> remove_qdq("digits.onnx", "digits_float.onnx").changed
        True
    """
    with _converting(model, output) as work:
        before = len(work.model.graph)
        work.changed = remove_pairs(work.model)
        infer_types(work.model)
        for key in [key for key in work.model.metadata_props if key.startswith("quarkfast.")]:
            del work.model.metadata_props[key]  # what made the model that it is no longer
        work.facts = [("nodes", f"{before} to {len(work.model.graph)}")]
    return _finished(work)
