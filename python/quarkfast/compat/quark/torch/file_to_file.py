"""Quark's names for quantizing a checkpoint shard by shard: ``LLMTemplate`` and ``direct_quantize_checkpoint``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from quarkfast.checkpoint import QuantizedCheckpoint, quantize_checkpoint
from quarkfast.checkpoint.selection import ARCHITECTURES
from quarkfast.errors import ConfigError, UnsupportedError, did_you_mean, shown

__all__ = ["SCHEMES", "CheckpointConfig", "LLMTemplate", "ModelQuantizer"]

_NO_LAYOUT = "none, because no runtime reads its weights from safetensors"
_STATIC = "samples for the second scale of activations; 'quarkfast checkpoint -p nvfp4' leaves activations float"
#: Each of Quark's schemes -> why it cannot be had file to file, or "".
SCHEMES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("int4_wo_32", "int4_wo_64", "int4_wo_128", "int4_wo_per_channel", "int4_wa_64"), ""),
        **dict.fromkeys(("uint4_wo_32", "uint4_wo_64", "uint4_wo_128", "uint4_wo_per_channel"), ""),
        **dict.fromkeys(("int8", "fp8", "ptpc_fp8"), ""),
        **dict.fromkeys(
            ("mxfp4", "mxfp4_weight_only", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_mxfp6_e2m3", "mxfp4_fp8"), ""
        ),
        **dict.fromkeys(("amdfp4", "amdfp4_g32", "amdfp4_global16", "amdfp4_global32"), _NO_LAYOUT),
        **dict.fromkeys(("int4_fp8", "mx6", "mx9", "bfp16"), _NO_LAYOUT),
        **dict.fromkeys(("nvfp4", "fp4_block16_scale_e4m3"), _STATIC),
    }
)


@dataclass(frozen=True)
class CheckpointConfig:
    """What :meth:`LLMTemplate.get_config` gives: a scheme and the layers to leave.

    Attributes:
        scheme: Name of the scheme.
        exclude: Names or globs of layers that stay float.
    """

    scheme: str
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True)
class LLMTemplate:
    """An architecture of language models, by the ``model_type`` of its config.json.

    Example:
        >>> LLMTemplate.get("llama").get_config("uint4_wo_128", exclude_layers=["lm_head"])
        CheckpointConfig(scheme='uint4_wo_128', exclude=('lm_head',))
    """

    model_type: str

    @classmethod
    def list_available(cls) -> list[str]:
        """The names of architectures."""
        return [kind for row in ARCHITECTURES for kind in row.model_types]

    @classmethod
    def get(cls, model_type: str) -> LLMTemplate:
        """The template of an architecture.

        Raises:
            ConfigError: If there is none.
        """
        known = cls.list_available()
        if model_type not in known:
            near = did_you_mean(model_type, known)
            raise ConfigError(f"LLMTemplate.get: expected one of {', '.join(known)}, got {shown(model_type)}{near}")
        return cls(model_type)

    @classmethod
    def get_supported_schemes(cls) -> list[str]:
        """The names of Quark's schemes that work file to file."""
        return [name for name, missing in SCHEMES.items() if not missing]

    def get_config(
        self, scheme: str, *, exclude_layers: Sequence[str] | None = None, **others: Any
    ) -> CheckpointConfig:
        """A configuration of one of Quark's schemes.

        Args:
            scheme: Its name.
            exclude_layers: Names or globs of layers that stay float.
            others: Quark's other arguments, which want samples or a runtime's own scales; only None and their defaults.

        Raises:
            ConfigError: If Quark has no such scheme.
            UnsupportedError: If it cannot be had file to file.
        """
        if scheme not in SCHEMES:
            known = ", ".join(SCHEMES)
            raise ConfigError(f"scheme: expected one of {known}, got {shown(scheme)}{did_you_mean(scheme, SCHEMES)}")
        if SCHEMES[scheme]:
            raise UnsupportedError(
                f"scheme: expected one that works file to file, got {scheme}, which has {SCHEMES[scheme]}"
            )
        for name, value in others.items():
            if value not in (None, 0.0, [], {}):
                raise UnsupportedError(
                    f"{name}: expected None, as a checkpoint is quantized without samples, got {shown(value)}"
                )
        return CheckpointConfig(scheme, tuple(exclude_layers or ()))


class ModelQuantizer:
    """Quark's class of this name, for checkpoints alone."""

    def __init__(self, config: CheckpointConfig) -> None:
        if not isinstance(config, CheckpointConfig):
            raise ConfigError(
                f"ModelQuantizer: expected what LLMTemplate.get_config gives, got {type(config).__name__}"
            )
        self.config = config

    def direct_quantize_checkpoint(
        self,
        pretrained_model_path: str | Path,
        save_path: str | Path,
        keep_excluded_layers_as_original_model_state: bool = False,
        *legacy_device_args: Any,
        weight_converters: Sequence[Any] | None = None,
        device: Any = None,
        presharded_weights: Mapping[str, int] | None = None,
    ) -> QuantizedCheckpoint:
        """Quantizes a folder of safetensors in Quark's layout; activations are quantized as they come.

        Args:
            pretrained_model_path: The folder.
            save_path: The folder to write; an older checkpoint there is replaced, as Quark does.
            keep_excluded_layers_as_original_model_state: Only False: layers that are left are dequantized.
            legacy_device_args: A device, which changes nothing: all runs on the CPU.
            weight_converters: Only None.
            device: As `legacy_device_args`.
            presharded_weights: Only None.

        Raises:
            UnsupportedError: If an argument asks for what is not there.
            ModelError: As :func:`quarkfast.checkpoint.quantize_checkpoint`, as do its other errors.
        """
        asked = {
            "keep_excluded_layers_as_original_model_state": keep_excluded_layers_as_original_model_state,
            "weight_converters": weight_converters,
            "presharded_weights": presharded_weights,
        }
        for name, value in asked.items():
            if value:
                raise UnsupportedError(f"{name}: expected None or False, got {shown(value)}")
        # Heads stay float by themselves, and a tied one is no layer that could be named.
        exclude = [name for name in self.config.exclude if not name.endswith("lm_head")]
        return quantize_checkpoint(
            pretrained_model_path, save_path, self.config.scheme, "quark", exclude=exclude, force=True
        )
