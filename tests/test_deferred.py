"""What importing onnx_ir would load at once comes when it is needed, and is whole then."""

from __future__ import annotations

import subprocess
import sys

MODEL = "from quarkfast.demo.data import MODEL, load_images; import quarkfast, sys; "


def _run(code):
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_quantization_does_without_sympy():
    quantized = "quarkfast.quantize(MODEL, calibration_data=load_images().calibration, samples=4); "
    assert _run(f"{MODEL}{quantized}print('onnx_ir' in sys.modules, 'sympy.core' in sys.modules)") == "True False"


def test_sympy_is_there_for_whoever_computes_with_dimensions():
    assert _run("from quarkfast.deferred import ir; print((ir.SymbolicDim('N') + 1).value)") == "N + 1"
    assert _run("import quarkfast.deferred, sympy; print(sympy.Integer(2) + 3, sympy.core.Symbol('x'))") == "5 x"


def test_nothing_that_finds_modules_stays_behind():
    code = "import sys; before = list(sys.meta_path); import quarkfast.deferred; print(sys.meta_path == before)"
    assert _run(code) == "True"
