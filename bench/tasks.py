"""The tables: one row a task. To add one, add a row, its operation and the contestants' set-ups."""

from __future__ import annotations

from bench.workload import Task

TASKS = (
    *(
        Task("quantize_linear", name, bar=0.75 if name == "int8" else 0)
        for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32")
    ),
    *(Task("quantize_linear", "int8", layout) for layout in ("first axis", "last axis", "blocks of 32")),
    *(
        Task("dequantize_linear", name, bar=0.8 if name == "int8" else 0)
        for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32")
    ),
    *(Task("dequantize_linear", "int8", layout) for layout in ("first axis", "last axis", "blocks of 32")),
    *(
        Task("fake_quantize_linear", name, bar=1.2 if name == "int8" else 0)
        for name in ("int8", "uint8", "int16", "uint16", "int32")
    ),
    *(Task("fake_quantize_linear", "int8", layout) for layout in ("first axis", "last axis", "blocks of 32")),
    Task("cast", "bfloat16", bar=0.9),
    Task("cast", "float16"),
    Task("widen", "bfloat16"),
    Task("widen", "float16"),
    Task("round_trip", "bfloat16", bar=1.2),
    Task("round_trip", "float16"),
    Task("reduce_range", bar=0.55),
)
