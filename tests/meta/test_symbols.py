"""What the compiled files show to the linker: one table per instruction set, and two interfaces."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import quarkfast

ROOT = Path(__file__).parents[2]
LIBRARY = Path(quarkfast.get_library_path())
OBJECTS = {
    isa: sorted(ROOT.glob(f"build/**/quarkfast_kernels_{isa.replace('-', '_')}.dir/csrc/kernels/kernels.cc.o"))
    for isa in quarkfast.available_isas()
}
# What the vectorizer must make of the division in quantize_linear: one packed divide in the widest registers.
PACKED_DIVIDE = {"x86-64-v4": r"vdivps.*%zmm", "x86-64-v3": r"vdivps.*%ymm", "x86-64-v2": r"divps.*%xmm"}

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("nm") is None, reason="reads ELF files with nm and objdump"
)


def symbols(path: Path, *options: str) -> list[tuple[str, str]]:
    """Kind and demangled name of each symbol."""
    lines = subprocess.run(["nm", "-C", *options, path], check=True, capture_output=True, text=True).stdout.splitlines()
    return [(match[1], match[2]) for line in lines if (match := re.match(r"[0-9a-f]* *([a-zA-Z]) (.+)", line))]


def kernel_object(isa: str) -> Path:
    if not OBJECTS[isa]:
        pytest.skip("no build folder in this checkout")
    return max(OBJECTS[isa], key=lambda path: path.stat().st_mtime)


@pytest.mark.parametrize("isa", OBJECTS)
def test_a_kernel_object_exports_exactly_its_table(isa: str) -> None:
    exported = [(kind, name) for kind, name in symbols(kernel_object(isa), "--defined-only") if not kind.islower()]
    assert [name for _, name in exported] == [f"quarkfast::{isa.replace('-', '_')}::kernels"]
    # A weak or unique symbol compiled for one instruction set could be chosen by the linker for all of them.
    assert exported[0][0] in "DR"


@pytest.mark.parametrize("isa", OBJECTS)
def test_a_kernel_object_needs_nothing_but_memory_functions(isa: str) -> None:
    needed = {name for _, name in symbols(kernel_object(isa), "--undefined-only")}
    assert needed <= {"memcpy", "memmove", "memset", "_GLOBAL_OFFSET_TABLE_"}


@pytest.mark.parametrize("isa", [isa for isa in OBJECTS if isa in PACKED_DIVIDE])
def test_quantization_is_vectorized_in_the_registers_of_its_instruction_set(isa: str) -> None:
    if shutil.which("objdump") is None:
        pytest.skip("no objdump")
    command = ["objdump", "-d", "--no-show-raw-insn", kernel_object(isa)]
    assert re.search(PACKED_DIVIDE[isa], subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_the_library_exports_its_two_interfaces_and_nothing_else() -> None:
    exported = {name for _, name in symbols(LIBRARY, "-D", "--defined-only")}
    assert "RegisterCustomOps" in exported
    foreign = {name for name in exported - {"RegisterCustomOps"} if "quarkfast::" not in name}
    assert not foreign


def test_the_library_needs_neither_python_nor_onnxruntime() -> None:
    needed = {name for _, name in symbols(LIBRARY, "-D", "--undefined-only")}
    assert not {name for name in needed if re.match(r"_?Py|Ort", name)}
