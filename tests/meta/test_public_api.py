"""The public names: all there, documented, lazily imported."""

import inspect
import subprocess
import sys
from importlib import metadata

import pytest

import quarkfast

HEAVY = ["numpy", "ml_dtypes", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "typer", "rich"]


def run(code: str) -> str:
    """Standard output of a fresh interpreter that sees the modules that this one sees."""
    program = f"import sys; sys.path[:] = {sys.path!r}; {code}"
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


def loaded_after(code: str) -> set[str]:
    return set(run(f"{code}; print(*[name for name in {HEAVY} if name in sys.modules])").split())


@pytest.mark.parametrize("name", sorted(set(quarkfast.__all__) - {"__version__"}))
def test_every_public_name_exists_and_is_documented(name: str) -> None:
    value = getattr(quarkfast, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert inspect.getdoc(value)


def test_the_version_is_that_of_the_installed_distribution_or_says_that_there_is_none() -> None:
    try:
        installed = metadata.version("quarkfast")
    except metadata.PackageNotFoundError:
        installed = "0+source"
    assert quarkfast.__version__ == installed


def test_dir_lists_the_public_names() -> None:
    assert set(quarkfast.__all__) <= set(dir(quarkfast))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'quarkfast' has no attribute 'quantise'"):
        quarkfast.quantise  # noqa: B018


def test_importing_quarkfast_loads_no_heavy_package() -> None:
    assert loaded_after("import quarkfast") == set()


def test_formats_and_the_configuration_load_no_heavy_package() -> None:
    assert loaded_after("import quarkfast.formats, quarkfast.config, quarkfast.config.quark") == set()


@pytest.mark.parametrize("first", ["quarkfast.search.quantize", "quarkfast.config"])
def test_quantize_is_the_function_whatever_was_imported_first(first: str) -> None:
    code = f"import {first}, quarkfast; quarkfast.QuantizedModel; print(type(quarkfast.quantize).__name__)"
    assert run(code) == "function"


@pytest.mark.parametrize("arguments", [["--help"], ["quantize", "--help"], ["quantise"]], ids=" ".join)
def test_help_and_usage_errors_of_the_command_load_no_model_package(arguments: list[str]) -> None:
    heavy = {"numpy", "onnx", "onnx_ir", "onnxruntime", "onnxscript"}
    assert not loaded_after(f"from quarkfast.cli import main; main({arguments})") & heavy
