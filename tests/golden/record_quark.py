"""Record what AMD Quark's own operators answer, as text that the tests of this project compare with.

    python record_quark.py [FOLDER]

Runs only where amd-quark 0.13, torch and onnxruntime are installed (in an environment of their own: they are no
dependency of this project) and imports nothing of this project. It builds one-node models, runs them with the operator
library that Quark compiles for itself, and writes one `quark_<operator>_<format>.json` per format into FOLDER (this
folder by default). Quark is used as a black box. The inputs follow from the seeds and patterns below, so a second run
writes the same bytes. `vectors.py` reads the files.

A file holds `provenance`, `tensors` (each dtype, shape and `bits`: the elements' bit patterns in row-major order, as
hexadecimal digits of fixed width, most significant first) and `cases` (name, attributes, and the names of the input and
output tensors). Tensors that occur twice are stored once; the inputs that all block formats share lie in
`quark_block_inputs.json`, under names that begin with `block`.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

ONNX_TYPES = {
    "float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16,
    "int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int16": TensorProto.INT16, "uint16": TensorProto.UINT16,
    "int32": TensorProto.INT32, "uint32": TensorProto.UINT32,
}  # fmt: skip
WIDTH = {name: int(name.lstrip("abfilnotu")) // 8 for name in ONNX_TYPES}  # bytes
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]
MX_FLOATS = ["fp8_e5m2", "fp8_e4m3", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1"]
PRIME = {"bfp_method": "to_bfp_prime", "block_size": 16, "sub_block_size": 2, "sub_block_shift_bits": 1}
LINE = 16  # elements on one line of the files


class Bits:
    """A tensor as bit patterns: a NumPy array of unsigned integers and the name of the type that they stand for."""

    def __init__(self, dtype, patterns, shape=None):
        self.dtype = dtype
        self.patterns = np.ascontiguousarray(patterns).astype(f"<u{WIDTH[dtype]}").reshape(shape or np.shape(patterns))

    def proto(self, name):
        return helper.make_tensor(name, ONNX_TYPES[self.dtype], self.patterns.shape, self.patterns.tobytes(), raw=True)

    def text(self):
        digits = [f"{p:0{2 * WIDTH[self.dtype]}x}" for p in self.patterns.ravel().tolist()]
        lines = ["".join(digits[i : i + LINE]) for i in range(0, len(digits), LINE)]
        return {"dtype": self.dtype, "shape": list(self.patterns.shape), "bits": lines}


def bits(values, dtype="float32"):
    array = np.asarray(values, dtype)
    return Bits(dtype, array.view(f"u{array.itemsize}"))


def session_options():
    from quark.onnx import get_library_path  # the import compiles Quark's library the first time

    options = ort.SessionOptions()
    options.register_custom_ops_library(get_library_path("CPU"))
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return options


def run_node(options, operator, inputs, attributes, out_dtype):
    """Return the output of one operator as Bits. Inputs are initializers: a session takes no bfloat16 from NumPy."""
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(operator, names, ["y"], domain="com.amd.quark", **attributes)
    nodes, shown = [node], "y"
    if out_dtype == "bfloat16":  # read through an exact widening cast
        nodes, shown = [node, helper.make_node("Cast", ["y"], ["wide"], to=TensorProto.FLOAT)], "wide"
    shown_type = TensorProto.FLOAT if out_dtype == "bfloat16" else ONNX_TYPES[out_dtype]
    graph = helper.make_graph(
        nodes, "one", [], [helper.make_tensor_value_info(shown, shown_type, None)],
        [b.proto(n) for n, b in zip(names, inputs, strict=True)],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.amd.quark", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    y = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, {})[0]
    patterns = y.view(f"u{y.itemsize}")
    return Bits(out_dtype, patterns >> 16 if out_dtype == "bfloat16" else patterns, y.shape)


def compose(sign, exponent, mantissa):
    return (sign.astype(np.uint32) << 31) | (exponent.astype(np.uint32) << 23) | mantissa.astype(np.uint32)


def ties(rng, width, base, relative):
    """Return float32 patterns half way between two codes.

    Absolute: odd multiples of 2^(base - 127 - k), k = 7, 4, 3, 2 in turn, each 8 elements, the first of them with
    exponent `base`: half a step of BFP16 and MX9, MX6, fp8, MX4. Relative: mantissas of 2, 3 or 4 bits, the last one
    set: half a step of an element with 1, 2 or 3 mantissa bits, whatever its exponent.
    """
    segment, sign = np.arange(width) // 8 % 4, rng.integers(0, 2, width)
    if relative:
        length = np.array([2, 3, 4, 2])[segment]
        mantissa = (rng.integers(0, 16, width) % (1 << length)) | 1
        return compose(sign, base - rng.integers(0, 7, width), mantissa << (23 - length))
    k = np.array([7, 4, 3, 2])[segment]
    multiple = (rng.integers(0, 512, width) % (2 << k)) | np.where(np.arange(width) % 8, 1, 1 + (1 << k))
    return np.ldexp(np.where(sign, -multiple, multiple), base - 127 - k).astype(np.float32).view(np.uint32)


def float32_rows(seed, rows, width=32):
    """Return rows x width float32 patterns; row i follows pattern i mod 12, so that blocks are alike within a row."""
    rng = np.random.Generator(np.random.PCG64(seed))
    special = np.array([0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 1, 0x80000001], np.uint32)
    out = np.empty((rows, width), np.uint32)
    for row in range(rows):
        sign, mantissa = rng.integers(0, 2, width), rng.integers(0, 1 << 23, width)
        base, spread, kind = int(rng.integers(20, 235)), rng.integers(0, 12, width), row % 12
        x = compose(sign, base - spread, mantissa)
        if kind == 0:  # any bit pattern
            x = rng.integers(0, 1 << 32, width, dtype=np.uint64)
        elif kind in (1, 2):  # exponents 127-8 .. 127+3: what activations look like
            x = compose(sign, 119 + spread, mantissa)
        elif kind in (3, 4):
            x = ties(rng, width, base, relative=kind == 4)
        elif kind == 5:  # one unit in the last place beside a tie
            x = ties(rng, width, base, relative=row % 24 == 5) + rng.integers(-1, 2, width)
        elif kind == 6:  # mantissas of ones: rounding carries into the exponent
            x = compose(sign, base - spread // 3, 0x7FFFFF - (rng.integers(0, 2, width) << rng.integers(0, 20, width)))
        elif kind == 7:  # subnormal and tiny
            x = compose(sign, spread % int(rng.integers(1, 12)), mantissa)
        elif kind == 8:  # zeros and a few values
            x = np.where(spread < 9, special[sign], x)
        elif kind == 9:  # infinities, NaN, zeros, subnormals among ordinary values
            x = np.where(spread < 4, special[rng.integers(0, 8, width)], x)
        elif kind == 10:  # largest exponents
            x = compose(sign, 254 - spread // 4, np.where(spread < 6, 0x7FFFFF, mantissa))
        else:  # nothing but one special value, of either sign
            x = special[rng.integers(0, 8)] ^ (sign.astype(np.uint32) << 31)
        out[row] = x.astype(np.uint32)
    return out


def float16_rows(seed, rows, width=32):
    """Return rows x width float16 patterns: any pattern, ordinary values, and ties."""
    rng = np.random.Generator(np.random.PCG64(seed))
    anything = rng.integers(0, 1 << 16, (rows, width))
    ordinary = (rng.integers(0, 2, (rows, width)) << 15) | (rng.integers(10, 17, (rows, width)) << 10)
    odd, few = np.arange(rows)[:, None] % 2, rng.integers(0, 16, (rows, width)) << 6
    ordinary |= np.where(odd, rng.integers(0, 1024, (rows, width)), few)
    return np.where(np.arange(rows)[:, None] % 3 == 0, anything, ordinary)


def block_inputs():
    """Return the inputs of the block operators, by name: (tensor, axis)."""
    ragged = {"ragged_last": ((3, 37), 1), "ragged_first": ((21, 5), 0), "ragged_middle": ((2, 19, 3), 1),
              "ragged_negative": ((2, 11, 5), -2), "rank_1": ((45,), 0), "rank_4": ((1, 17, 2, 2), 1),
              "one_element": ((1, 1), 1)}  # fmt: skip
    cases = {"rows": (Bits("float32", float32_rows(1, 36)), 1)}
    for seed, (name, (shape, axis)) in enumerate(ragged.items(), start=2):
        length = shape[axis]
        rows = float32_rows(seed, seed + int(np.prod(shape)) // length, length)[seed:]
        others = shape[:axis] + shape[axis % len(shape) + 1 :]
        cases[name] = (Bits("float32", np.moveaxis(rows.reshape(*others, length), -1, axis)), axis)
    cases["float16"] = (Bits("float16", float16_rows(20, 6)), 1)
    return cases


def block_cases(variants):
    """Yield the cases of one format: all inputs with the first variant of the attributes, three with the others."""
    for number, (variant, attributes) in enumerate(variants.items()):
        for name, (x, axis) in block_inputs().items():
            if number == 0 or name in ("rows", "ragged_first", "float16"):
                yield f"{variant}-{name}", [x], {**attributes, "axis": axis}, x.dtype


def modes(attributes):
    return {f"rounding_{mode}": {**attributes, "rounding_mode": mode} for mode in range(3)}


def record_blocks():
    """Return the files of the block operators: name -> (operator, cases)."""
    bfp = {"bfp_method": "to_bfp", "bit_width": 16, "block_size": 8}
    variants = modes(bfp)
    for mode, name in ((0, "compiler_version"), (2, "compiler_version_rounding_2")):
        variants[name] = {**bfp, "rounding_mode": mode, "use_compiler_version_cpu_kernel": 1}
    files = {"bfp_bfp16": ("BFPQuantizeDequantize", block_cases(variants))}
    for name, width in (("mx4", 11), ("mx6", 13), ("mx9", 16)):
        files[f"bfp_{name}"] = ("BFPQuantizeDequantize", block_cases(modes({**PRIME, "bit_width": width})))
    int8 = modes({"element_dtype": "int8", "block_size": 32})
    files["mx_int8"] = ("MXQuantizeDequantize", block_cases(int8))
    for name in MX_FLOATS:
        variants = {"rounding_2": {"element_dtype": name, "block_size": 32, "rounding_mode": 2}}
        files[f"mx_{name}"] = ("MXQuantizeDequantize", block_cases(variants))
    return files


def linear_input(dtype, scale, shape):
    """Return float32 values around the codes of an integer type times scale: ties, saturation, tiny and signed zero."""
    rng = np.random.Generator(np.random.PCG64(30))
    info, count = np.iinfo(dtype), int(np.prod(shape))
    span = min(float(info.max) - float(info.min), 2.0**24)
    x = rng.integers(-int(span), int(span), count) * 0.5 * np.where(np.arange(count) % 3, 1.0, 1.0 / 64)
    x = (x * scale).astype(np.float32)
    x[:8] = [0.0, -0.0, 1e-42, -1e-42, 3e9 * scale, -3e9 * scale, 1e12 * scale, -1e12 * scale]
    return bits(x.reshape(shape))


def linear_cases(dtype):
    """Yield the cases of ExtendedQuantizeLinear for one type; integers meet NaN, infinity and 1e19 in a case apart."""
    if dtype not in INTEGERS:
        rows, half = Bits("float32", float32_rows(31, 12)), bits([0.5])
        zero, scales = Bits(dtype, np.zeros(1)), bits([0.5, 3.0, 0.1, 1.0, 2.0**-20, 7e4])
        x = Bits("float32", float32_rows(32, 12, 16), (6, 32))
        yield "scale_1", [rows, bits([1.0]), zero], {}, dtype
        yield "scale_1_scalar", [x, bits(np.float32(1.0)), Bits(dtype, np.uint16(0))], {}, dtype
        yield "scale_half", [x, half, zero], {}, dtype
        yield "scale_third", [x, bits([1 / 3]), zero], {}, dtype
        yield "channels", [x, scales, Bits(dtype, np.zeros(6))], {"axis": 0}, dtype
        one = {"float16": 0x3C00, "bfloat16": 0x3F80}[dtype]
        yield "zero_point_1", [x, half, Bits(dtype, [one])], {}, dtype
        return
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    middle = (low + high + 1) // 2
    points = np.array([middle, low, high, middle + 3, middle - 3 if low else 5, 0], dtype)
    scales = bits([0.5, 0.1, 1 / 3, 2.0**-20, 1.0, 37.5])
    for name, scale in (("power_of_two", 0.25), ("third", 1 / 3), ("tenth", 0.1)):
        yield name, [linear_input(dtype, scale, (6, 24)), bits([scale]), bits([middle], dtype)], {}, dtype
    yield "scalar_zero_point_low", [linear_input(dtype, 0.5, (77,)), bits(0.5), bits(low, dtype)], {}, dtype
    for axis, shape in ((0, (6, 17)), (1, (2, 6, 5)), (-1, (3, 7, 6))):
        inputs = [linear_input(dtype, 0.5, shape), scales, bits(points, dtype)]
        yield f"channels_axis_{axis}", inputs, {"axis": axis}, dtype
    special = [np.inf, -np.inf, np.nan, -np.nan, 3e38, -3e38, 1e19, -1e19, 9.3e18, -9.3e18]
    yield "nonfinite", [bits(special), bits([1.0]), bits([middle], dtype)], {}, dtype


def dequantize_cases(dtype):
    """Yield the cases of ExtendedDequantizeLinear for one type: every code of 8 bits, some of the others."""
    rng, width = np.random.Generator(np.random.PCG64(40)), WIDTH[dtype]
    codes = np.arange(256) if width == 1 else rng.integers(0, 1 << 8 * width, 126)
    if width > 1:
        codes[:6] = [0, 1, (1 << 8 * width - 1) - 1, 1 << 8 * width - 1, (1 << 8 * width - 1) + 1, (1 << 8 * width) - 1]
    floats = dtype not in INTEGERS
    point = {"float16": 0x3C00, "bfloat16": 0x3F80}.get(dtype, 3)
    points = [0] * 6 if floats else [0, 1, 3, (1 << 8 * width - 1) - 1, 1 << 8 * width - 1, (1 << 8 * width) - 1]
    x, scales = Bits(dtype, codes), bits([0.5, 0.1, 1 / 3, 2.0**-20, 1.0, 37.5])
    yield "scale_1", [x, bits([1.0]), Bits(dtype, [0])], {}, "float32"
    yield "scale_tenth_zero_point", [x, bits([0.1]), Bits(dtype, [point])], {}, "float32"
    yield "scalar", [x, bits(2.0**-9), Bits(dtype, np.uint32(0 if floats else point))], {}, "float32"
    for axis, shape in ((0, (6, 17)), (1, (2, 6, 5)), (-1, (3, 7, 6))):
        inputs = [Bits(dtype, codes[: int(np.prod(shape))], shape), scales, Bits(dtype, points)]
        yield f"channels_axis_{axis}", inputs, {"axis": axis}, "float32"


def instance_normalization_cases():
    rng = np.random.Generator(np.random.PCG64(50))
    for name, shape, size, epsilon in (
        ("rank_2", (3, 5), 1.0, 1e-5), ("rank_3", (1, 4, 33), 3.0, 1e-5), ("rank_4", (2, 3, 7, 5), 0.1, 1e-3),
        ("rank_5", (1, 2, 3, 4, 5), 50.0, 1e-5), ("offset", (2, 3, 64), 1.0, 1e-5),
    ):  # fmt: skip
        x = (rng.integers(-4096, 4096, shape) * (size / 4096)).astype(np.float32)
        x += 20 if name == "offset" else 0
        gamma, beta = ((rng.integers(-512, 512, shape[1]) / 300).astype(np.float32) for _ in range(2))
        yield name, [bits(x), bits(gamma), bits(beta)], {"epsilon": epsilon}, "float32"
    yield "constant", [bits(np.full((1, 2, 4), 1.7)), bits([1.0, 2.0]), bits([0.5, -1.0])], {}, "float32"


def lstm_cases():
    rng = np.random.Generator(np.random.PCG64(60))
    for name, sequence, width, hidden in (("small", 5, 4, 3), ("longer", 12, 7, 8)):
        shapes = [(sequence, 1, width), (2, 4 * hidden, width), (2, 4 * hidden, hidden), (2, 8 * hidden)]
        tensors = [(rng.integers(-1024, 1024, s) / 1024).astype(np.float32) for s in shapes]
        attributes = {"hidden_size": hidden, "direction": "bidirectional", "input_forget": 0, "layout": 0}
        for k in "xwrby":
            attributes |= {f"{k}_scale": float(np.float32(2 / 65535)), f"{k}_zero_point": 32768}
        yield name, [bits(t) for t in tensors], attributes, "float32"
        attributes |= {"x_scale": 2.0**-14, "x_zero_point": 30000, "y_scale": 2.0**-13, "y_zero_point": 20000}
        yield f"{name}_other_scales", [bits(t) for t in tensors], attributes, "float32"


def record_others():
    files = {}
    for dtype in [*INTEGERS, "float16", "bfloat16"]:
        files[f"quantize_{dtype}"] = ("ExtendedQuantizeLinear", linear_cases(dtype))
        files[f"dequantize_{dtype}"] = ("ExtendedDequantizeLinear", dequantize_cases(dtype))
    files["instance_normalization"] = ("ExtendedInstanceNormalization", instance_normalization_cases())
    files["lstm"] = ("ExtendedLSTM", lstm_cases())
    return files


def record(options, operator, cases, shared):
    """Return the JSON object of one file; `shared` maps the text of tensors that lie elsewhere to their names."""
    from quark.version import __version__

    names, tensors, entries = dict(shared), {}, []

    def stored(tensor):
        text = tensor.text()
        name = names.setdefault(json.dumps(text), f"t{len(tensors)}")
        if json.dumps(text) not in shared:
            tensors[name] = text
        return name

    for name, inputs, attributes, out_dtype in cases:
        attributes = dict(attributes)  # a generator may go on changing its own
        output = run_node(options, operator, inputs, attributes, out_dtype)
        shown = {"inputs": [stored(x) for x in inputs], "output": stored(output)}
        entries.append({"name": name, "attributes": attributes, **shown})
    provenance = {
        "tool": f"AMD Quark {__version__}, its own operator library, CPU",
        "domain": "com.amd.quark",
        "operator": operator,
        "onnxruntime": ort.__version__,
        "numpy": np.__version__,
        "inputs": "record_quark.py: seeded NumPy PCG64 and the bit patterns that its functions describe",
    }
    return {"provenance": provenance, "tensors": tensors, "cases": entries}


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    options = session_options()
    inputs = {f"block_{name}": x.text() for name, (x, _) in block_inputs().items()}
    documents = {"block_inputs": {"tensors": inputs}}
    shared = {json.dumps(text): name for name, text in inputs.items()}
    for name, (operator, cases) in {**record_blocks(), **record_others()}.items():
        documents[name] = record(options, operator, cases, shared)
    for name, document in documents.items():
        (folder / f"quark_{name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
