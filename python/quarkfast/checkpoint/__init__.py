"""Language-model checkpoints, file to file: folders of safetensors become smaller ones that runtimes load, or GGUF.

Nothing here needs PyTorch or ONNX. Weights are mapped, quantized a few megabytes at a time and written shard by shard.
"""

from quarkfast.checkpoint.quantize import QuantizedCheckpoint, quantize_checkpoint
from quarkfast.checkpoint.schemes import PRESETS, WeightScheme

__all__ = ["PRESETS", "QuantizedCheckpoint", "WeightScheme", "quantize_checkpoint"]
