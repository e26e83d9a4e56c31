"""An image classifier for CPUs: quantize it with 256 images, and count what it gets right before and after."""

import numpy as np
import onnxruntime

import quarkfast
from quarkfast.demo.data import MODEL, load_images

images = load_images()  # handwritten digits; put your own model and images here, preprocessed as for inference
samples = {"image": images.calibration[:256]}

result = quarkfast.quantize(MODEL, "digits_u8s8.onnx", "U8S8", samples, per_channel=True)
print(result.summary)


def top1(path: str) -> float:
    """Returns the percentage of test images that a model classifies rightly."""
    session = onnxruntime.InferenceSession(path)
    logits = session.run(None, {session.get_inputs()[0].name: images.test})[0]
    return 100 * float(np.mean(logits.argmax(axis=1) == images.labels))


before, after = top1(str(MODEL)), top1("digits_u8s8.onnx")
print(f"top-1: {before:.1f} % in float, {after:.1f} % in U8S8")
