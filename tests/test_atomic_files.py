from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from quarkfast.atomic_files import check_output, save_bytes
from quarkfast.errors import OutputError


def test_what_is_no_path_is_refused():
    with pytest.raises(OutputError, match="output: expected a path, got int"):
        check_output(3)


def test_a_missing_folder_is_one_sentence(tmp_path):
    with pytest.raises(OutputError, match=r"output: expected an existing folder, got '.*nowhere'"):
        check_output(tmp_path / "nowhere" / "out.onnx")


def test_a_directory_as_output_is_one_sentence(tmp_path):
    with pytest.raises(OutputError, match="output: expected a file name, got the directory"):
        check_output(tmp_path)


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    message = r"output: expected a folder that can be written to, got '.*' \(Permission denied\)"
    with pytest.raises(OutputError, match=message):
        check_output(tmp_path / "out.onnx")


def test_checking_leaves_nothing_behind(tmp_path):
    check_output(tmp_path / "out.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_sentence_and_keeps_the_old_file(tmp_path, monkeypatch):
    output = tmp_path / "out.onnx"
    output.write_bytes(b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match=r"output: expected to write '.*out\.onnx', got No space left on device"):
        save_bytes(b"new", output)
    assert [path.name for path in tmp_path.iterdir()] == ["out.onnx"]
    assert output.read_bytes() == b"old"


@pytest.mark.skipif(os.name != "posix", reason="permission bits are POSIX's")
def test_a_new_file_has_the_permissions_of_any_other(tmp_path):
    (tmp_path / "plain").touch()
    save_bytes(b"new", tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="SIGKILL is POSIX's")
@pytest.mark.parametrize("moment", ["os.fsync", "pathlib.Path.replace"])
@pytest.mark.parametrize("old", [b"old", None], ids=["over an old file", "where there was none"])
def test_a_kill_during_the_save_leaves_the_old_file_or_none(tmp_path, moment, old):
    output = tmp_path / "out.onnx"
    if old is not None:
        output.write_bytes(old)
    script = f"""
        import os, pathlib, signal
        from quarkfast.atomic_files import save_bytes
        {moment} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        save_bytes(b"new" * 100_000, pathlib.Path({str(output)!r}))
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert (output.read_bytes() if output.exists() else None) == old
