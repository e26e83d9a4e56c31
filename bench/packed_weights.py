"""How small packed weights are, and whether they change anything: ``python -m bench.packed_weights MODEL INPUTS.npz``.

INPUTS.npz holds an array for each input of MODEL, samples along axis 0. The model is quantized with each preset of
block formats, weights in float32 and packed; both run on all samples. Prints a Markdown table: what the format promises
for the weights that were packed, what their records take, the files, and whether the outputs have the same bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx

import quarkfast
from quarkfast import ort
from quarkfast.config import PRESETS
from quarkfast.formats.block import BLOCK_FORMATS

PRESET_NAMES = ("MX9", "BFP16", "MXINT8", "MX6", "MXFP6E3M2", "MXFP4E2M1", "MX4")


def packed_sizes(model: bytes) -> tuple[int, int]:
    """Weights behind DequantizeBlock: how many values, and the bytes of their records."""
    graph = onnx.load_model_from_string(model).graph
    held = {tensor.name: tensor for tensor in graph.initializer}
    values = size = 0
    for node in graph.node:
        if node.op_type == "DequantizeBlock":
            dims = held[node.input[0]].dims
            (length,) = (a.i for a in node.attribute if a.name == "length")
            values += int(np.prod(dims[:-2], dtype=np.int64)) * length
            size += int(np.prod(dims, dtype=np.int64))
    return values, size


def main(model: Path, inputs: Path) -> None:
    """Print the table."""
    with np.load(inputs) as file:
        feed = dict(file)
    print("| preset | bits a weight | promised bytes | records | file, float32 weights | file, packed | outputs |")
    print("| :-- " + "| --: " * 6 + "|")
    for preset in PRESET_NAMES:
        files, outputs = [], []
        for packed in (False, True):
            done = quarkfast.quantize(model, preset=preset, calibration_data=[feed], packed_weights=packed)
            files.append(done.model_bytes)
            outputs.append([y.tobytes() for y in ort.run(ort.inference_session(done.model_bytes), feed)])
        bits = BLOCK_FORMATS[PRESETS[preset].weight.dtype].bits
        values, size = packed_sizes(files[1])
        promised = f"{round(values * bits / 8):,}"
        equal = "the same bytes" if outputs[0] == outputs[1] else "differ"
        cells = [preset, bits, promised, f"{size:,}", *(f"{len(each):,}" for each in files), equal]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
