"""An arm64 Debian user land with Python, in a folder, run by qemu: no chroot, no binfmt, nothing is installed.

``python -m tests.ports.arm64_root FOLDER`` makes it, and in it ``FOLDER/python``, a command that runs Python on arm64
with the packages that are installed for this Python, in the same versions. Needs apt, dpkg-deb and qemu-user-static.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

PACKAGES = ("python3", "libpython3-dev", "libstdc++6")
# Of the environment, those that quarkfast and its tests of kernels import.
WHEELS = "hypothesis ml_dtypes numpy onnx onnx-ir onnxruntime onnxscript pytest rich threadpoolctl typer"
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
# A processor that onnxruntime's cpuinfo knows: qemu shows the files of this machine, of which it makes nothing.
CPUINFO = """processor\t: {index}
BogoMIPS\t: 100.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0b
CPU revision\t: 1

"""
CACHES = {"index0": ("1", "Data", "64K"), "index1": ("1", "Instruction", "64K"), "index2": ("2", "Unified", "512K")}
CPUS = 2


def unpack_packages(root: Path) -> None:
    """Downloads Debian's packages with what they depend on and unpacks them, with lists of their own."""
    with tempfile.TemporaryDirectory(prefix="quarkfast-apt-") as name:
        work = Path(name)
        for folder in ("lists/partial", "cache/archives/partial"):
            (work / folder).mkdir(parents=True)
        (work / "status").touch()
        options = {
            "APT::Architecture": "arm64",
            "APT::Architectures": "arm64",
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "root",
            "Dir::State::lists": work / "lists",
            "Dir::State::status": work / "status",
            "Dir::Cache": work / "cache",
        }
        given = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        apt = ["apt-get", "-qq", "--yes", *given]
        subprocess.run([*apt, "update"], check=True)
        subprocess.run([*apt, "--download-only", "install", *PACKAGES], check=True)
        for package in (work / "cache" / "archives").glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
    # Debian's Python.h includes <aarch64-linux-gnu/python3.*/pyconfig.h>, which cross-compilers do not look for here.
    for headers in (root / "usr" / "include").glob("python3.*"):
        (headers / "aarch64-linux-gnu").symlink_to("../aarch64-linux-gnu")


def describe_processor(root: Path) -> None:
    """Writes the files that tell of a processor, where qemu looks before it asks this machine."""
    (root / "proc").mkdir(exist_ok=True)
    text = "".join(CPUINFO.format(index=index) for index in range(CPUS))
    (root / "proc" / "cpuinfo").write_text(text, encoding="ascii")
    cpu = root / "sys" / "devices" / "system" / "cpu"
    everyone = f"0-{CPUS - 1}"
    files = dict.fromkeys(("possible", "present", "online"), everyone)
    for index in range(CPUS):
        for name, (level, kind, size) in CACHES.items():
            told = {"level": level, "type": kind, "size": size, "shared_cpu_list": str(index)}
            told |= {"coherency_line_size": "64", "ways_of_associativity": "4", "number_of_sets": "256"}
            files |= {f"cpu{index}/cache/{name}/{key}": value for key, value in told.items()}
        told = {"physical_package_id": "0", "cluster_id": "0"}
        told |= dict.fromkeys(("core_id", "thread_siblings_list"), str(index))
        told |= dict.fromkeys(("core_siblings_list", "package_cpus_list", "cluster_cpus_list"), everyone)
        files |= {f"cpu{index}/topology/{key}": value for key, value in told.items()}
    for name, value in files.items():
        (cpu / name).parent.mkdir(parents=True, exist_ok=True)
        (cpu / name).write_text(f"{value}\n", encoding="ascii")


def install_wheels(root: Path, version: str) -> None:
    """Puts the wheels of arm64 into ``root/site``, for a Python of that version."""
    wanted = [f"{name}=={metadata.version(name)}" for name in WHEELS.split()]
    options = ["--only-binary=:all:", "--implementation", "cp", "--python-version", version]
    options += ["--target", str(root / "site")]
    platforms = [word for each in PLATFORMS for word in ("--platform", each)]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *options, *platforms, *wanted], check=True)


def write_command(root: Path, interpreter: Path) -> None:
    """Writes ``root/python``."""
    command = root / "python"
    command.write_text(
        "#!/bin/sh\n"
        f"export PYTHONHOME='{root}/usr' PYTHONPATH=\"$PYTHONPATH:{root}/site\"\n"
        f"exec qemu-aarch64-static -L '{root}' '{interpreter}' \"$@\"\n",
        encoding="utf-8",
    )
    command.chmod(0o755)


def main(root: Path) -> None:
    """Makes the folder anew."""
    wanted = [name for name in ("apt-get", "dpkg-deb", "qemu-aarch64-static") if shutil.which(name) is None]
    if wanted:
        sys.exit(f"tests.ports.arm64_root: expected the commands {wanted}, got none; apt-get install qemu-user-static")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    unpack_packages(root)
    describe_processor(root)
    interpreter = (root / "usr" / "bin" / "python3").resolve()
    write_command(root, interpreter)
    install_wheels(root, interpreter.name.removeprefix("python"))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
