"""The table of Quark's tools: the arguments of each as Quark has them, and the function of quarkfast that it calls."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Mapping
from types import MappingProxyType

from quarkfast import tools
from quarkfast.compat.quark.onnx.tools.command import EXTERNAL_DATA, Arguments, Main, command, shapes_of
from quarkfast.compat.quark.onnx.tools.folder_figures import compare_folders
from quarkfast.config.quark import get_default_config
from quarkfast.config.quark.enums import PowerOfTwoMethod
from quarkfast.config.quark.translate import scheme_of
from quarkfast.errors import ConfigError
from quarkfast.search.quantize import quantize

__all__ = ["COMMANDS"]

_BFLOAT16 = {"with_cast": "cast", "customqdq": "qdq", "bf16": "plain", "simulate_bf16": "rounded"}


def _named(read: str, written: str, what: str) -> Arguments:
    return {read: {"required": True, "help": what}, written: {"required": True, "help": "where to write"}}


def _placed(what: str, read: str = "input", written: str = "output") -> Arguments:
    return {read: {"help": what}, written: {"help": "where to write"}}


def _flag(text: str) -> bool:
    return text.lower() not in ("", "0", "false")


def _to_bfloat16(given: Namespace) -> tools.Converted:
    return tools.to_bfloat16(given.input, given.output, _BFLOAT16[given.format])


def _quantize(given: Namespace) -> tools.Converted:
    config = get_default_config(given.config)
    config.nodes_to_exclude = [name.strip() for name in given.exclude_nodes.split(";") if name.strip()]
    config.subgraphs_to_exclude = _subgraphs(given.exclude_subgraphs)
    if given.config == "XINT8":
        config.calibrate_method = PowerOfTwoMethod.NonOverflow  # as Quark's tool: what is random has no outliers
    result = quantize(given.input_model_path, given.quantized_model_path, scheme_of(config), "random")
    assert result.path is not None
    counts = [(f"quantized {op_type}", str(count)) for op_type, count in result.summary.quantized.items()]
    return tools.Converted(result.path, result.summary.bytes_after, bool(counts), tuple(counts))


def _subgraphs(text: str) -> list[tuple[list[str], list[str]]]:
    """Reads ``[a, b], [c]; [d], [e]``: starts and ends of each part.

    Raises:
        ConfigError: If it is something else.
    """
    found = []
    for part in filter(None, (each.strip() for each in text.split(";"))):
        ends = [[name.strip() for name in names.split(",")] for names in re.findall(r"\[([^\[\]]*)\]", part)]
        if len(ends) != 2:
            raise ConfigError(f"exclude_subgraphs: expected '[starts], [ends]; ...', got {part!r}")
        found.append((ends[0], ends[1]))
    return found


_QUARK_NODES = _named("--input_model", "--output_model", "a model with Quark's nodes")
_SHAPES: Arguments = {"--fix_shapes": {"required": True, "help": "'x:[1,3,224,224];y:[1,10]'"}}
_FORMAT: Arguments = {"--format": {"default": "with_cast", "choices": _BFLOAT16, "help": "how it is in bfloat16"}}

_ROWS: Mapping[str, tuple[str, Arguments, Callable[[Namespace], tools.Converted]]] = {
    "convert_custom_ops": (
        "Give Quark's nodes their older names, or those of today.",
        {
            **_QUARK_NODES,
            "--external_data": {
                "dest": "save_as_external_data",
                "type": _flag,
                "default": False,
                "help": "in two files",
            },
            "--reverse_conversion": {"type": _flag, "default": False, "help": "from older names to those of today"},
        },
        lambda given: tools.change_custom_domain(
            given.input_model, given.output_model, "com.amd.quark" if given.reverse_conversion else "com.vai.quantize"
        ),
    ),
    "convert_customqdq_to_qdq": (
        "Write Q/DQ nodes of Quark as those of ONNX or ONNX Runtime.",
        _QUARK_NODES,
        lambda given: tools.to_standard_qdq(given.input_model, given.output_model),
    ),
    "convert_dynamic_to_fixed": (
        "Write a model whose inputs have fixed shapes.",
        {**_SHAPES, **_placed("a model", "input_model", "output_model")},
        lambda given: tools.fix_input_shapes(given.input_model, given.output_model, shapes_of(given.fix_shapes)),
    ),
    "convert_fp16_to_bf16": (
        "Write a float16 model in bfloat16.",
        {**_named("--input", "--output", "a float16 model"), **_FORMAT, **EXTERNAL_DATA},
        _to_bfloat16,
    ),
    "convert_fp16_to_bfp16": (
        "Write a float16 model in BFP16.",
        {**_placed("a float16 model"), **EXTERNAL_DATA},
        lambda given: tools.to_bfp16(given.input, given.output),
    ),
    "convert_fp16_to_fp32": (
        "Write a float16 model in float32.",
        {**_named("--input", "--output", "a float16 model"), **EXTERNAL_DATA},
        lambda given: tools.to_float32(given.input, given.output),
    ),
    "convert_fp32_to_bf16": (
        "Write a float32 model in bfloat16.",
        {**_named("--input", "--output", "a float32 model"), **_FORMAT, **EXTERNAL_DATA},
        _to_bfloat16,
    ),
    "convert_fp32_to_bfp16": (
        "Write a float32 model in BFP16.",
        {**_placed("a float32 model"), **EXTERNAL_DATA},
        lambda given: tools.to_bfp16(given.input, given.output),
    ),
    "convert_nchw_to_nhwc": (
        "Write a model that takes and gives images as NHWC.",
        _placed("a model of NCHW images"),
        lambda given: tools.to_channels_last(given.input, given.output),
    ),
    "convert_opset_version": (
        "Write a model in another operator set.",
        {
            "input": {"help": "a model"},
            "target_opset": {"type": int, "help": "the operator set"},
            "output": {"help": "where to write"},
        },
        lambda given: tools.convert_operator_set(given.input, given.output, given.target_opset),
    ),
    "convert_quant_to_float": (
        "Write a quantized model as a float one.",
        _placed("a quantized model"),
        lambda given: tools.remove_qdq(given.input, given.output),
    ),
    "fix_shapes": (
        "Write a model whose inputs and outputs have fixed shapes.",
        {**_named("--input_model_path", "--output_model_path", "a model"), **_SHAPES, **EXTERNAL_DATA},
        lambda given: tools.fix_input_shapes(
            given.input_model_path, given.output_model_path, shapes_of(given.fix_shapes)
        ),
    ),
    "random_quantize": (
        "Quantize a model with random data, to try what a compiler makes of it.",
        {
            **_named("--input_model_path", "--quantized_model_path", "a float model"),
            "--config": {"default": "XINT8", "help": "one of Quark's presets"},
            "--exclude_nodes": {"default": "", "help": "names of nodes that stay float: 'a;b'"},
            "--exclude_subgraphs": {"default": "", "help": "ends of parts that stay float: [a, b], [c]; ..."},
            **EXTERNAL_DATA,
        },
        _quantize,
    ),
    "remove_bf16_cast": (
        "Write a model in bfloat16 without the Casts around tensors.",
        {
            **_placed("a model with Casts to bfloat16 and back", "input_model_path", "output_model_path"),
            **EXTERNAL_DATA,
        },
        lambda given: tools.remove_qdq(given.input_model_path, given.output_model_path),
    ),
    "remove_qdq": (
        "Write a quantized model without its Q/DQ pairs.",
        _named("--input_model", "--output_model", "a quantized model"),
        lambda given: tools.remove_qdq(given.input_model, given.output_model),
    ),
}

COMMANDS: Mapping[str, Main] = MappingProxyType(
    {"evaluate": compare_folders, **{name: command(name, *row) for name, row in _ROWS.items()}}
)
"""Name of a module of ``quark.onnx.tools`` -> its main function."""
