"""Simulated sums of 16 bits beside those of a processor without VNNI: ``python -m bench.without_vnni WORK SHARED``.

Writes models in U8S8 to WORK, each with inputs and the outputs that `quarkfast.evaluate.saturated_sums` expects.
Without SHARED it runs them in onnxruntime alone and counts outputs that are others. On such a processor, or emulated:

    qemu-x86_64 -cpu Haswell python -m bench.without_vnni WORK
    python -m tools.processor avx2 python -m bench.without_vnni WORK
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

NETWORKS = ("resnet20_cifar10", "mobilenetv2_cifar10")
# Name -> graph, shape of the weight and of the input.
LAYERS = {
    "matmul": ("(float[N, 999] x) => (float[N, 70] y) { m = MatMul(x, w) y = Relu(m) }", (999, 70), (33, 999)),
    "gemm": ("(float[N, 50] x) => (float[N, 70] y) { y = Gemm<transB = 1>(x, w) }", (70, 50), (33, 50)),
    "conv": (
        "(float[N, 6, 9, 9] x) => (float[N, A, B, C] y) { c = Conv(x, w) y = Relu(c) }", (8, 6, 3, 3), (3, 6, 9, 9),
    ),
    "groups": (
        "(float[N, 8, 9, 9] x) => (float[N, A, B, C] y) { c = Conv<group = 2>(x, w) y = Relu(c) }", (8, 4, 3, 3),
        (3, 8, 9, 9),
    ),
}  # fmt: skip


def write(work: Path, shared: Path) -> None:
    """Writes ``NAME.onnx`` and ``NAME.npz`` for every model."""
    import onnx

    rng = np.random.default_rng(5)
    for name, (text, weight, shape) in LAYERS.items():
        graph = onnx.parser.parse_graph(f"g {text}")
        values = rng.normal(0.1, 0.3, weight).astype(np.float32)
        graph.initializer.append(onnx.numpy_helper.from_array(values, "w"))
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        x = rng.uniform(0.5, 1, shape).astype(np.float32)
        expect(work / name, model, "x", x, x)
    mean, std = (np.float32(each)[:, None, None] for each in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    with np.load(shared / "data" / "cifar10_calib.npz") as data:
        x = ((data["x"][:64].astype(np.float32) / 255 - mean) / std).astype(np.float32)
    for name in NETWORKS:
        expect(work / name, shared / "models" / f"{name}.onnx", "input", x, x[:4])


def expect(path: Path, model: object, name: str, calibration: NDArray[np.float32], x: NDArray[np.float32]) -> None:
    """Quantizes a model and writes what it is expected to return for `x`."""
    import quarkfast
    from quarkfast.evaluate.saturated_sums import SaturatingModel

    file = path.with_suffix(".onnx")
    result = quarkfast.quantize(model, file, "U8S8", {name: calibration})  # type: ignore[arg-type]
    whole, saturated = SaturatingModel(result.proto, quarkfast.verify(file).may_saturate).run({name: x})
    np.savez(path.with_suffix(".npz"), name=name, x=x, whole=whole, saturated=saturated)


def count(work: Path) -> None:
    """Prints how many outputs are others than those of whole and of saturated sums."""
    print("| model | outputs | other than whole sums | other than simulated |\n| :-- | --: | --: | --: |")
    for path in sorted(work.glob("*.npz")):
        with np.load(path) as stored:
            session = onnxruntime.InferenceSession(path.with_suffix(".onnx"), providers=["CPUExecutionProvider"])
            got = session.run(None, {str(stored["name"]): stored["x"]})[0]
            others = [int((got != stored[key]).sum()) for key in ("whole", "saturated")]
        print(f"| {path.stem} | {got.size} | {others[0]} | {others[1]} |")


def main() -> None:
    """Writes, or counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("shared", type=Path, nargs="?")
    arguments = parser.parse_args()
    if arguments.shared is None:
        count(arguments.work)
    else:
        arguments.work.mkdir(parents=True, exist_ok=True)
        write(arguments.work, arguments.shared)


if __name__ == "__main__":
    main()
