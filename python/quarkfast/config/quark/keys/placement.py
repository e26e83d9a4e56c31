"""Keys of where Q/DQ pairs stand, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping

from quarkfast.config.quark.keys.row import BOTH, Family, Key, Values

__all__ = ["ROWS"]

_FUSED = "the target computes the function along with the layer in front of it"
_NOTHING: Mapping[Family, Values] = {"transformer": BOTH, "dynamic": BOTH, "block": BOTH}


def _fused(name: str, constraint: str, default: bool) -> Key:
    why = f"constraint `{constraint}`: {_FUSED}"
    return Key(name, why, default=(default,), families=_NOTHING, honoured=repr(not default), constraint=constraint)


def _joined(name: str, constraint: str) -> Key:
    why = f"constraint `{constraint}`: no pair stands between the two"
    return Key(name, why, default=(False,), families=_NOTHING, honoured="True", constraint=constraint)


def _shared(name: str, value: str) -> Key:
    return Key(name, f"option `shares`: {value}", default=(False,), honoured="True")


ROWS = (
    Key("ForceQuantizeNoInputCheck", "option `force_pass_through`", honoured="True, False"),
    _shared("DedicatedQDQPair", "nothing"),
    _shared("DedicateDQNode", "codes"),
    Key("QDQOpTypePerChannelSupportToAxis", "channels lie where the operator has them", default=({},)),
    _fused("RemoveQDQConvClip", "fuse_clip", True),
    _fused("RemoveQDQConvRelu", "fuse_relu", True),
    _fused("RemoveQDQConvLeakyRelu", "fuse_leaky_relu", True),
    _fused("RemoveQDQConvPRelu", "fuse_prelu", True),
    _fused("RemoveQDQConvGelu", "fuse_gelu", False),
    _joined("RemoveQDQInstanceNorm", "fuse_instance_norm"),
    Key(
        "RemoveFusedQDQ",
        "no node stands between a layer and the activation that the target computes along, in blocks too",
        default=(False,),
        already=BOTH,
    ),
    _joined("RemoveQDQMulAdd", "fuse_mul_add"),
    Key(
        "RemoveQDQBetweenOps",
        "option `fuse`",
        default=([], None),
        honoured="pairs of operator types",
    ),
    Key("UseQDQContribOps", "option `contrib_pairs`", default=(False,), honoured="True"),
    Key("UseQDQVitisCustomOps", "it has no effect in Quark either; leave it out", default=(True,), dead=True),
)
