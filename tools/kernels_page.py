"""The page of the kernels, docs/kernels.md: signature, purpose, arguments and a running example of each.

All of it is from docstrings; `python -m tools.docs_tables` writes it with the tables.
"""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Callable, Iterator

import quarkfast
from quarkfast import kernels

#: Heading -> functions, in the order of the page.
GROUPS = {
    "Scale and zero point": ("from_range", "code_range", "percentile_range", "entropy_range", "least_error_range",
                             "power_of_two_range",
        "quantization_error"),
    "Integers": ("quantize_linear", "dequantize_linear", "fake_quantize_linear", "quantize_linear_mirrored",
                 "quantize_linear_stochastic", "quantize_rows", "requantize_linear", "requantize_shift",
                 "descend_codes"),
    "Floats": ("cast", "round_trip", "cast_stochastic", "quantize_float", "dequantize_float"),
    "Block formats": ("quantize_mx", "dequantize_mx", "fake_quantize_mx", "quantize_mxfp4", "dequantize_mxfp4",
                      "quantize_nvfp4", "dequantize_nvfp4", "quantize_bfp", "dequantize_bfp", "fake_quantize_bfp",
                      "quantize_bfp_prime", "dequantize_bfp_prime", "fake_quantize_bfp_prime"),
    "GGUF": ("quantize_gguf", "dequantize_gguf"),
    "Packing": ("pack_codes", "unpack_codes", "pack_columns", "pack_linear_blocks", "pack_matmul_nbits",
                "unpack_matmul_nbits"),
    "Statistics": ("reduce_range", "absmax", "extremes", "histogram", "moments", "spread"),
    "Tensors of other libraries": ("from_dlpack", "to_dlpack"),
}  # fmt: skip

_SECTIONS = ("Args", "Returns", "Raises", "Source", "Example")


def function(name: str) -> Callable[..., object]:
    """Returns a kernel by its name: public ones are in quarkfast, all in quarkfast.kernels."""
    return getattr(quarkfast, name) if name in quarkfast.__all__ else getattr(kernels, name)  # type: ignore[no-any-return]


def sections(text: str) -> dict[str, str]:
    """Returns the parts of a docstring: its first paragraph under "", and what stands below each heading."""
    parts = re.split(rf"^({'|'.join(_SECTIONS)}):\n", text, flags=re.MULTILINE)
    found = {"": parts[0].strip().partition("\n\n")[0]}
    return found | {name: inspect.cleandoc(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def page() -> str:
    """Every kernel, by groups."""
    return "\n\n".join(line for heading, names in GROUPS.items() for line in _group(heading, names))


def _group(heading: str, names: tuple[str, ...]) -> Iterator[str]:
    yield f"## {heading}"
    for name in names:
        yield from _entry(name)


def _entry(name: str) -> Iterator[str]:
    called = function(name)
    parts = sections(inspect.getdoc(called) or "")
    home = "quarkfast" if name in quarkfast.__all__ else "quarkfast.kernels"
    yield f"### {name}"
    yield f"`{home}.{name}({_signature(called)})`"
    yield _plain(parts[""])
    if "Args" in parts:
        yield "\n".join(_arguments(parts["Args"]))
    if "Returns" in parts:
        yield f"Returns: {_plain(parts['Returns'])}"
    if "Example" in parts:
        yield "\n".join(_example(home, name, parts["Example"]))


def _signature(called: Callable[..., object]) -> str:
    """Returns the arguments without their types, which the list below tells in words."""
    words, keywords = [], False
    for each in inspect.signature(called).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not keywords:
            words.append("*")
            keywords = True
        default = getattr(each.default, "__name__", repr(each.default))
        words.append(each.name if each.default is each.empty else f"{each.name}={default}")
    return ", ".join(words)


def _arguments(text: str) -> Iterator[str]:
    for each in re.split(r"\n(?=\w+: )", text):
        name, _, what = each.partition(": ")
        yield f"- `{name}`: {_plain(what)}"


def _plain(text: str) -> str:
    """Returns a paragraph of a docstring in Markdown on one line."""
    text = re.sub(r":(?:func|class|mod):`[~]?([^`]+)`", r"`\1`", " ".join(text.split()))
    return text.replace("``", "`")


def _example(home: str, name: str, text: str) -> Iterator[str]:
    """Returns the doctest as a block that runs, imports first, with what it shows as comments."""
    examples = doctest.DocTestParser().get_examples(text)
    imports = [each.source.rstrip() for each in examples if each.source.startswith(("import ", "from "))]
    if "np." in text and not any("numpy" in line for line in imports):
        imports.append("import numpy as np")
    yield "```python"
    yield from imports
    yield f"from {home} import {name}"
    yield ""
    for each in examples:
        if each.source.rstrip() not in imports:
            yield each.source.rstrip()
            yield from (f"# {line}" for line in each.want.splitlines())
    yield "```"
