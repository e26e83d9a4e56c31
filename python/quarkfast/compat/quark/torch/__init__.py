"""``quark.torch``, as far as it works file to file: templates of language models, and their weights without PyTorch."""

from quarkfast.compat.quark.torch.file_to_file import CheckpointConfig, LLMTemplate, ModelQuantizer

__all__ = ["CheckpointConfig", "LLMTemplate", "ModelQuantizer"]
