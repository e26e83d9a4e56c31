"""A script for AMD Quark: `quark.` in its imports has become `quarkfast.compat.quark.`, nothing else has changed."""

import numpy as np
import onnxruntime

from quarkfast.compat.quark.onnx import ModelQuantizer
from quarkfast.compat.quark.onnx.quantization.config import Config, get_default_config
from quarkfast.demo.data import MODEL, load_images


class ImageReader:
    """Hands out one image at a time, as readers for ONNX Runtime and Quark do."""

    def __init__(self, images: np.ndarray) -> None:
        self.feeds = iter([{"image": image[None]} for image in images])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Returns the next image, and None behind the last."""
        return next(self.feeds, None)


images = load_images()
config = Config(global_quant_config=get_default_config("XINT8"))
ModelQuantizer(config).quantize_model(str(MODEL), "digits_xint8.onnx", ImageReader(images.calibration[:64]))

options = onnxruntime.SessionOptions()  # a model for an NPU is judged as it is written, not as a CPU would fuse it
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession("digits_xint8.onnx", options)
logits = session.run(None, {"image": images.test})[0]
top1 = 100 * float(np.mean(logits.argmax(axis=1) == images.labels))
print(f"top-1 in XINT8: {top1:.1f} %")
