"""``QConfig``: Quark's newer configuration, and its ready-made ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from quarkfast.config.quark.algorithm import AlgoConfig
from quarkfast.config.quark.arguments import checked_arguments
from quarkfast.config.quark.legacy import VINT8, Config, get_default_config
from quarkfast.config.quark.spec import (
    BFloat16Spec,
    BFP16Spec,
    Int8Spec,
    Int16Spec,
    QLayerConfig,
    XInt8Spec,
)
from quarkfast.errors import ConfigError, shown

__all__ = ["QCONFIGS", "QConfig"]


@checked_arguments
class QConfig:
    """Quark's configuration of a quantization.

    Args:
        global_config: What holds for every layer.
        specific_layer_config: Layer configurations and the node names (or regular expressions) they hold for.
        layer_type_config: Layer configurations and the operator types they hold for; the key None excludes types.
        exclude: Node names, regular expressions, or pairs of lists (start nodes, end nodes) of subgraphs.
        algo_config: Algorithms to run.
        use_external_data_format: Accepted for compatibility; large models get external data by themselves.
        extra_options: Options by Quark's keys.
        **kwargs: The same, flat.

    Raises:
        ConfigError: An argument is of the wrong kind, or an option is given twice.

    Example:
        >>> from quarkfast.config.quark.spec import BFloat16Spec, QLayerConfig
        >>> layer = QLayerConfig(activation=BFloat16Spec(), weight=BFloat16Spec())
        >>> QConfig(global_config=layer, BF16QDQToCast=True).extra_options
        {'BF16QDQToCast': True}
    """

    def __init__(
        self,
        global_config: QLayerConfig,
        specific_layer_config: Mapping[QLayerConfig, list[str]] | None = None,
        layer_type_config: Mapping[QLayerConfig | None, list[str]] | None = None,
        exclude: Iterable[str | tuple[list[str], list[str]]] | None = None,
        algo_config: Iterable[AlgoConfig] | None = None,
        use_external_data_format: bool = False,
        extra_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(global_config, QLayerConfig):
            raise ConfigError(f"QConfig: global_config: expected a QLayerConfig, got {type(global_config).__name__}")
        if not isinstance(extra_options, Mapping | None):
            raise ConfigError(f"QConfig: extra_options: expected a mapping by Quark's keys, got {shown(extra_options)}")
        twice = set(extra_options or {}) & set(kwargs)
        if twice:
            raise ConfigError(f"QConfig: expected each option once, got {', '.join(sorted(twice))} twice")
        self.global_config = global_config
        self.specific_layer_config = _by_layer("specific_layer_config", specific_layer_config, QLayerConfig)
        self.layer_type_config = _by_layer("layer_type_config", layer_type_config, QLayerConfig | None)
        self.exclude = _listed("exclude", exclude, "names and pairs of lists of names")
        self.algo_config = _listed("algo_config", algo_config, "such as AdaRoundConfig()")
        self.use_external_data_format = use_external_data_format
        self.extra_options: dict[str, Any] = {**(extra_options or {}), **kwargs}

    @staticmethod
    def get_default_config(name: str) -> Config:
        """Return the older configuration of that name, a fresh one each time."""
        return Config(global_quant_config=get_default_config(name))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data from which :meth:`from_dict` makes an equal object.

        Raises:
            ConfigError: There are algorithms, whose settings have no plain form yet.
        """
        if self.algo_config:
            raise ConfigError("QConfig.to_dict: expected no algorithms, got " + self.algo_config[0].name)
        return {
            "global_config": self.global_config.to_dict(),
            "specific_layer_config": [[key.to_dict(), names] for key, names in self.specific_layer_config.items()],
            "layer_type_config": [
                [None if key is None else key.to_dict(), types] for key, types in self.layer_type_config.items()
            ],
            "exclude": [list(item) if isinstance(item, tuple) else item for item in self.exclude],
            "use_external_data_format": self.use_external_data_format,
            "extra_options": dict(self.extra_options),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> QConfig:
        """Make a configuration of plain data.

        Raises:
            ConfigError: A field is missing or has no such value.
        """
        if not isinstance(data, Mapping) or "global_config" not in data:
            raise ConfigError(f"QConfig.from_dict: expected a global_config, got {shown(data)}")
        return QConfig(
            QLayerConfig.from_dict(data["global_config"]),
            {QLayerConfig.from_dict(key): names for key, names in data.get("specific_layer_config", [])},
            {
                None if key is None else QLayerConfig.from_dict(key): types
                for key, types in data.get("layer_type_config", [])
            },
            [(item[0], item[1]) if isinstance(item, list) else item for item in data.get("exclude", [])],
            use_external_data_format=data.get("use_external_data_format", False),
            extra_options=data.get("extra_options", {}),
        )


def _by_layer(name: str, given: Any, kind: Any) -> dict[Any, list[str]]:
    """Returns lists of names by the configuration of a layer.

    Raises:
        ConfigError: It is something else.
    """
    found = {} if given is None else given
    good = isinstance(found, Mapping) and all(
        isinstance(layer, kind) and isinstance(names, list | tuple) and all(isinstance(each, str) for each in names)
        for layer, names in found.items()
    )
    if not good:
        raise ConfigError(f"QConfig: {name}: expected lists of names by QLayerConfig, got {shown(given)}")
    return {layer: list(names) for layer, names in found.items()}


def _listed(name: str, given: Any, expected: str) -> list[Any]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable | None):
        raise ConfigError(f"QConfig: {name}: expected a list of {expected}, got {shown(given)}")
    return [] if given is None else list(given)


# Quark's ready-made configurations: activation, weight. A fresh object is made on each access, so that no change to one
# reaches the next user.
_FORCED = {"ForceQuantizeNoInputCheck": True}
QCONFIGS: dict[str, tuple[type[Any], type[Any], dict[str, Any]]] = {
    "XINT8_QCONFIG": (XInt8Spec, XInt8Spec, _FORCED),
    "A8W8_QCONFIG": (Int8Spec, Int8Spec, _FORCED),
    "A16W8_QCONFIG": (Int16Spec, Int8Spec, _FORCED),
    "BF16_QCONFIG": (BFloat16Spec, BFloat16Spec, _FORCED),
    "BFP16_QCONFIG": (BFP16Spec, BFP16Spec, {}),
    "VINT8_QCONFIG": (XInt8Spec, XInt8Spec, {"OptimizeModel": False, "EnableNPUCnn": False, **VINT8}),
}


def ready_made(name: str) -> QConfig:
    """Return Quark's ready-made configuration of that name.

    Raises:
        AttributeError: there is none.
    """
    from quarkfast.config.quark.algorithm import AdaQuantConfig, AdaRoundConfig

    base, algorithms = name, list[AlgoConfig]()
    if name.endswith("_ADAROUND_CONFIG") or name.endswith("_ADAROUND_QCONFIG"):
        base, algorithms = name.partition("_ADAROUND")[0] + "_QCONFIG", [AdaRoundConfig()]
    elif name.endswith("_ADAQUANT_CONFIG") or name.endswith("_ADAQUANT_QCONFIG"):
        base, algorithms = name.partition("_ADAQUANT")[0] + "_QCONFIG", [AdaQuantConfig(num_iterations=3000)]
    if base not in QCONFIGS:
        raise AttributeError(f"there is no ready-made configuration named '{name}'")
    activation, weight, options = QCONFIGS[base]
    layer = QLayerConfig(input_tensors=activation(), weight=weight())
    return QConfig(layer, algo_config=algorithms, extra_options=dict(options))
