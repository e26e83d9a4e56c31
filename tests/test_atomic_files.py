from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from quarkfast import atomic_files
from quarkfast.atomic_files import check_output, folder_beside, put_back_on_failure, save_bytes, save_files, target_of
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


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def killed(folder, *names, moment="os.fsync"):
    """Leaves what a process leaves that is killed while it writes files."""
    script = f"""
        import os, pathlib, signal
        from quarkfast.atomic_files import folder_beside, save_files
        outputs = [pathlib.Path(name) for name in {[str(folder / name) for name in names]!r}]
        with folder_beside(outputs[-1]) as temporary:
            (temporary / "weights").write_bytes(b"1")
            {moment} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            save_files(dict.fromkeys(outputs, b"new"))
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL


posix = pytest.mark.skipif(os.name != "posix", reason="signals, locks and links are POSIX's")


@posix
@pytest.mark.parametrize("moment", ["os.fsync", "pathlib.Path.replace"])
@pytest.mark.parametrize("next_run", [check_output, lambda output: save_bytes(b"next", output)], ids=["check", "save"])
def test_what_a_killed_process_left_is_removed_by_the_next_one(tmp_path, moment, next_run):
    killed(tmp_path, "out.onnx.data", "out.onnx", moment=moment)
    assert len(names(tmp_path)) == (3 if moment != "os.fsync" else 2)
    next_run(tmp_path / "out.onnx")
    assert names(tmp_path) in ([], ["out.onnx"])


@posix
def test_what_belongs_to_another_output_or_is_not_ours_stays(tmp_path):
    killed(tmp_path, "other.onnx")
    (tmp_path / ".quarkfast-mine.tmp").touch()
    (tmp_path / ".out.onnx.abcdefgh.tmp").touch()
    before = names(tmp_path)
    save_bytes(b"new", tmp_path / "out.onnx")
    assert names(tmp_path) == sorted([*before, "out.onnx"])


@posix
def test_what_a_running_process_writes_stays(tmp_path):
    output = tmp_path / "out.onnx"

    def write(stream):
        during = names(tmp_path)
        save_bytes(b"another process", output)
        assert names(tmp_path) == sorted([*during, "out.onnx"])
        stream.write(b"this one")

    with folder_beside(output) as folder:
        save_files({output: write})
        assert folder.is_dir()
    assert names(tmp_path) == ["out.onnx"]
    assert output.read_bytes() == b"this one"


def test_without_locks_what_is_a_day_old_is_removed(tmp_path, monkeypatch):
    output = tmp_path / "out.onnx"
    monkeypatch.setattr(atomic_files, "_lock", lambda _: None)
    old, new = (tmp_path / f"{atomic_files._prefix(output)}{name}.tmp" for name in ("old", "new"))
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    save_bytes(b"new", output)
    assert names(tmp_path) == sorted([new.name, "out.onnx"])


def test_what_another_process_sweeps_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    lock, swept = atomic_files._lock, []

    def sweep(descriptor):
        if len(swept) < 2:
            swept.extend(path.unlink() or path for path in tmp_path.glob(".quarkfast-*"))
        return lock(descriptor)

    monkeypatch.setattr(atomic_files, "_lock", sweep)
    save_bytes(b"new", tmp_path / "out.onnx")
    assert len(swept) == 2
    assert names(tmp_path) == ["out.onnx"]


@pytest.mark.parametrize("name", ["x" * 242, "x" * 255, "\u03a9" * 127, "x" * 250 + ".onnx"], ids=len)
def test_a_name_of_255_bytes_is_a_name(tmp_path, name):
    check_output(tmp_path / name)
    save_bytes(b"new", tmp_path / name)
    assert names(tmp_path) == [name]


@posix
@pytest.mark.parametrize("old", [b"old", None], ids=["to a file", "to nothing yet"])
def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path, old):
    link, target = tmp_path / "link.onnx", tmp_path / "folder" / "real.onnx"
    target.parent.mkdir()
    link.symlink_to("folder/real.onnx")
    if old is not None:
        target.write_bytes(old)
    assert check_output(link) == link
    save_files({link: b"new"}, retract=link)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert (names(tmp_path), names(target.parent)) == (["folder", "link.onnx"], ["real.onnx"])


@posix
def test_a_link_that_leads_nowhere_is_one_sentence(tmp_path):
    link = tmp_path / "link.onnx"
    link.symlink_to("none/real.onnx")
    with pytest.raises(OutputError, match=r"output: expected an existing folder, got '.*none'"):
        check_output(link)
    link.unlink()
    link.symlink_to("link.onnx")
    for function in (check_output, target_of):
        with pytest.raises(OutputError, match=r"expected a file name, got the loop of symbolic links '.*link\.onnx'"):
            function(link)
    assert link.is_symlink()


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_files_are_put_back_where_what_follows_fails(tmp_path, monkeypatch, links):
    old, new, kept = tmp_path / "old", tmp_path / "new", tmp_path / "kept"
    if not links:
        monkeypatch.setattr("os.link", lambda *_: (_ for _ in ()).throw(PermissionError(1, "no links")))
    old.write_bytes(b"old")
    kept.write_bytes(b"kept")
    with pytest.raises(KeyboardInterrupt), put_back_on_failure(old, new, kept):  # noqa: PT012
        save_files({new: b"new", old: b"new"})
        raise KeyboardInterrupt
    assert (names(tmp_path), old.read_bytes(), kept.read_bytes()) == (["kept", "old"], b"old", b"kept")
    with put_back_on_failure(old, new, kept):
        save_files({new: b"new", old: b"new"})
    assert (names(tmp_path), old.read_bytes(), kept.read_bytes()) == (["kept", "new", "old"], b"new", b"kept")
