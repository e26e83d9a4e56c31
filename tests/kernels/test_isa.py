"""The ladder of instruction sets and the number of threads can be chosen, and wrong choices are refused."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import quarkfast


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter that finds the same quarkfast."""
    path = os.pathsep.join(sys.path)
    env = {**os.environ, "PYTHONPATH": path, **environment}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)


def test_the_active_rung_is_the_best_one_unless_told_otherwise():
    result = run_python("import quarkfast as q; print(q.active_isa(), q.available_isas()[0])", QUARKFAST_ISA="")
    first, second = result.stdout.split()
    assert first == second


@pytest.mark.parametrize("name", quarkfast.available_isas())
def test_the_environment_forces_an_instruction_set(name):
    result = run_python("import quarkfast as q; print(q.active_isa())", QUARKFAST_ISA=name)
    assert result.stdout.strip() == name


def test_an_unknown_rung_in_the_environment_is_an_error_that_lists_the_available_ones():
    result = run_python("import quarkfast as q; q.active_isa()", QUARKFAST_ISA="avx1024")
    assert result.returncode != 0
    expected = ", ".join(quarkfast.available_isas())
    assert f"QUARKFAST_ISA: expected one of {expected}, got 'avx1024'" in result.stderr


def test_use_isa_restores_the_previous_rung_and_refuses_unknown_names():
    before = quarkfast.active_isa()
    with quarkfast.use_isa(quarkfast.available_isas()[-1]):
        assert quarkfast.active_isa() == quarkfast.available_isas()[-1]
    assert quarkfast.active_isa() == before
    with pytest.raises(ValueError, match=r"use_isa: expected one of .*, got 'sse'"):
        quarkfast.use_isa("sse")
    assert quarkfast.active_isa() == before


def test_the_number_of_threads_comes_from_the_environment():
    result = run_python("import quarkfast as q; print(q.num_threads())", QUARKFAST_NUM_THREADS="3")
    assert result.stdout.strip() == "3"


@pytest.mark.parametrize("text", ["0", "-1", "two", "4097"])
def test_a_wrong_number_of_threads_in_the_environment_is_an_error(text):
    result = run_python("import quarkfast as q; q.num_threads()", QUARKFAST_NUM_THREADS=text)
    assert f"QUARKFAST_NUM_THREADS: expected an integer from 1 to 4096, got '{text}'" in result.stderr


def test_set_num_threads_refuses_what_is_no_count():
    with pytest.raises(ValueError, match="expected an integer from 1 to 4096, got 0"):
        quarkfast.set_num_threads(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_still_computes_after_the_parent_used_threads():
    code = """
import os, warnings
import numpy as np
import quarkfast
warnings.simplefilter("ignore")
quarkfast.set_num_threads(2)
x = np.ones(1 << 20, np.float32)
quarkfast.quantize_linear(x, 0.5)
child = os.fork()
if child == 0:
    os._exit(0 if (quarkfast.quantize_linear(x, 0.5) == 2).all() else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_python(code).stdout.strip() == "0"


def test_importing_quarkfast_imports_neither_onnx_nor_onnxruntime():
    code = "import sys, quarkfast; print([m for m in ('onnx', 'onnxruntime', 'onnx_ir', 'rich') if m in sys.modules])"
    assert run_python(code).stdout.strip() == "[]"


def test_every_instruction_set_gives_the_same_bytes(rng):
    x = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint64).astype(np.uint32).view(np.float32)
    results = []
    for name in quarkfast.available_isas():
        with quarkfast.use_isa(name):
            results.append(
                [
                    quarkfast.quantize_linear(x, 0.1).tobytes(),
                    quarkfast.fake_quantize_linear(x, 0.1, dtype="uint16", zero_point=7).tobytes(),
                    quarkfast.cast(x, np.float16).tobytes(),
                    quarkfast.round_trip(x, "bfloat16").tobytes(),
                    quarkfast.reduce_range(x),
                ]
            )
    assert all(result == results[0] for result in results)
