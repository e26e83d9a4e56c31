"""The presets by name. They are frozen, so no run can change what the next one means."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from quarkfast.config.scheme import Scheme
from quarkfast.config.spec import TensorSpec
from quarkfast.errors import ConfigError, did_you_mean
from quarkfast.formats.block import BLOCK_FORMATS

__all__ = ["PRESETS", "default_target", "find_preset"]

_INT8 = TensorSpec("int8")
_INT8_WEIGHT = TensorSpec("int8", method="minmse")
_INT16 = TensorSpec("int16")
_UINT8 = TensorSpec("uint8", symmetric=False)
_BFLOAT16 = TensorSpec("bfloat16")
_FLOAT16 = TensorSpec("float16")
_BLOCKS = {name: TensorSpec(name) for name in BLOCK_FORMATS}
_XINT8 = TensorSpec("int8", scale="power_of_two", method="minmse")
_FLOAT32 = TensorSpec("float32")
_INT8_CHANNEL = TensorSpec("int8", granularity="channel")
_INT4_GROUP = TensorSpec("int4", granularity="group")

PRESETS: Mapping[str, Scheme] = MappingProxyType(
    {
        scheme.name: scheme
        for scheme in (
            Scheme("A8W8", "ryzenai-a8w8", _INT8, _INT8_WEIGHT, force_pass_through=True, equalize=True),
            Scheme("A16W8", "ryzenai-a8w8", _INT16, _INT8_WEIGHT, force_pass_through=True, equalize=True),
            Scheme("U8S8", "ort-cpu", _UINT8, _INT8_WEIGHT, equalize=True),
            Scheme("DYNAMIC", "ort-dynamic", _UINT8, _INT8_CHANNEL, bias="float", encoding="dynamic", equalize=True),
            Scheme("XINT8", "ryzenai-xint8", _XINT8, _XINT8, bias="weight", force_pass_through=True, equalize=True),
            Scheme("FP16", "ryzenai-bf16", _FLOAT16, _FLOAT16, bias="weight", force_pass_through=True),
            Scheme("BF16", "ryzenai-bf16", _BFLOAT16, _BFLOAT16, bias="weight", force_pass_through=True),
            Scheme("BFP16", "ryzenai-bf16", _BLOCKS["bfp16"], _BLOCKS["bfp16"], bias="weight", equalize=True),
            *(
                Scheme(name.upper().replace("_", ""), "dot-products", spec, spec, bias="float", equalize=True)
                for name, spec in _BLOCKS.items()
                if BLOCK_FORMATS[name].operands_only
            ),
            Scheme("INT8_WO", "ort-cpu", _FLOAT32, _INT8_CHANNEL, bias="float"),
            Scheme("INT4_WO", "ort-cpu", _FLOAT32, _INT4_GROUP, bias="float"),
            Scheme("MATMUL_NBITS", "ort-cpu", _FLOAT32, _INT4_GROUP, bias="float", encoding="nbits"),
            Scheme("BF16_WO", "ort-cpu", _FLOAT32, _BFLOAT16, bias="weight", encoding="cast"),
            Scheme("FP16_WO", "ort-cpu", _FLOAT32, _FLOAT16, bias="weight", encoding="cast"),
        )
    }
)
"""Name -> scheme. Symmetric int8 and int16 run on Ryzen AI's NPU; U8S8 is what ONNX Runtime fuses on CPUs; MX formats
round the operands of products; ``_WO`` and MATMUL_NBITS store weights alone and leave activations as they are."""


def default_target(activation: TensorSpec) -> str:
    """Returns the name of the target for activations of a type, where nothing else decides.

    BFP16 is a type of the NPU's, for every tensor as bfloat16 is; MX formats are defined for operands of products.

    Example:
        >>> default_target(TensorSpec("mx9")), default_target(TensorSpec("int16"))
        ('dot-products', 'ryzenai-a8w8')
    """
    if activation.format.is_integer:
        return "ryzenai-a8w8"
    return "dot-products" if activation.format.operands_only else "ryzenai-bf16"


def find_preset(name: str) -> Scheme:
    """Returns the preset called `name`, in any case.

    Raises:
        ConfigError: If there is no such preset.

    Example:
        >>> find_preset("u8s8").target
        'ort-cpu'
    """
    scheme = PRESETS.get(name.upper())
    if scheme is None:
        known = ", ".join(PRESETS)
        raise ConfigError(f"preset: expected one of {known}, got {name!r}{did_you_mean(name, PRESETS)}")
    return scheme
