"""The code that Quark's own pages show runs here when its imports begin with ``quarkfast.compat.quark.``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.config.quark.spec import BFloat16Spec, QLayerConfig

INPUT = "model_input_name"  # what the pages call it
PROSE = re.compile(r"^([A-Z][a-z]+( |#|$)| {0,2}\u2022)")


def directives(text: str) -> list[str]:
    """Return the bodies of the ``.. code:: python`` blocks of a reStructuredText page."""
    found = re.findall(r"^\.\. code:: python\n\n((?:(?: .*)?\n)+)", text, re.MULTILINE)
    return [textwrap.dedent(body) for body in found]


def plain(text: str) -> list[str]:
    """Return the runs of code of a page without markup: from a first import to the next line of prose."""
    found: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        if not inside and re.match(r"(from|import) \w", line):
            found.append([])
            inside = True
        elif inside and PROSE.match(line):
            inside = False
        if inside:
            found[-1].append(line)
    # A page indents all lines after the imports by one stray space.
    stray = [any(re.match(r" \S", line) for line in lines) for lines in found]
    return ["\n".join(re.sub(r"^ ", "", x) if s else x for x in lines) for lines, s in zip(found, stray, strict=True)]


def snippets(shared: Path) -> list[str]:
    pages = [path.read_text(encoding="utf-8") for path in sorted((shared / "seeds").glob("*.txt"))]
    return [code for page in pages for code in directives(page) or plain(page)]


def tiny(shared: Path) -> tuple[onnx.ModelProto, np.ndarray]:
    graph = onnx.parser.parse_graph(f"g (float[1, 4] {INPUT}) => (float[1, 4] y) {{ y = Add({INPUT}, {INPUT}) }}")
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return model, np.ones((1, 4), np.float32)


def resnet(shared: Path) -> tuple[onnx.ModelProto, np.ndarray]:
    model = onnx.load(shared / "models" / "resnet20_cifar10.onnx")
    (given,) = model.graph.input
    for node in model.graph.node:
        node.input[:] = [INPUT if name == given.name else name for name in node.input]
    given.name = INPUT
    return model, np.random.default_rng(3).normal(size=(1, 3, 32, 32)).astype(np.float32)


@pytest.fixture(params=[tiny, resnet], ids=["tiny", "resnet20"])
def names(request, shared, tmp_path, monkeypatch) -> dict[str, object]:
    """What the pages take for granted: a model at their path, data, and the names that earlier blocks imported."""
    monkeypatch.chdir(tmp_path)
    model, sample = request.param(shared)
    (tmp_path / "path" / "to").mkdir(parents=True)
    for name in ("path/to/float_model.onnx", "float32_model.onnx", "in.onnx"):
        onnx.save(model, name)
    return {
        "np": np,
        "sample": sample,
        "ModelQuantizer": quarkfast.ModelQuantizer,
        "QConfig": quarkfast.QConfig,
        "QLayerConfig": QLayerConfig,
        "BFloat16Spec": BFloat16Spec,
        "data_reader": [{INPUT: sample}],
        "input_data_loader": [sample],
        "input_model_path": "in.onnx",
        "output_model_path": "out.onnx",
        "onnx_model_path": "in.onnx",
    }


def redirected(code: str) -> str:
    code = re.sub(r"^(\s*)from quark\.", r"\1from quarkfast.compat.quark.", code, flags=re.MULTILINE)
    # The page leaves the loading of samples to its reader.
    return code.replace("processed_data = []", "processed_data = [sample]")


def finished(code: str) -> str:
    """The code with what a page leaves out after a configuration: to quantize by it."""
    if "QConfig(" in code and "ModelQuantizer(" not in code:
        code += "\nModelQuantizer(config).quantize_model(input_model_path, output_model_path, data_reader)"
    return code


def run(code: str, names: dict[str, object]) -> None:
    exec(compile(redirected(code), "snippet", "exec"), names)


def written_by(code: str, names: dict[str, object]) -> str:
    """The path of the model that a snippet wrote."""
    return str(names["quantized_model_path" if "quantized_model_path" in code else "output_model_path"])


def broken_rules(written: str) -> tuple[object, ...]:
    """What breaks a rule of its target in a model."""
    onnx.checker.check_model(written)
    (scheme,) = [each.value for each in onnx.load(written).metadata_props if each.key == "quarkfast.scheme"]
    return quarkfast.check_model(written, json.loads(scheme)["target"]).errors


def told(code: str, model: object, folder: Path) -> str:
    """The snippet that infers, with another model and folder, as its comments say."""
    code = code.replace('"float32_model.onnx"', repr(str(model)), 1)
    return code.replace('"baseline_results"', repr(str(folder)), 1)


def compared(shared: Path, monkeypatch: pytest.MonkeyPatch) -> subprocess.CompletedProcess[str]:
    """Runs the command of the pages, which have ``.py`` behind the module's name."""
    pages = "\n".join(path.read_text(encoding="utf-8") for path in sorted((shared / "seeds").glob("*.txt")))
    (line,) = re.findall(r"^python -m quark\.(.*)$", pages, re.MULTILINE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    words = os.path.expandvars(line).split()
    command = [sys.executable, "-m", f"quarkfast.compat.quark.{words[0]}", *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_pages_hold_the_snippets_that_this_test_was_written_for(shared):
    found = snippets(shared)
    assert len(found) == 8
    assert sum("AdaQuantConfig" in code or "FastFinetune" in code for code in found) == 3


@pytest.mark.parametrize("index", range(8))
def test_a_snippet_runs_to_its_end(shared, names, index):
    code = finished(snippets(shared)[index])
    run(code, names)
    if "quantize_model(" in code:
        assert not broken_rules(written_by(code, names))
    if "WeightScaled=True" in code:
        assert quarkfast.ModelQuantizer(names["config"]).scheme.weight.scaled


# What comments of the pages say to replace, and the type of activations that comes of it.
REPLACED = (
    ('get_default_config("A8W8")', 'get_default_config("A16W8")'),
    ("activation_type=QuantType.QInt8,", "activation_type=VitisQuantType.QInt16,"),
)


@pytest.mark.parametrize("index", range(8))
def test_what_the_pages_say_to_replace_runs_too(shared, names, index):
    code = snippets(shared)[index]
    changed = code
    for before, after in REPLACED:
        changed = changed.replace(before, after)
    assert (changed != code) == ("A16W8" in code and "ort_session" not in code)
    if changed == code:
        return
    run(changed, names)
    written = written_by(code, names)
    assert not broken_rules(written)
    kinds = {each.data_type for each in onnx.load(written).graph.initializer if each.name.endswith("_zero_point")}
    assert onnx.TensorProto.INT16 in kinds


def test_a_page_runs_from_its_beginning_to_its_end(shared, names, tmp_path, monkeypatch):
    """Its sessions are those of what it wrote itself, and its command compares what these gave."""
    for name in ("BASELINE_RESULTS_FOLDER_PATH", "QUANTIZED_RESULTS_FOLDER_PATH"):
        monkeypatch.setenv(name, str(tmp_path / name))
    session, infer = (
        next(code for code in snippets(shared) if word in code) for word in ("register_custom_ops", "ort_session")
    )
    for code in snippets(shared):
        # Rounding takes its time, and those snippets run alone above.
        if code in (session, infer) or "FastFinetune" in code or "quantize_model(" not in finished(code):
            continue
        run(finished(code), names)
        written = written_by(code, names)
        run(session, {**names, "onnx_model_path": written})
        if "A8W8" in code:
            run(told(infer, "float32_model.onnx", tmp_path / "BASELINE_RESULTS_FOLDER_PATH"), names)
            run(told(infer, written, tmp_path / "QUANTIZED_RESULTS_FOLDER_PATH"), names)
    result = compared(shared, monkeypatch)
    assert (result.returncode, result.stderr) == (0, "")
    assert "psnr" in result.stdout


def test_the_command_of_the_pages_compares_two_folders(shared, tmp_path, monkeypatch):
    for number, name in enumerate(("BASELINE_RESULTS_FOLDER_PATH", "QUANTIZED_RESULTS_FOLDER_PATH")):
        monkeypatch.setenv(name, str(tmp_path / name))
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "0.npy", np.linspace(0, 1 + number / 10, 12, dtype=np.float32))
    result = compared(shared, monkeypatch)
    assert (result.returncode, result.stderr) == (0, "")
    assert all(title in result.stdout for title in ("cos similarity", "l2 distance", "psnr"))
