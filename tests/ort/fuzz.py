"""Random models of one operator: errors are allowed, crashes, hangs and wrong shapes are not.

`python -m tests.ort.fuzz MINUTES [SEED]`, or `nox -s fuzz_operators`. A crash ends the process; the line
that names its case is the last one written, and `run_case(seed)` repeats it.
"""

import sys
import time
from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np

import quarkfast
from quarkfast import _core
from quarkfast.errors import ModelError

from .models import Array, one_node, session

TYPES = ["float32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32"]
NUMBERS = [0, 1, 2, -1, -2, 3, 7, 8, 9, 11, 13, 16, 17, 31, 32, 33, 40, 65535, 65536, 1 << 31, -(1 << 40), 1 << 62]
# What models hold: most of the choices, because one that is refused hides the others.
USUAL: dict[str, list[Any]] = {
    "axis": [0, 1, -1],
    "bit_width": [11, 13, 16],
    "block_size": [1, 8, 16, 32],
    "rounding_mode": [0, 1, 2],
    "sub_block_size": [1, 2, 4],
    "sub_block_shift_bits": [1, 2],
    "convert_to_bfloat_before_bfp": [0, 1],
    "use_compiler_version_cpu_kernel": [0, 1],
    "bfp_method": ["to_bfp", "to_bfp_prime"],
    "element_dtype": ["fp8_e4m3", "fp8_e5m2", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1", "int8"],
    "layout": [0],
    "input_forget": [0],
    "direction": ["bidirectional"],
}
OPERATORS = {
    "ExtendedQuantizeLinear": ["axis"],
    "ExtendedDequantizeLinear": ["axis"],
    "QuantizeDequantizeLinear": ["axis"],
    "BFPQuantizeDequantize": [
        "axis", "bit_width", "block_size", "rounding_mode", "sub_block_size", "sub_block_shift_bits",
        "convert_to_bfloat_before_bfp", "use_compiler_version_cpu_kernel", "bfp_method",
    ],
    "MXQuantizeDequantize": ["axis", "block_size", "rounding_mode", "element_dtype"],
    "ExtendedInstanceNormalization": ["epsilon"],
    "ExtendedLSTM": ["hidden_size", "layout", "input_forget", "direction"],
    "Observe": ["collector", "slot"],
    "Compare": ["axis", "limit"],
    "DequantizeBlock": [
        "format", "length", "axis", "bit_width", "block_size", "sub_block_size", "sub_block_shift_bits",
        "element_dtype", "bits", "signed", "has_zero_point",
    ],
}  # fmt: skip
OLDER_NAMES = {
    "ExtendedQuantizeLinear": "VitisQuantizeLinear",
    "ExtendedDequantizeLinear": "VitisDequantizeLinear",
    "BFPQuantizeDequantize": "BFPFixNeuron",
    "MXQuantizeDequantize": "MXFixNeuron",
    "ExtendedInstanceNormalization": "VitisInstanceNormalization",
    "ExtendedLSTM": "VitisLSTM",
}
OWN = ("Observe", "Compare", "DequantizeBlock", "QuantizeDequantizeLinear")
COLLECTOR = _core.Collector(1)
TEXTS = [
    "to_bfp",
    "to_bfp_prime",
    "fp8_e4m3",
    "fp8_e5m2",
    "fp6_e3m2",
    "fp4_e2m1",
    "int8",
    "bidirectional",
    "bfp",
    "mx",
    "linear",
    "",
    "?",
]


class Dice:
    """Random choices of one case."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, options: list[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def shape(self) -> tuple[int, ...]:
        return tuple(
            self.pick([0, 1, 1, 2, 3, 5, 8, 17, 32, 33]) for _ in range(self.pick([0, 1, 2, 2, 3, 4, 4, 5, 8]))
        )

    def array(self, dtype: str, shape: tuple[int, ...]) -> Array:
        shape = shape if np.prod(shape, dtype=float) < 1e6 else shape[-2:]
        size = int(np.prod(shape))
        if dtype in ("float32", "float16", "bfloat16"):
            kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
            if self.chance(0.5):
                return self.rng.standard_normal(size).astype(kind).reshape(shape)
            bits = self.rng.integers(0, 256, size * kind.itemsize, dtype=np.uint8)
            return bits.view(kind).reshape(shape)
        info = np.iinfo(dtype)
        return self.rng.integers(info.min, info.max, size, dtype=dtype, endpoint=True).reshape(shape)

    def attribute(self, name: str) -> Any:
        if name in USUAL and self.chance(0.85):
            return self.pick(USUAL[name])
        if self.chance(0.05):
            return self.pick([0.5, "x", [1, 2], [0.5]])
        if name in ("bfp_method", "element_dtype", "direction", "format"):
            return self.pick(TEXTS)
        if name in ("epsilon", "limit"):
            return self.pick([1e-5, 0.0, -1.0, float("nan"), float("inf")])
        return self.pick(NUMBERS)


def inputs_of(op: str, dice: Dice) -> list[Array]:
    """Inputs that fit each other most of the time."""
    x = dice.array("float32", dice.shape())
    if dice.chance(0.1):
        return [dice.array(dice.pick(TYPES), dice.shape()) for _ in range(dice.pick([1, 2, 3, 4]))]
    if "Linear" in op:
        dtype = dice.pick(TYPES[1:])
        size = (dice.pick([*x.shape, 1]),) if dice.chance(0.5) else ()
        scale = np.abs(dice.rng.standard_normal(size)).astype(np.float32) + np.float32(dice.pick([0, 1e-3, 1e-40]))
        first = dice.array(dtype, x.shape) if op == "ExtendedDequantizeLinear" else x
        return [first, np.asarray(scale), dice.array(dtype, size)]
    if op == "ExtendedInstanceNormalization":
        channels = (x.shape[1],) if x.ndim > 1 else (3,)
        return [x, dice.array("float32", channels), dice.array("float32", channels)]
    if op == "ExtendedLSTM":
        inputs, hidden = dice.pick([1, 2, 7]), dice.pick([1, 3])
        shapes = [(dice.pick([0, 1, 4]), dice.pick([0, 1, 2]), inputs), (2, 4 * hidden, inputs)]
        return [dice.array("float32", s) for s in [*shapes, (2, 4 * hidden, hidden), (2, 8 * hidden)]]
    if op == "Compare":
        return [x, dice.array("float32", dice.pick([x.shape, x.shape, dice.shape()]))]
    return [dice.array(dice.pick(["float32", "float16", "bfloat16"]), x.shape)]


def packed(dice: Dice) -> tuple[list[Array], dict[str, Any]]:
    """Records and `like`, and the attributes that read them."""
    x = np.nan_to_num(dice.array("float32", dice.shape()))
    x = x if x.ndim else x.reshape(1)
    axis, kind = int(dice.rng.integers(-x.ndim, x.ndim)), dice.pick(["bfp", "bfp_prime", "mx", "linear"])
    attributes: dict[str, Any] = {"format": kind, "axis": axis, "length": x.shape[axis]}
    if kind == "bfp":
        attributes |= {"block_size": dice.pick([8, 16]), "bit_width": dice.pick([10, 12, 16])}
        records = quarkfast.quantize_bfp(
            x, axis=axis, block_size=attributes["block_size"], bit_width=attributes["bit_width"]
        )
    elif kind == "bfp_prime":
        attributes |= {"block_size": 16, "bit_width": dice.pick([11, 13, 16])}
        records = quarkfast.quantize_bfp_prime(x, axis=axis, bit_width=attributes["bit_width"])
    elif kind == "mx":
        attributes |= {"element_dtype": dice.pick(["fp8_e4m3", "fp6_e3m2", "fp4_e2m1", "int8"])}
        records = quarkfast.quantize_mx(x, attributes["element_dtype"], axis=axis)
    else:
        attributes |= {
            "bits": dice.pick([2, 3, 4, 8]),
            "signed": dice.pick([0, 1]),
            "has_zero_point": dice.pick([0, 1]),
        }
        size = 4 + attributes["has_zero_point"] + 4 * attributes["bits"]
        others = [n for i, n in enumerate(x.shape) if i != axis % x.ndim]
        shape = (*others, -(-x.shape[axis] // 32), size)
        records = dice.rng.integers(0, 256, shape, dtype=np.uint8)
        records[..., :4] = np.abs(np.float32([dice.pick([0.5, 1e-3, 0.0])])).view(np.uint8)
    if dice.chance(0.1):
        records = records.reshape(-1)[: max(records.size - 1, 0)]
    return [records, np.zeros((), dice.pick([np.float32, np.float16, ml_dtypes.bfloat16]))], attributes


def attributes_of(op: str, inputs: list[Array], dice: Dice) -> dict[str, Any]:
    attributes = {name: dice.attribute(name) for name in OPERATORS[op] if dice.chance(0.4)}
    if op == "ExtendedLSTM" and dice.chance(0.9):
        hidden = inputs[2].shape[-1] if len(inputs) > 2 and inputs[2].ndim else 1
        attributes |= {"hidden_size": hidden}
        attributes |= {f"{name}_scale": float(dice.pick([1 / 32767, 2.0**-15, 0.1, 1e-9, 1e9])) for name in "xwrby"}
        attributes |= {f"{name}_zero_point": dice.pick([32768, 0, 65535, 128]) for name in "xwrby"}
    if op == "Observe" and dice.chance(0.7):
        attributes = {"collector": COLLECTOR.id, "slot": dice.pick([0, 1])}
    return attributes


def output_type(op: str, inputs: list[Array]) -> Any:
    """The element type that the model declares for its output."""
    if op == "Compare":
        return "float64"
    if op == "ExtendedQuantizeLinear" and len(inputs) > 2:
        return inputs[2].dtype
    if op == "DequantizeBlock" and len(inputs) > 1:
        return inputs[1].dtype
    return inputs[0].dtype if "QuantizeDequantize" in op or op == "Observe" else "float32"


def block_shape(records: tuple[int, ...], attributes: dict[str, Any]) -> tuple[int, ...]:
    """What DequantizeBlock makes of records that it accepts."""
    others = list(records[:-2])
    others.insert(attributes.get("axis", -1) % (len(others) + 1), attributes["length"])
    return tuple(others)


def compared_rows(reference: tuple[int, ...], value: tuple[int, ...], axis: int | None) -> int:
    """How many rows Compare makes of two tensors."""
    if reference != value:
        return 0
    return value[axis] if axis is not None and -len(value) <= axis < len(value) else 1


def run_case(seed: int) -> str:
    """Build and run the case of a seed; return what happened to it."""
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, NotImplemented

    dice = Dice(seed)
    op = dice.pick(list(OPERATORS))
    inputs = inputs_of(op, dice)
    attributes = attributes_of(op, inputs, dice)
    if op == "DequantizeBlock" and dice.chance(0.9):
        inputs, right = packed(dice)
        attributes = right if dice.chance(0.6) else right | attributes
    output = output_type(op, inputs)
    constants = tuple(i for i in range(len(inputs)) if dice.chance(0.3))
    shape = dice.pick(["static", "static", None])
    domain, name = "quarkfast" if op in OWN else "com.amd.quark", op
    if op in OLDER_NAMES and dice.chance(0.2):
        domain, name = "com.vai.quantize", OLDER_NAMES[op]
    model = one_node(name, inputs, output=output, domain=domain, shape=shape, constants=constants, **attributes)
    try:
        runner = session(model)
    except ModelError:
        return f"{op}: refused"
    held = {i.name for i in model.graph.initializer}
    feeds = {f"x{i}": x for i, x in enumerate(inputs) if f"x{i}" not in held}
    try:
        (y,) = runner.run(None, feeds)
    except (Fail, InvalidArgument, InvalidGraph, NotImplemented):
        return f"{op}: failed"
    expected = inputs[0].shape
    if op == "ExtendedLSTM":
        steps, batch, _ = inputs[0].shape
        expected = (steps, 2, batch, attributes["hidden_size"])
    elif op == "DequantizeBlock":
        expected = block_shape(inputs[0].shape, attributes)
    elif op == "Compare":
        expected = (compared_rows(inputs[0].shape, inputs[1].shape, attributes.get("axis")), 7)
    if y.shape != expected:
        raise AssertionError(f"case {seed}: {op}: expected shape {expected}, got {y.shape}")
    return f"{op}: ran"


def main(minutes: float, first: int) -> None:
    end = time.monotonic() + 60 * minutes
    outcomes: Counter[str] = Counter()
    seed = first
    while time.monotonic() < end:
        sys.stderr.write(f"\rcase {seed}")
        outcomes[run_case(seed)] += 1
        seed += 1
    sys.stderr.write(f"\r{seed - first} cases from {first}\n")
    for outcome, count in sorted(outcomes.items()):
        sys.stdout.write(f"{count:8} {outcome}\n")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
