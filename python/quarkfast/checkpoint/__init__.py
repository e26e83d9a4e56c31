"""Language-model checkpoints, file to file: folders of safetensors become smaller ones that runtimes load, or GGUF.

Nothing here needs PyTorch or ONNX. Weights are mapped, quantized a few megabytes at a time and written shard by shard.
"""

from quarkfast.checkpoint.gguf_file import GGUF_PRESETS
from quarkfast.checkpoint.quantize import QuantizedCheckpoint, quantize_checkpoint
from quarkfast.checkpoint.schemes import PRESETS, WeightScheme

__all__ = ["GGUF_PRESETS", "PRESETS", "QuantizedCheckpoint", "WeightScheme", "quantize_checkpoint"]
