"""A detector for an NPU: boxes in pixels and scores up to 1 leave it in one tensor, and keep scales of their own."""

import numpy as np
import onnx
import onnxruntime

import quarkfast

TEXT = """detector (float[N, 3, 32, 32] image) => (float[N, 6, 64] detections) {
    f = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [4, 4]> (image, w_backbone)
    features = Relu (f)
    boxes = Conv <kernel_shape = [1, 1]> (features, w_boxes)
    logits = Conv <kernel_shape = [1, 1]> (features, w_scores)
    scores = Sigmoid (logits)
    joined = Concat <axis = 1> (boxes, scores)
    detections = Reshape (joined, shape)
}"""


def detector() -> onnx.ModelProto:
    """Returns a detector as exporters write one; put your own in its place."""
    rng = np.random.default_rng(0)
    graph = onnx.parser.parse_graph(TEXT)
    weights = {
        "w_backbone": rng.normal(size=(16, 3, 3, 3)) / 5,
        "w_boxes": 30 * rng.normal(size=(4, 16, 1, 1)),
        "w_scores": rng.normal(size=(2, 16, 1, 1)),
    }
    arrays = {name: array.astype(np.float32) for name, array in weights.items()}
    arrays["shape"] = np.array([-1, 6, 64])
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


rng = np.random.default_rng(1)
model = detector()
samples = {"image": rng.normal(size=(64, 3, 32, 32)).astype(np.float32)}
test = {"image": rng.normal(size=(16, 3, 32, 32)).astype(np.float32)}

result = quarkfast.quantize(model, "detector_a8w8.onnx", "A8W8", samples)
for note in result.summary.notes:
    print(note)

options = onnxruntime.SessionOptions()  # a model for an NPU is judged as it is written, not as a CPU would fuse it
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
expected, got = (
    onnxruntime.InferenceSession(each, options).run(None, test)[0]
    for each in (model.SerializeToString(), "detector_a8w8.onnx")
)
errors = {"boxes": np.abs(got - expected)[:, :4].max(), "scores": np.abs(got - expected)[:, 4:].max()}
largest = float(np.abs(expected[:, :4]).max())
print(f"boxes reach {largest:.0f} pixels; largest errors: boxes {errors['boxes']:.1f}, scores {errors['scores']:.3f}")
