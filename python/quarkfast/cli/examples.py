"""One line for each verb that its help shows as an example."""

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["EXAMPLES"]

EXAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "quantize": "quantize model.onnx -p A8W8 --calibration-data samples.npz",
        "plan": "plan model.onnx -p A8W8",
        "calibrate": "calibrate model.onnx --calibration-data samples.npz",
        "merge-calibration": "merge-calibration monday.json tuesday.json -o all.json",
        "evaluate": "evaluate model.onnx model_A8W8.onnx --data samples.npz",
        "compare": "compare model.onnx model_A8W8.onnx --data samples.npz",
        "inspect": "inspect model_A8W8.onnx",
        "check": "check model_A8W8.onnx --target ryzenai-a8w8",
        "checkpoint": "checkpoint model_folder -o model_int4 -p int4_wo_128",
        "demo": "demo",
        "doctor": "doctor",
        "bfloat16": "convert bfloat16 model.onnx model_bf16.onnx",
        "bfp16": "convert bfp16 model.onnx model_bfp16.onnx",
        "float32": "convert float32 model_fp16.onnx model.onnx",
        "fixed-shapes": "convert fixed-shapes model.onnx one.onnx --shape x=1,3,96,96",
        "fixed-inputs": "convert fixed-inputs model.onnx model_16k.onnx --input sr=16000",
        "opset": "convert opset model.onnx model_17.onnx --to 17",
        "channels-last": "convert channels-last model.onnx model_nhwc.onnx",
        "standard-qdq": "convert standard-qdq model_A8W8.onnx standard.onnx",
        "custom-qdq": "convert custom-qdq model_A8W8.onnx custom.onnx",
        "custom-domain": "convert custom-domain model.onnx out.onnx --to com.amd.quark",
        "remove-qdq": "convert remove-qdq model_A8W8.onnx float.onnx",
    }
)
"""Name of a verb, or of a command of convert -> the words behind `quarkfast`, within a line of 80 columns."""
