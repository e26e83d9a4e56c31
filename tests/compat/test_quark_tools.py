"""Quark's tools by their module names, with Quark's arguments."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from quarkfast.compat.quark.onnx import tools
from quarkfast.compat.quark.onnx.tools.command import shapes_of
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
    found = {path.stem for path in Path(tools.__file__).parent.glob("*.py")}
    assert found - {"__init__", "command", "evaluate"} == set(TOOLS)


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_writes_a_model(name, tmp_path, capsys):
    out = tmp_path / "out.onnx"
    assert main_of(name)(words(name, MODEL, out)) == 0
    assert f"written: {out}" in capsys.readouterr().out
    onnx.checker.check_model(out)
    assert (tmp_path / "out.onnx.data").exists() == ("--save_as_external_data" in TOOLS[name])


@pytest.mark.parametrize("name", TOOLS)
def test_a_model_that_there_is_not_gets_a_sentence(name, tmp_path, capsys):
    assert main_of(name)(words(name, tmp_path / "none.onnx", tmp_path / "out.onnx")) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"{name}: error: ")
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_module_is_a_command(tmp_path):
    out = tmp_path / "out.onnx"
    command = [
        sys.executable,
        "-m",
        f"{tools.__name__}.convert_opset_version",
        *words("convert_opset_version", MODEL, out),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    assert out.exists()


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
