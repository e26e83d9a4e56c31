"""The tables: one row a task. To add one, add a row, its operation and the contestants' set-ups."""

from __future__ import annotations

from bench.workload import Task
from quarkfast.kernels.gguf import GGUF_TYPES

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int4")
MX_ELEMENTS = ("fp8_e5m2", "fp8_e4m3", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1", "int8")
SMALL_FLOATS = ("float8_e4m3fn", "float8_e5m2", "float6_e3m2fn", "float6_e2m3fn", "float4_e2m1fn")
LAYOUTS = ("first axis", "last axis", "blocks of 32")


def linear(operation: str, bar: float) -> tuple[Task, ...]:
    """A linear operation for each type per tensor, and for int8 with every layout of scales."""
    types = [Task(operation, name, bar=bar if name == "int8" else 0) for name in INTEGERS]
    return (*types, *(Task(operation, "int8", layout) for layout in LAYOUTS))


TASKS = (
    *linear("quantize_linear", bar=0.75),
    *linear("dequantize_linear", bar=0.8),
    *linear("fake_quantize_linear", bar=1.2),
    Task("pack_codes", "int4", bar=0.8),
    Task("unpack_codes", "int4"),
    Task("cast", "bfloat16", bar=0.9),
    Task("cast", "float16"),
    Task("widen", "bfloat16"),
    Task("widen", "float16"),
    Task("round_trip", "bfloat16", bar=1.2),
    Task("round_trip", "float16"),
    *(Task("round_trip", name, bar=2) for name in SMALL_FLOATS),
    Task("requantize_linear", "int8"),
    Task("fake_quantize_bfp", "BFP16", bar=3),
    Task("fake_quantize_bfp", "BFP16 raised", bar=3),
    *(Task("fake_quantize_bfp_prime", name, bar=3) for name in ("MX9", "MX6", "MX4")),
    *(Task("fake_quantize_mx", name, bar=3) for name in MX_ELEMENTS),
    *(Task(f"{verb}_gguf", name) for verb in ("quantize", "dequantize") for name in GGUF_TYPES),
    Task("quantize_mxfp4", layout="blocks of 16"),
    Task("quantize_mxfp4", layout="blocks of 32"),
    Task("quantize_nvfp4"),
    Task("quantize_rows", "int8"),
    Task("quantize_linear_stochastic", "int8"),
    Task("cast_stochastic", "bfloat16"),
    Task("reduce_range", bar=0.55),
    Task("absmax"),
    Task("absmax", layout="first axis"),
    Task("absmax", layout="last axis"),
    *(Task("extremes", layout=layout) for layout in ("tensor", *LAYOUTS)),
    Task("moments"),
    Task("histogram", bar=2.0),
)
