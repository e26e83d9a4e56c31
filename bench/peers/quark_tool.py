"""Run a tool of AMD Quark's: ``quark_tool.py NAME ARGUMENT...``, with the NumPy function that some still call.

Run with the Python of an environment that has Quark.
"""

from __future__ import annotations

import runpy
import sys

import numpy as np

# NumPy 2 took away the binary mode of this name.
np.fromstring = lambda data, dtype=float, **_: np.frombuffer(data, dtype).copy()
sys.argv = sys.argv[1:]
runpy.run_module(f"quark.onnx.tools.{sys.argv[0]}", run_name="__main__", alter_sys=True)
