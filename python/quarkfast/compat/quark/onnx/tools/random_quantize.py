"""``quark.onnx.tools.random_quantize``: a model quantized with random data, to try what a compiler makes of it."""

from __future__ import annotations

import re
import sys
from argparse import Namespace

from quarkfast.compat.quark.onnx.tools.command import EXTERNAL_DATA, command
from quarkfast.config.quark import get_default_config
from quarkfast.config.quark.enums import PowerOfTwoMethod
from quarkfast.config.quark.translate import scheme_of
from quarkfast.errors import ConfigError
from quarkfast.pipeline.quantize import quantize
from quarkfast.tools import Converted

__all__ = ["main"]


def _run(given: Namespace) -> Converted:
    config = get_default_config(given.config)
    config.nodes_to_exclude = [name.strip() for name in given.exclude_nodes.split(";") if name.strip()]
    config.subgraphs_to_exclude = _subgraphs(given.exclude_subgraphs)
    if given.config == "XINT8":
        config.calibrate_method = PowerOfTwoMethod.NonOverflow  # as Quark's tool: what is random has no outliers
    result = quantize(given.input_model_path, given.quantized_model_path, scheme_of(config), "random")
    assert result.path is not None
    counts = [(f"quantized {op_type}", str(count)) for op_type, count in result.summary.quantized.items()]
    return Converted(result.path, result.summary.bytes_after, bool(counts), tuple(counts))


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


main = command(
    "random_quantize",
    "Quantize a model with random data, to try what a compiler makes of it.",
    {
        "--input_model_path": {"required": True, "help": "a float model"},
        "--quantized_model_path": {"required": True, "help": "where to write"},
        "--config": {"default": "XINT8", "help": "one of Quark's presets"},
        "--exclude_nodes": {"default": "", "help": "names of nodes that stay float: 'a;b'"},
        "--exclude_subgraphs": {"default": "", "help": "ends of parts that stay float: [a, b], [c]; ..."},
        **EXTERNAL_DATA,
    },
    _run,
)

if __name__ == "__main__":
    sys.exit(main())
