"""The command `quarkfast`: its verbs, and the one place where an error becomes a sentence and an exit status."""

import logging
import re
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from quarkfast.cli import console
from quarkfast.cli.calibrate import calibrate
from quarkfast.cli.check import check
from quarkfast.cli.checkpoint import checkpoint
from quarkfast.cli.compare import compare
from quarkfast.cli.convert import COMMANDS, convert
from quarkfast.cli.demo import demo
from quarkfast.cli.doctor import doctor
from quarkfast.cli.evaluate import evaluate
from quarkfast.cli.examples import EXAMPLES
from quarkfast.cli.exit_codes import MEANINGS, ExitCode, exit_code_of
from quarkfast.cli.inspect import inspect
from quarkfast.cli.merge_calibration import merge_calibration
from quarkfast.cli.options import is_json
from quarkfast.cli.plan import plan
from quarkfast.cli.quantize import quantize
from quarkfast.errors import CalibrationError, ConfigError, OutputError, QuarkfastError

EPILOG = "Exit status: " + ", ".join(f"{code.value} {meaning}" for code, meaning in MEANINGS.items()) + "."


def _epilog(verb: Callable[..., int]) -> str:
    """What the help of a verb ends with. Blank lines keep paragraphs apart in typer's help."""
    example = EXAMPLES[verb.__name__.replace("_", "-")]
    return f"Example:\n\nquarkfast {example}\n\n'quarkfast --help' tells what exit statuses mean."


# typer brings its own copy of click or depends on it, by version; the error class that it exports leads to either.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _verb in (
    quantize,
    plan,
    calibrate,
    merge_calibration,
    evaluate,
    compare,
    inspect,
    check,
    checkpoint,
    demo,
    doctor,
):
    app.command(epilog=_epilog(_verb))(_verb)
for _command_of_convert in COMMANDS:
    convert.command(epilog=_epilog(_command_of_convert))(_command_of_convert)
app.add_typer(convert, name="convert", epilog=EPILOG)


@app.callback(invoke_without_command=True, epilog=EPILOG)
def quarkfast(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> int:
    """Quantize ONNX models for NPUs and CPUs."""
    if version:
        from quarkfast import _version

        typer.echo(f"quarkfast {_version.version()}")
        raise typer.Exit(ExitCode.OK)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        return ExitCode.USAGE
    return ExitCode.OK


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The words after the command's name; the process's own by default.

    Returns:
        The exit status, one of `ExitCode`.
    """
    for package in ("onnx_ir", "onnxscript"):  # which log what becomes a sentence of ours
        logging.getLogger(package).addHandler(logging.NullHandler())
    try:
        # Verbs return their exit status; without standalone mode typer returns it, and 130 for an interrupt.
        with console.warnings_as_lines():
            status = int(app(arguments, standalone_mode=False, prog_name="quarkfast") or ExitCode.OK)
        sys.stdout.flush()
    except _UsageError as error:
        _complain(f"{_sentence(error)}; see '{_command(error)} --help'")
        return ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        status = ExitCode.INTERRUPTED
    except (QuarkfastError, OSError, ImportError, MemoryError) as error:
        sentence = _sentence(error)
        if isinstance(error, ConfigError | CalibrationError | OutputError):
            sentence = _with_flags(sentence, sys.argv[1:] if arguments is None else arguments)
        _complain(sentence)
        return exit_code_of(error)
    if status == ExitCode.INTERRUPTED:
        _complain("interrupted")
    return status


def _sentence(error: BaseException) -> str:
    if isinstance(error, _UsageError):
        message = str(error.format_message()).rstrip(".")  # type: ignore[attr-defined]
        return message[:1].lower() + message[1:]
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror
    return str(error)


def _with_flags(sentence: str, arguments: Sequence[str]) -> str:
    """Returns a sentence about arguments in Python, with options called as in a shell."""
    verb: Any = typer.main.get_command(app)
    for word in arguments[:2]:
        verb = getattr(verb, "commands", {}).get(word, verb)
    flags = {each.name: max(each.opts, key=len) for each in getattr(verb, "params", ()) if each.opts[0][0] == "-"}
    data = flags.get("calibration_data", flags.get("data"))
    if data is not None:
        sentence = re.sub(r"^calibration data(?=: )", data, sentence)
        flags["calibration_data"] = data
    # Words of one part are words of the language as well: they name an option where a sentence begins.
    names = "|".join(name for name in flags if "_" in name)
    words = rf"(?<![\w'\"./-])({names})(?![\w'\"/=-])" if names else r"(?!)"
    begun = re.match(r"(?:option )?(\w+)(?=: )", sentence)
    where = "" if begun is None else begun[1]
    sentence = sentence if where not in flags or begun is None else flags[where] + sentence[begun.end() :]
    # The keys of JSON have names of options, and are none.
    return sentence if is_json(where) else re.sub(words, lambda found: flags[found[1]], sentence)


def _command(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return str(context.command_path) if context is not None else "quarkfast"


def _complain(sentence: str) -> None:
    console.show_line(f"quarkfast: error: {sentence}", error=True)
