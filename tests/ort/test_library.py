"""get_library_path, register, session_options and inference_session: how onnxruntime loads the library."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import quarkfast
from quarkfast import _core, ort
from quarkfast.errors import DependencyError, ModelError, UnsupportedError

from .models import one_node


@pytest.mark.parametrize("device", ["CPU", "cpu", "Cpu"])
def test_the_library_of_the_cpu_is_a_file(device: str) -> None:
    assert Path(quarkfast.get_library_path(device)).is_file()


@pytest.mark.parametrize("device", ["CUDA", "rocm", "gpu", "tpu", ""])
def test_other_devices_are_told_what_is_available(device: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"^get_library_path: device: expected 'CPU', got '{device}'; the oper"):
        quarkfast.get_library_path(device)
    with pytest.raises(UnsupportedError, match="device: expected 'CPU', got 3"):
        quarkfast.get_library_path(3)  # type: ignore[arg-type]


def test_an_editable_install_finds_the_library_beside_the_module_that_is_loaded(tmp_path: Path) -> None:
    """There the sources stay where they are, and what was compiled lies in site-packages."""
    package, compiled = Path(str(quarkfast.__file__)).parent, tmp_path / "site-packages" / "quarkfast"
    native = shutil.ignore_patterns("*.so", "*.pyd", "*.dylib", "*.dll", "__pycache__")
    shutil.copytree(package, tmp_path / "source" / "quarkfast", ignore=native)
    module = Path(str(_core.__file__))
    library = Path(quarkfast.get_library_path())
    compiled.mkdir(parents=True)
    for each in (module, library):
        shutil.copy(each, compiled)
    script = f"""
import importlib.util, sys

class Redirect:
    def find_spec(self, name, path=None, target=None):
        if name == "quarkfast._core":
            return importlib.util.spec_from_file_location(name, {str(compiled / module.name)!r})

sys.meta_path.insert(0, Redirect())
sys.path.insert(0, {str(tmp_path / "source")!r})
import quarkfast
print(quarkfast.get_library_path())
quarkfast.ort.session_options()
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (found.stderr, found.stdout.strip()) == ("", str(compiled / library.name))


def test_a_missing_library_is_told_with_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ort._LIBRARY_NAMES, sys.platform, "nowhere.so")
    with pytest.raises(
        DependencyError, match=r"^get_library_path: expected the operator library at .*nowhere\.so, got"
    ):
        quarkfast.get_library_path()


def test_a_missing_onnxruntime_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(
        DependencyError, match=r"^quarkfast\.ort: expected an installed onnxruntime, got none; pip insta"
    ):
        ort.session_options()


def test_a_refused_library_is_told_in_onnxruntimes_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "broken.so"
    path.write_bytes(b"not a library")
    monkeypatch.setattr(ort, "get_library_path", lambda: str(path))
    with pytest.raises(DependencyError, match=r"^register: Failed to load library .*broken\.so"):
        quarkfast.register(onnxruntime.SessionOptions())


@pytest.mark.parametrize("threads", [0, -1])
def test_a_session_needs_a_thread(threads: int) -> None:
    with pytest.raises(ValueError, match=rf"^session_options: threads: expected 1 or more, got {threads}$"):
        ort.session_options(threads=threads)


def test_options_choose_threads_and_optimization() -> None:
    options = ort.session_options(threads=3, optimize=False)
    assert options.intra_op_num_threads == 3
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


@pytest.mark.parametrize(("usable", "threads"), [(1, 1), (2, 2), (4, 0)])
def test_a_process_that_is_held_to_some_processors_has_no_more_threads(monkeypatch, usable, threads):
    """onnxruntime counts the processors of the machine, and binds its threads to those that the process may not use."""
    monkeypatch.setattr(_core, "usable_processors", lambda: usable)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert ort.session_options().intra_op_num_threads == threads
    assert ort.session_options(threads=3).intra_op_num_threads == 3


def test_threads_that_wait_sleep_where_that_is_asked_for():
    options = ort.session_options(spinning=False)
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


@pytest.mark.parametrize("arena", [True, False])
def test_tensors_share_blocks_unless_outputs_are_kept(arena):
    options = ort.session_options(arena=arena)
    assert (options.enable_cpu_mem_arena, options.enable_mem_pattern) == (arena, arena)


def test_models_open_from_bytes_and_paths(tmp_path: Path) -> None:
    one = np.ones((), np.float32)
    model = one_node("ExtendedDequantizeLinear", [np.zeros(3, np.int8), one, np.zeros((), np.int8)], constants=(1, 2))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    sources: list[Any] = [model.SerializeToString(), path, str(path)]
    for source in sources:
        assert ort.inference_session(source).run(None, {"x0": np.int8([1, 2, 3])})[0].tolist() == [1, 2, 3]


def test_a_missing_model_is_told_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=r"^inference_session: .*absent\.onnx: onnxruntime rejects it: Load model from"
    ):
        ort.inference_session(tmp_path / "absent.onnx")


def test_an_operator_that_does_not_exist_is_told_by_name() -> None:
    model = one_node("Nothing", [np.zeros(3, np.float32)])
    with pytest.raises(ModelError, match=r"^inference_session: model: onnxruntime rejects it: .*Nothing"):
        ort.inference_session(model.SerializeToString())


def test_many_sessions_share_the_operators() -> None:
    options = ort.session_options()
    model = one_node("ExtendedDequantizeLinear", [np.zeros(1, np.int8), np.ones((), np.float32), np.zeros((), np.int8)])
    sessions = [ort.inference_session(model.SerializeToString(), options) for _ in range(3)]
    assert len({s.get_outputs()[0].name for s in sessions}) == 1


def test_operators_may_be_registered_again() -> None:
    options = ort.session_options()
    ort.register(options)
    ort.register(options)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float[1] y) { y = Abs(x) }'
    )
    for _ in range(2):
        session = ort.inference_session(model.SerializeToString(), options)
    assert ort.run(session, {"x": np.float32([-1])}) == [1]


def test_other_options_get_operators_of_their_own() -> None:
    for _ in range(100):  # of which some lie where others have been
        options = onnxruntime.SessionOptions()
        ort.register(options)
        assert options in ort._registered
        del options
    assert len(ort._registered) < 100
