"""Keys of algorithms."""

from __future__ import annotations

from typing import Any

from quarkfast.config.quark.keys.row import Key

__all__ = ["ROWS"]


def _cle(name: str, *default: Any) -> Key:
    return Key(name, "equalization has settings of its own", default=default, algorithm="cross-layer equalization")


ROWS = (
    Key("FastFinetune", "option `rounding`", honoured="a mapping of Quark's settings"),
    Key("UseGPTQ", "option `rounding`", default=(False,), honoured="True"),
    Key("GPTQParams", "option `rounding`", honoured="a mapping of Quark's settings"),
    Key("SmoothAlpha", default=(0.5,), algorithm="SmoothQuant"),
    Key("RMatrixDim", default=(4096,), algorithm="QuaRot"),
    Key("UseRandomHad", default=(False,), algorithm="QuaRot"),
    Key("RConfigPath", default=(None,), algorithm="QuaRot"),
    _cle("CLEBalanceMethod", "max"),
    _cle("CLESteps", 1),
    _cle("CLEWeightThreshold", 0.5),
    _cle("CLEScaleUseThreshold", True),
    _cle("CLETotalLayerDiffThreshold", 2e-7, 1.9e-7),
    _cle("CLEScaleAppendBias", True),
)
