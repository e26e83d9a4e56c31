"""The verb `convert`: one command for each converter."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quarkfast.cli import console
from quarkfast.cli.environment import check_environment
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.cli.options import AsJson, Force
from quarkfast.errors import ConfigError, OutputError

if TYPE_CHECKING:
    from quarkfast.tools import Converted

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX model.")]
Output = Annotated[Path, typer.Argument(metavar="OUTPUT", help="Where to write.")]

convert = typer.Typer(help="Write a model in another form: types, shapes, operator set, layout, Q/DQ nodes.")


def bfloat16(
    model: Model,
    output: Output,
    form: Annotated[
        str,
        typer.Option(help="cast (pairs of Casts), qdq (Quark's nodes), plain (no float32 left), rounded (VAIML's)."),
    ] = "cast",
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Write a float32 or float16 model in bfloat16."""
    _begin(output, force)
    from quarkfast.tools import to_bfloat16

    return _show(model, to_bfloat16(model, output, form), as_json)


def bfp16(model: Model, output: Output, force: Force = False, as_json: AsJson = False) -> int:
    """Write a float32 or float16 model in BFP16: 8 values share an exponent."""
    _begin(output, force)
    from quarkfast.tools import to_bfp16

    return _show(model, to_bfp16(model, output), as_json)


def float32(model: Model, output: Output, force: Force = False, as_json: AsJson = False) -> int:
    """Write a float16 or bfloat16 model in float32, inputs and outputs too."""
    _begin(output, force)
    from quarkfast.tools import to_float32

    return _show(model, to_float32(model, output), as_json)


def fixed_shapes(
    model: Model,
    output: Output,
    shape: Annotated[
        list[str],
        typer.Option("--shape", metavar="NAME=SIZES", help="Shape of an input or output, e.g. image=1,3,224,224."),
    ],
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Write a model whose inputs have fixed shapes."""
    _begin(output, force)
    from quarkfast.tools import fix_input_shapes

    return _show(model, fix_input_shapes(model, output, dict(map(_shape, shape))), as_json)


def fixed_inputs(
    model: Model,
    output: Output,
    given: Annotated[
        list[str],
        typer.Option("--input", metavar="NAME=NUMBERS", help="Values of an input, e.g. sr=16000; one number fills it."),
    ],
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Write a model in which some inputs are constants, and an If that they decide is its branch."""
    _begin(output, force)
    from quarkfast.tools import fix_input_values

    return _show(model, fix_input_values(model, output, dict(map(_numbers, given))), as_json)


def opset(
    model: Model,
    output: Output,
    version: Annotated[int, typer.Option("--to", metavar="VERSION", help="The operator set to write.")],
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Write a model in another version of ONNX's operator set."""
    _begin(output, force)
    from quarkfast.tools import convert_operator_set

    return _show(model, convert_operator_set(model, output, version), as_json)


def channels_last(model: Model, output: Output, force: Force = False, as_json: AsJson = False) -> int:
    """Write a model that takes and gives images as NHWC in place of NCHW."""
    _begin(output, force)
    from quarkfast.tools import to_channels_last

    return _show(model, to_channels_last(model, output), as_json)


def standard_qdq(model: Model, output: Output, force: Force = False, as_json: AsJson = False) -> int:
    """Write Quark's Q/DQ nodes as those of ONNX or ONNX Runtime."""
    _begin(output, force)
    from quarkfast.tools import to_standard_qdq

    return _show(model, to_standard_qdq(model, output), as_json)


def custom_qdq(model: Model, output: Output, force: Force = False, as_json: AsJson = False) -> int:
    """Write Q/DQ nodes of ONNX or ONNX Runtime as those of Quark."""
    _begin(output, force)
    from quarkfast.tools import to_custom_qdq

    return _show(model, to_custom_qdq(model, output), as_json)


def custom_domain(
    model: Model,
    output: Output,
    domain: Annotated[str, typer.Option("--to", metavar="DOMAIN", help="com.amd.quark or com.vai.quantize.")],
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Give Quark's nodes the names that they have in another domain."""
    _begin(output, force)
    from quarkfast.tools import change_custom_domain

    return _show(model, change_custom_domain(model, output, domain), as_json)


def remove_qdq(model: Model, output: Output, force: Force = False, as_json: AsJson = False) -> int:
    """Write a quantized model as a float one, with the constants as they were rounded."""
    _begin(output, force)
    from quarkfast.tools import remove_qdq as remove

    return _show(model, remove(model, output), as_json)


COMMANDS = (
    *(bfloat16, bfp16, float32, fixed_shapes, fixed_inputs, opset, channels_last),
    *(standard_qdq, custom_qdq, custom_domain, remove_qdq),
)


def _begin(output: Path, force: bool) -> None:
    """Looks at the environment, and at what would be replaced.

    Raises:
        OutputError: If a file would be.
    """
    check_environment()
    if output.is_file() and not force:
        raise OutputError(f"output: expected a new file, got {str(output)!r}, which exists; --force replaces it")


def _shape(text: str) -> tuple[str, Sequence[int]]:
    """Reads ``name=1,3,224,224``.

    Raises:
        ConfigError: If it is something else.
    """
    name, _, sizes = text.rpartition("=")
    if not name or not all(size.strip().isdecimal() for size in sizes.split(",")):
        raise ConfigError(f"--shape: expected NAME=SIZES, such as image=1,3,224,224, got {text!r}")
    return name, [int(size) for size in sizes.split(",")]


def _numbers(text: str) -> tuple[str, float | list[float]]:
    """Reads ``name=16000``, and ``name=0.5,1`` for an input of one dimension.

    Raises:
        ConfigError: If it is something else.
    """
    name, _, numbers = text.rpartition("=")
    try:
        found = list(map(_number, numbers.split(",")))
    except ValueError:
        found = []
    if not name or not found:
        raise ConfigError(f"--input: expected NAME=NUMBERS, such as sr=16000, got {text!r}")
    return name, found if len(found) > 1 else found[0]


def _number(text: str) -> float:
    return int(text) if text.strip().lstrip("+-").isdecimal() else float(text)


def _show(model: Path, result: "Converted", as_json: bool) -> ExitCode:
    if as_json:
        found = {"model": str(model), "output": str(result.path), "bytes": result.bytes, "changed": result.changed}
        typer.echo(json.dumps({**found, **dict(result.facts)}, indent=2))
    else:
        written = console.kilobytes(result.bytes)
        rows = [("written", f"{result.path} ({written})"), ("changed", "yes" if result.changed else "nothing")]
        console.show_facts([("model", str(model)), *result.facts, *rows])
    return ExitCode.OK
