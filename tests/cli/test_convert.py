"""The verb `convert`: what it says, and what a mistake says."""

from __future__ import annotations

import json

import onnx
import pytest

import quarkfast
from quarkfast.cli.app import main
from quarkfast.demo.data import MODEL

# Command -> arguments behind the two files.
COMMANDS = {
    "bfloat16": [],
    "bfp16": [],
    "float32": [],
    "fixed-shapes": ["--shape", "image=1,1,8,8"],
    "opset": ["--to", "21"],
    "channels-last": [],
    "standard-qdq": [],
    "custom-qdq": [],
    "custom-domain": ["--to", "com.vai.quantize"],
    "remove-qdq": [],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_writes_a_model_and_says_so(command, tmp_path, capsys):
    output = tmp_path / "out.onnx"
    assert main(["convert", command, str(MODEL), str(output), *COMMANDS[command], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["output"], found["bytes"]) == (str(output), output.stat().st_size)
    onnx.checker.check_model(output)
    assert main(["convert", command, str(MODEL), str(output), *COMMANDS[command], "--force"]) == 0
    assert "written" in capsys.readouterr().out


def test_values_of_inputs_are_read(tmp_path, capsys):
    graph = onnx.parser.parse_graph("g (float[N, 2] x, int64 n, float[2] s) => (float[N, 2] y) { y = Mul (x, s) }")
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    path, output = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(model, path)
    values = ["--input", "n=-3", "--input", "s=0.5,1e-2"]
    assert main(["convert", "fixed-inputs", str(path), str(output), *values, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["input 'n'"], found["changed"]) == ("-3", True)
    assert [value.name for value in onnx.load(output).graph.input] == ["x"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("broken", ["missing", "cut", "exists"])
def test_bad_input_gets_a_sentence_and_leaves_nothing(command, broken, tmp_path, capsys):
    model, output = tmp_path / "model.onnx", tmp_path / "out.onnx"
    if broken != "missing":
        data = MODEL.read_bytes()
        model.write_bytes(data[:100] if broken == "cut" else data)
    if broken == "exists":
        output.write_bytes(b"mine")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    status = main(["convert", command, str(model), str(output), *COMMANDS[command]])
    error = capsys.readouterr().err
    assert status == {"missing": 4, "cut": 4, "exists": 6}[broken]
    assert error.startswith("quarkfast: error: ")
    assert error.count("\n") == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            ["fixed-shapes", "--shape", "image"],
            2,
            "--shape: expected NAME=SIZES, such as image=1,3,224,224, got 'image'",
        ),
        (["fixed-shapes", "--shape", "image=1,x"], 2, "--shape: expected NAME=SIZES"),
        (["fixed-shapes", "--shape", "imag=1,1,8,8"], 2, "got 'imag'; did you mean 'image'?"),
        (["fixed-shapes"], 2, "missing option '--shape'"),
        (["fixed-inputs", "--input", "image"], 2, "--input: expected NAME=NUMBERS, such as sr=16000, got 'image'"),
        (["fixed-inputs", "--input", "image=x"], 2, "--input: expected NAME=NUMBERS, such as sr=16000"),
        (["fixed-inputs", "--input", "imag=1"], 2, "got 'imag'; did you mean 'image'?"),
        (["fixed-inputs", "--input", "image=1"], 2, "inputs: expected an input that stays one"),
        (["opset", "--to", "0"], 2, "--to: expected an operator set from 1 to"),
        (["bfloat16", "--form", "bf16"], 2, "form: expected cast, qdq, plain, rounded, got 'bf16'"),
        (["custom-domain", "--to", "amd"], 2, "--to: expected com.amd.quark or com.vai.quantize, got 'amd'"),
    ],
)
def test_a_mistake_gets_a_sentence(arguments, status, message, tmp_path, capsys):
    output = tmp_path / "out.onnx"
    assert main(["convert", arguments[0], str(MODEL), str(output), *arguments[1:]]) == status
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_quantized_model_goes_through_all_forms(tmp_path, capsys):
    paths = [tmp_path / f"{index}.onnx" for index in range(4)]
    quarkfast.quantize(MODEL, paths[0], "A8W8", "random")
    for command, before, after in zip(("custom-qdq", "standard-qdq", "remove-qdq"), paths, paths[1:], strict=False):
        assert main(["convert", command, str(before), str(after)]) == 0
        assert "yes" in capsys.readouterr().out
    assert "QuantizeLinear" not in {node.op_type for node in onnx.load(paths[3]).graph.node}
