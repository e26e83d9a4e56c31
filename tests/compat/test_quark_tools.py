"""Quark's tools by their module names, with Quark's arguments."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from quarkfast.compat.quark.onnx import tools
from quarkfast.compat.quark.onnx.tools.command import shapes_of
from quarkfast.compat.quark.onnx.tools.table import COMMANDS
from quarkfast.demo.data import MODEL
from quarkfast.errors import ConfigError

IO = ["--input", "{model}", "--output", "{out}"]
MODELS = ["--input_model", "{model}", "--output_model", "{out}"]
PLAIN = ["{model}", "{out}"]
# Module -> Quark's arguments.
TOOLS = {
    "convert_custom_ops": [*MODELS, "--reverse_conversion", "True"],
    "convert_customqdq_to_qdq": MODELS,
    "convert_dynamic_to_fixed": ["--fix_shapes", "image:[1,1,8,8]", *PLAIN],
    "convert_fp16_to_bf16": [*IO, "--format", "simulate_bf16"],
    "convert_fp16_to_bfp16": PLAIN,
    "convert_fp16_to_fp32": IO,
    "convert_fp32_to_bf16": IO,
    "convert_fp32_to_bfp16": [*PLAIN, "--save_as_external_data"],
    "convert_nchw_to_nhwc": PLAIN,
    "convert_opset_version": ["{model}", "21", "{out}"],
    "convert_quant_to_float": PLAIN,
    "fix_shapes": ["--input_model_path", "{model}", "--output_model_path", "{out}", "--fix_shapes", "image:[1,1,8,8]"],
    "random_quantize": ["--input_model_path", "{model}", "--quantized_model_path", "{out}", "--config", "XINT8"],
    "remove_bf16_cast": PLAIN,
    "remove_qdq": MODELS,
}


def words(name: str, model: Path, out: Path) -> list[str]:
    return [word.format(model=model, out=out) for word in TOOLS[name]]


def main_of(name: str):
    return importlib.import_module(f"{tools.__name__}.{name}").main


def test_every_module_is_tried():
    assert set(COMMANDS) - {"evaluate"} == set(TOOLS)


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_writes_a_model(name, tmp_path, capsys):
    out = tmp_path / "out.onnx"
    assert main_of(name)(words(name, MODEL, out)) == 0
    assert f"written: {out}" in capsys.readouterr().out
    onnx.checker.check_model(out)
    assert (tmp_path / "out.onnx.data").exists() == ("--save_as_external_data" in TOOLS[name])


def contents(folder: Path) -> dict[str, bytes | None]:
    """What lies in a folder, at any depth."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def status_of(name: str, arguments: list[str]) -> object:
    """The exit status of a tool, also where it ends the process."""
    try:
        return main_of(name)(arguments)
    except SystemExit as ended:
        return ended.code


# What is wrong with the model, and with where to write.
MODELS_THAT_ARE_NONE = {
    "missing": lambda path: None,
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("this is no model"),
    "cut": lambda path: path.write_bytes(MODEL.read_bytes()[:100]),
    "folder": lambda path: path.mkdir(),
}
OUTPUTS_THAT_ARE_NONE = {"a folder": ".", "in no folder": "none/out.onnx"}


@pytest.mark.parametrize("broken", MODELS_THAT_ARE_NONE)
@pytest.mark.parametrize("name", TOOLS)
def test_what_is_no_model_gets_a_sentence_and_leaves_nothing(name, broken, tmp_path, capsys):
    MODELS_THAT_ARE_NONE[broken](tmp_path / "model.onnx")
    before = contents(tmp_path)
    assert main_of(name)(words(name, tmp_path / "model.onnx", tmp_path / "out.onnx")) == 1
    error = capsys.readouterr().err
    assert re.match(rf"{name}: error: (model|.*model\.onnx): expected ", error)
    assert error.count("\n") == 1
    assert contents(tmp_path) == before


@pytest.mark.parametrize("where", OUTPUTS_THAT_ARE_NONE)
@pytest.mark.parametrize("name", TOOLS)
def test_where_nothing_can_be_written_gets_a_sentence_and_leaves_nothing(name, where, tmp_path, capsys):
    assert main_of(name)(words(name, MODEL, tmp_path / OUTPUTS_THAT_ARE_NONE[where])) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"{name}: error: output: expected ")
    assert error.count("\n") == 1
    assert not contents(tmp_path)


@pytest.mark.parametrize("name", TOOLS)
def test_a_model_may_be_replaced_by_what_it_becomes(name, tmp_path):
    model, other = tmp_path / "model.onnx", tmp_path / "other"
    model.write_bytes(MODEL.read_bytes())
    other.mkdir()
    assert main_of(name)(words(name, MODEL, other / "model.onnx")) == 0
    assert main_of(name)(words(name, model, model)) == 0
    beside = {Path(path).name: data for path, data in contents(other).items()}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == beside


@pytest.mark.parametrize("change", [lambda given: [*given, "--no_such"], lambda given: given[1:], lambda given: []])
@pytest.mark.parametrize("name", [*TOOLS, "evaluate"])
def test_wrong_arguments_get_a_sentence(name, change, tmp_path, capsys):
    given = words(name, MODEL, tmp_path / "out.onnx") if name in TOOLS else ["--baseline_results_folder", str(tmp_path)]
    assert status_of(name, change(given)) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"{name}: error: ")
    assert error.endswith("; --help lists what it takes\n")
    assert error.count("\n") == 1
    assert not contents(tmp_path)


WRONG_VALUES = {
    "convert_dynamic_to_fixed": ["--fix_shapes", "imag:[1,1,8,8]", "{model}", "{out}"],
    "convert_fp16_to_bf16": [*IO, "--format", "bf17"],
    "convert_fp32_to_bf16": [*IO, "--format", "bf17"],
    "convert_opset_version": ["{model}", "999", "{out}"],
    "fix_shapes": [*TOOLS["fix_shapes"][:-1], "image:[1,1,9]"],
    "random_quantize": [*TOOLS["random_quantize"][:-1], "XINT9"],
}


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_a_wrong_value_gets_a_sentence_and_leaves_nothing(name, tmp_path, capsys):
    given = [word.format(model=MODEL, out=tmp_path / "out.onnx") for word in WRONG_VALUES[name]]
    assert status_of(name, given) in (1, 2)
    error = capsys.readouterr().err
    assert error.startswith(f"{name}: error: ")
    assert error.count("\n") == 1
    assert not contents(tmp_path)


@pytest.mark.parametrize("ending", ["", ".py"])
def test_a_module_is_a_command(ending, tmp_path):
    """Quark's documentation prints names of modules with and without ``.py``."""
    out = tmp_path / "out.onnx"
    module = f"{tools.__name__}.convert_opset_version{ending}"
    command = [sys.executable, "-m", module, *words("convert_opset_version", MODEL, out)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    assert out.exists()


@pytest.mark.parametrize("name", ["no_such", "fix_shapes.pyc"])
def test_a_module_that_is_in_no_row_is_not_found(name):
    with pytest.raises(ModuleNotFoundError, match=re.escape(f"{tools.__name__}.{name}")):
        importlib.import_module(f"{tools.__name__}.{name}")


@pytest.mark.parametrize("text", ["image", "image:1,2", "image:[1,x]", ":[1]"])
def test_shapes_in_another_notation_are_refused(text):
    with pytest.raises(ConfigError, match=r"fix_shapes: expected 'x:\[1,3,224,224\];y:\[1,10\]', got"):
        shapes_of(text)


def test_nodes_and_parts_may_stay_float(tmp_path):
    out = tmp_path / "out.onnx"
    names = [node.name for node in onnx.load(MODEL).graph.node if node.op_type == "Conv"]
    arguments = [*words("random_quantize", MODEL, out), "--exclude_nodes", f"{names[0]}; {names[1]}"]
    assert main_of("random_quantize")(arguments) == 0
    read = {name for node in onnx.load(out).graph.node for name in node.input}
    weights = [node.input[1] for node in onnx.load(MODEL).graph.node if node.op_type == "Conv"]
    assert {name in read for name in weights[:2]} == {True}
    assert {name in read for name in weights[2:]} <= {False}


def test_a_part_is_named_by_its_ends(tmp_path, capsys):
    out = tmp_path / "out.onnx"
    names = [node.name for node in onnx.load(MODEL).graph.node]
    part = f"[{names[0]}], [{names[2]}]"
    assert main_of("random_quantize")([*words("random_quantize", MODEL, out), "--exclude_subgraphs", part]) == 0
    assert main_of("random_quantize")([*words("random_quantize", MODEL, out), "--exclude_subgraphs", "[a]"]) == 1
    assert "exclude_subgraphs: expected '[starts], [ends]; ...', got '[a]'" in capsys.readouterr().err
