"""A language model's weights in 4 bits: no samples, no activations touched, and as large a model as the disk holds."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import quarkfast

WORDS, WIDTH = 1000, 256
TEXT = f"""language_model (int64[N, tokens] ids) => (float[N, tokens, {WORDS}] logits) {{
    x = Gather (table, ids)
    u = MatMul (x, w_up)
    g = Relu (u)
    d = MatMul (g, w_down)
    y = Add (x, d)
    logits = MatMul (y, w_head)
}}"""


def language_model() -> onnx.ModelProto:
    """Returns a network in the shape of one block of a language model; put the path of your own in its place."""
    rng = np.random.default_rng(0)
    shapes = {"table": (WORDS, WIDTH), "w_up": (WIDTH, 1024), "w_down": (1024, WIDTH), "w_head": (WIDTH, WORDS)}
    graph = onnx.parser.parse_graph(TEXT)
    for name, shape in shapes.items():
        weight = (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)
        graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


onnx.save(language_model(), "model.onnx", save_as_external_data=True, location="model.onnx.data")
feed = {"ids": np.random.default_rng(1).integers(0, WORDS, size=(2, 16))}
expected = onnxruntime.InferenceSession("model.onnx").run(None, feed)[0]

ratios = {}
for preset, options in (("INT8_WO", {}), ("MATMUL_NBITS", {"group_size": 32}), ("INT4_WO", {"group_size": 32})):
    quarkfast.quantize("model.onnx", f"model_{preset}.onnx", preset, **options)
    got = onnxruntime.InferenceSession(f"model_{preset}.onnx").run(None, feed)[0]
    ratios[preset] = float(10 * np.log10(np.square(expected).sum() / np.square(got - expected).sum()))
    size = sum(path.stat().st_size for path in Path().glob(f"model_{preset}.onnx*"))
    print(f"{preset}: {size / 1e6:.2f} MB, logits at {ratios[preset]:.1f} dB")
