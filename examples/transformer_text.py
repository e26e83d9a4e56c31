"""A sentence encoder for CPUs: sentences of any length calibrate, and embeddings are compared before and after."""

import codecs
import contextlib
import io

import numpy as np
import onnx
import onnxruntime

import quarkfast

WIDTH = 64
TEXT = f"""encoder (int64[1, tokens] ids) => (float[1, {WIDTH}] embedding) {{
    x = Gather (table, ids)
    n = LayerNormalization <axis = -1> (x, gain, offset)
    q = MatMul (n, w_query)
    k = MatMul (n, w_key)
    v = MatMul (n, w_value)
    t = Transpose <perm = [0, 2, 1]> (k)
    s = MatMul (q, t)
    scores = Div (s, root)
    a = Softmax <axis = -1> (scores)
    c = MatMul (a, v)
    r = Add (x, c)
    m = LayerNormalization <axis = -1> (r, gain, offset)
    u = MatMul (m, w_up)
    g = Relu (u)
    d = MatMul (g, w_down)
    y = Add (r, d)
    embedding = ReduceMean <axes = [1], keepdims = 0> (y)
}}"""


def encoder() -> onnx.ModelProto:
    """Returns an encoder of one block over the bytes of a text; put your own in its place."""
    rng = np.random.default_rng(0)
    shapes = {"table": (256, WIDTH), "w_up": (WIDTH, 4 * WIDTH), "w_down": (4 * WIDTH, WIDTH)}
    shapes |= dict.fromkeys(("w_query", "w_key", "w_value"), (WIDTH, WIDTH))
    arrays = {name: (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32) for name, shape in shapes.items()}
    arrays["table"] *= 16
    arrays |= {"gain": np.ones(WIDTH, np.float32), "offset": np.zeros(WIDTH, np.float32)}
    arrays["root"] = np.float32(np.sqrt(WIDTH))
    graph = onnx.parser.parse_graph(TEXT)
    graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items())
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def sentences() -> list[dict[str, np.ndarray]]:
    """Returns the lines of the Zen of Python, as feeds."""
    with contextlib.redirect_stdout(io.StringIO()):
        import this
    lines = codecs.decode(this.s, "rot13").splitlines()
    return [{"ids": np.frombuffer(line.encode(), np.uint8).astype(np.int64)[None]} for line in lines if line]


model, feeds = encoder(), sentences()
reference = onnxruntime.InferenceSession(model.SerializeToString())
similarity = {}
for preset in ("DYNAMIC", "U8S8"):
    result = quarkfast.quantize(model, preset=preset, calibration_data=feeds[:12])
    session = onnxruntime.InferenceSession(result.model_bytes)
    pairs = [(reference.run(None, feed)[0][0], session.run(None, feed)[0][0]) for feed in feeds[12:]]
    cosines = [x @ y / np.linalg.norm(x) / np.linalg.norm(y) for x, y in pairs]
    similarity[preset] = float(min(cosines))
    print(f"{preset}: least cosine of an embedding with that in float {similarity[preset]:.4f}")
