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


def test_the_pages_hold_the_snippets_that_this_test_was_written_for(shared):
    found = snippets(shared)
    assert len(found) == 8
    assert sum("AdaQuantConfig" in code or "FastFinetune" in code for code in found) == 3


@pytest.mark.parametrize("index", range(8))
def test_a_snippet_runs_to_its_end(shared, names, index):
    code = snippets(shared)[index]
    if "WeightScaled=True" in code:
        code += "\nassert ModelQuantizer(config).scheme.weight.scaled"
        exec(compile(redirected(code), f"snippet {index}", "exec"), names)
    else:
        if "AdaQuantConfig" in code and "ModelQuantizer(" not in code:
            code += "\nModelQuantizer(config).quantize_model(input_model_path, output_model_path, data_reader)"
        exec(compile(redirected(code), f"snippet {index}", "exec"), names)
        written = names.get("quantized_model_path") or names["output_model_path"]
        if "quantize_model(" in code:
            onnx.checker.check_model(str(written))
            (scheme,) = [each.value for each in onnx.load(written).metadata_props if each.key == "quarkfast.scheme"]
            assert not quarkfast.check_model(written, json.loads(scheme)["target"]).errors


def test_the_command_of_the_pages_compares_two_folders(shared, tmp_path, monkeypatch):
    """The page writes ``evaluate.py`` for the module `evaluate`, which no Python finds, Quark's neither."""
    pages = "\n".join(path.read_text(encoding="utf-8") for path in sorted((shared / "seeds").glob("*.txt")))
    (line,) = re.findall(r"^python -m quark\.(.*)$", pages, re.MULTILINE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    for number, name in enumerate(("BASELINE_RESULTS_FOLDER_PATH", "QUANTIZED_RESULTS_FOLDER_PATH")):
        monkeypatch.setenv(name, str(tmp_path / name))
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "0.npy", np.linspace(0, 1 + number / 10, 12, dtype=np.float32))
    words = os.path.expandvars(line.replace("evaluate.py", "evaluate")).split()
    command = [sys.executable, "-m", f"quarkfast.compat.quark.{words[0]}", *words[1:]]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert all(title in result.stdout for title in ("cos similarity", "l2 distance", "psnr"))
