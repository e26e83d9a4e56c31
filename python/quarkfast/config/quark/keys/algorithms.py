"""Keys of algorithms."""

from __future__ import annotations

import re

from quarkfast.config.equalization import SETTINGS
from quarkfast.config.options.kinds import COUNT
from quarkfast.config.quark.keys.row import Key

__all__ = ["ROWS"]


def _cle(name: str) -> Key:
    return Key(name, "`equalize_options`; left out, quarkfast's own default holds", honoured=_expects(name))


def _expects(name: str) -> str:
    setting = "cle_" + re.sub("(?<!^)(?=[A-Z])", "_", name.removeprefix("CLE")).lower()
    return SETTINGS[setting].expects


ROWS = (
    Key("FastFinetune", "option `rounding`", honoured="a mapping of Quark's settings"),
    Key("UseGPTQ", "option `rounding`", default=(False,), honoured="True"),
    Key("GPTQParams", "option `rounding`", honoured="a mapping of Quark's settings"),
    Key("SmoothAlpha", "option `smooth_alpha`, beside SmoothQuant", default=(0.5,), honoured="a number from 0 to 1"),
    Key("RMatrixDim", "a matrix has as many channels as the stream that it turns", already=COUNT),
    Key(
        "UseRandomHad",
        "option `rotation`, beside `QuarotConfig` or `include_rotation`",
        default=(False,),
        honoured="True",
    ),
    Key("RConfigPath", "streams are found in the graph", default=(None,)),
    Key("CLEBalanceMethod", "largest magnitudes are made alike, as Quark does whatever this says", default=("max",)),
    _cle("CLESteps"),
    _cle("CLEWeightThreshold"),
    _cle("CLEScaleUseThreshold"),
    _cle("CLETotalLayerDiffThreshold"),
    _cle("CLEScaleAppendBias"),
)
