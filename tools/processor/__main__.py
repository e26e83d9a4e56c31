"""Runs a command as on another x86-64 processor, at native speed: ``python -m tools.processor PROFILE COMMAND ...``.

Shared objects of onnxruntime, NumPy and quarkfast get other answers from their CPUID instructions, by audit.cc, and so
choose other kernels; so do glibc's functions. What a profile lacks is not refused: code that executes an instruction
without asking for it is not found out. Needs Linux with glibc, a C++ compiler and objdump. Processes that the command
starts are like it. The disassembly of an object takes seconds and is kept in build/processor.

Checked with qemu-user 7.2: the outputs of the models of bench.without_vnni are the same bytes as avx2 and under
`qemu-x86_64 -cpu Haswell`, and as v2 and under `-cpu Nehalem`. The addresses are those that a disassembly from the
beginning of each function (.eh_frame_hdr) gives.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from .profiles import PROFILES

PACKAGES = ("onnxruntime", "numpy", "quarkfast")
SOURCE = Path(__file__).with_name("audit.cc")
WORK = Path(__file__).parents[2] / "build" / "processor"
CPUID = b"\x0f\xa2"


def shared_objects() -> Iterator[Path]:
    """Every shared object of the packages, and of the folders NAME.libs that wheels keep theirs in."""
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        package = Path(spec.origin).parent
        for folder in (package, package.with_name(f"{name}.libs")):
            yield from (path.resolve() for path in sorted(folder.rglob("*.so*")) if not path.is_symlink())


def kept(content: bytes, suffix: str) -> Path:
    """Where what was made of some content lies: the same content, the same path."""
    WORK.mkdir(parents=True, exist_ok=True)
    return WORK / (hashlib.sha256(content).hexdigest()[:32] + suffix)


def write(path: Path, text: str) -> None:
    """Writes a file whole, or not at all: two processes may want the same."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(text)
    part.replace(path)


def addresses(path: Path) -> str:
    """The addresses of the CPUID instructions of a shared object, from its disassembly: bytes alone may be data."""
    content = path.read_bytes()
    if CPUID not in content:
        return ""
    known = kept(content, ".txt")
    if not known.exists():
        command = ["objdump", "--disassemble", "--no-show-raw-insn", "--wide", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [line.split() for line in process.stdout if "cpuid" in line]
        if process.returncode:
            sys.exit(f"tools.processor: expected a disassembly of {path}, got objdump's status {process.returncode}")
        # "  12150b2:	cpuid", and not a symbol of that name
        found = [address for address, *instruction in lines if instruction == ["cpuid"]]
        write(known, " ".join(address.rstrip(":") for address in found))
    return known.read_text()


def library() -> Path:
    """audit.cc, compiled."""
    path = kept(SOURCE.read_bytes(), ".so")
    if not path.exists():
        part = path.with_name(f"{path.name}.{os.getpid()}")
        # Nothing but libc: the library is loaded before, and apart from, everything that the process loads.
        options = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-nodefaultlibs", "-lc"]
        subprocess.run([compiler(), str(SOURCE), *options, "-o", str(part)], check=True)
        part.replace(path)
    return path


def lacking(profile: str) -> str:
    """Why this machine cannot run anything as on a processor of the profile, in a sentence; empty if it can."""
    information = Path("/proc/cpuinfo")
    flags = information.read_text().partition("flags")[2].partition("\n")[0].split() if information.exists() else []
    missing = ", ".join(name for name in PROFILES[profile].features if name not in flags)
    if missing:
        return f"{profile}: expected a processor with {missing}, got one without"
    wanted = [program for program in ("objdump", compiler()) if shutil.which(program) is None]
    if sys.platform != "linux" or platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc":
        return f"{profile}: expected Linux with glibc on x86-64, got {platform.platform()}"
    return f"{profile}: expected {' and '.join(wanted)} among the commands, got none" if wanted else ""


def compiler() -> str:
    """The C++ compiler's command."""
    return os.environ.get("CXX", "c++")


def environment(profile: str) -> dict[str, str]:
    """What a process needs in its environment to see a processor of the profile."""
    lines = "".join(f"{path}\t{found}\n" for path in shared_objects() if (found := addresses(path)))
    sites = kept(lines.encode(), ".sites")
    write(sites, lines)
    return {
        "LD_AUDIT": str(library()),
        "QUARKFAST_PROCESSOR": profile,
        "QUARKFAST_PROCESSOR_SITES": str(sites),
        "QUARKFAST_PROCESSOR_MASK": PROFILES[profile].masks(),
        "GLIBC_TUNABLES": PROFILES[profile].tunables(),
    }


def main() -> None:
    """Becomes the command."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.processor",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"{name:12} {profile.description}" for name, profile in PROFILES.items()),
    )
    parser.add_argument("profile", choices=PROFILES)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="without one: only say whether it could run here")
    arguments = parser.parse_args()
    if sentence := lacking(arguments.profile):
        sys.exit(f"tools.processor: {sentence}")
    if not arguments.command:
        return
    os.execvpe(arguments.command[0], arguments.command, os.environ | environment(arguments.profile))


if __name__ == "__main__":
    main()
