"""Names from models that hold what a terminal would obey: every verb shows them escaped."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from quarkfast.cli import main
from quarkfast.cli.console import show_facts, show_line, show_table
from quarkfast.errors import ModelError, QuarkfastError, printable
from quarkfast.report.markup import element

HOSTILE = "\x1b[31mred\x07[red]m[/red]\n\x9b2J\x7f\u2028\u202e</script>"
SHOWN = r"\x1b[31mred\x07[red]m[/red]\n\x9b2J\x7f\u2028\u202e</script>"


def hostile_model() -> onnx.ModelProto:
    """Names of everything that has one are hostile: nodes, tensors, sizes, producer, metadata, operators, domains."""
    helper, name = onnx.helper, HOSTILE
    value = helper.make_tensor_value_info
    weight = onnx.numpy_helper.from_array(np.ones((4, 4), np.float32), "w" + name)
    nodes = [
        helper.make_node("MatMul", ["x" + name, "w" + name], ["h" + name], name="n" + name),
        helper.make_node("Relu", ["h" + name], ["y" + name], name="r" + name),
    ]
    graph = helper.make_graph(
        nodes, "g" + name, [value("x" + name, 1, ["d" + name, 4])], [value("y" + name, 1, ["d" + name, 4])], [weight]
    )
    model = helper.make_model(graph, producer_name=name, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"key" + name: name})
    return model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.onnx").write_bytes(hostile_model().SerializeToString())
    unknown = hostile_model()
    unknown.graph.node[1].op_type, unknown.graph.node[1].domain = "Op" + HOSTILE, "domain" + HOSTILE
    (tmp_path / "unknown.onnx").write_bytes(unknown.SerializeToString())
    np.savez(tmp_path / "other.npz", **{"z" + HOSTILE.replace("/", ""): np.ones((2, 4), np.float32)})
    np.save(tmp_path / "x.npy", np.linspace(0, 1, 32, dtype=np.float32).reshape(8, 4))
    assert main(["quantize", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "q.onnx"), "--calibration-data",
                 str(tmp_path / "x.npy"), "-p", "U8S8"]) == 0  # fmt: skip
    return tmp_path


VERBS = [
    "inspect m.onnx",
    "inspect unknown.onnx",
    "inspect q.onnx",
    "plan m.onnx",
    "plan unknown.onnx -p BF16",
    "check m.onnx --target ryzenai-a8w8",
    "check q.onnx --target ryzenai-xint8",
    "quantize m.onnx -o new.onnx --calibration-data x.npy --verify",
    "quantize m.onnx -o new.onnx --calibration-data other.npz",
    "quantize unknown.onnx -o new.onnx --calibration-data x.npy",
    "quantize unknown.onnx -o new.onnx -p INT8_WO",
    "calibrate m.onnx --calibration-data x.npy",
    "compare m.onnx q.onnx --data x.npy --predict 1",
    "compare m.onnx q.onnx --data other.npz",
    "evaluate m.onnx q.onnx --data x.npy --fail-below sqnr=900",
    "evaluate m.onnx unknown.onnx --data x.npy",
    "convert fixed-shapes m.onnx new.onnx --shape nothing=1",
    "convert bfloat16 m.onnx new.onnx",
]


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_hands_a_name_to_the_terminal_as_it_is(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.chdir(folder)
    capfd.readouterr()
    main(verb.split())
    shown = "".join(capfd.readouterr())
    assert all(each.isprintable() or each == "\n" for each in shown), shown


def test_on_a_terminal_names_are_escaped_too(folder: Path) -> None:
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    screen, terminal = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "300", "TERM": "xterm"}
    command = [sys.executable, "-m", "quarkfast", "inspect", folder / "m.onnx"]
    process = subprocess.Popen(command, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    shown = b""
    try:
        while chunk := os.read(screen, 4096):
            shown += chunk
    except OSError:  # the end, on Linux
        pass
    os.close(screen)
    assert process.wait() == 0
    text = shown.decode()
    assert SHOWN in text
    assert not any(each in text for each in ("\x1b[31m", "\x07", "\x9b", "\u202e"))


def test_tables_and_lines_escape_what_they_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    show_facts([(HOSTILE, HOSTILE)])
    show_table("a title", ["name", "figure"], [(HOSTILE, "1")])
    show_line(HOSTILE)
    show_line(HOSTILE, error=True)
    out, err = capsys.readouterr()
    assert out.count(SHOWN) == 4
    assert err == SHOWN + "\n"


def test_messages_of_exceptions_are_printable() -> None:
    assert str(ModelError(HOSTILE)) == str(QuarkfastError(HOSTILE)) == SHOWN
    assert str(ModelError("as it is: \u00e9\u4e2d")) == "as it is: \u00e9\u4e2d"
    assert str(QuarkfastError()) == ""
    assert printable("half \udcff") == r"half \udcff"


def test_pages_escape_what_acts_on_text() -> None:
    shown = element("td", HOSTILE)
    assert "&lt;/script&gt;" in shown
    assert r"\u202e" in shown
    assert "\u202e" not in shown
