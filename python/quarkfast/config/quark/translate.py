"""From Quark's configurations to a scheme: one way in, whatever the vocabulary."""

from __future__ import annotations

from dataclasses import replace

from quarkfast.config.quark.algorithm import AlgoConfig, BiasCorrectionConfig, CLEConfig, refuse_algorithms
from quarkfast.config.quark.assemble import for_vaiml
from quarkfast.config.quark.finetuning import finetuned, finetuning_of
from quarkfast.config.quark.from_legacy import scheme_of_legacy
from quarkfast.config.quark.from_qconfig import scheme_of_qconfig
from quarkfast.config.quark.legacy import Config, QuantizationConfig
from quarkfast.config.quark.mixed_precision import mixed, mixing_of
from quarkfast.config.quark.plain import plain_algorithms, plain_config
from quarkfast.config.quark.qconfig import QConfig
from quarkfast.config.quark.smoothing import equalized_as_asked, rotated_as_asked, smoothed_as_asked
from quarkfast.config.scheme import Scheme

__all__ = ["scheme_of", "with_algorithms"]


def scheme_of(config: Config | QConfig | QuantizationConfig) -> Scheme:
    """Return the scheme that a configuration of Quark amounts to.

    Args:
        config: A ``Config``, a ``QuantizationConfig`` or a ``QConfig``; it is not changed.

    Raises:
        UnsupportedError: It asks for an algorithm, type or option that does not exist here yet.
        ConfigError: It is of another kind, or an option is unknown.

    Example:
        >>> from quarkfast.config.quark.legacy import get_default_config
        >>> scheme_of(get_default_config("BF16")).activation.dtype
        'bfloat16'
    """
    found = plain_config(config)
    return for_vaiml(scheme_of_legacy(found) if isinstance(found, QuantizationConfig) else scheme_of_qconfig(found))


def with_algorithms(scheme: Scheme, algorithms: list[AlgoConfig] | None) -> Scheme:
    """Return the scheme with Quark's algorithms besides those that it has.

    Raises:
        UnsupportedError: One does not exist here yet, or does not go with the scheme.
        ConfigError: A setting is unknown.

    Example:
        >>> from quarkfast.config import PRESETS
        >>> from quarkfast.config.quark.algorithm import AdaRoundConfig
        >>> with_algorithms(PRESETS["A8W8"], [AdaRoundConfig()]).rounding
        'adaround'
    """
    algorithms = plain_algorithms(algorithms)
    refuse_algorithms(algorithms)
    if any(isinstance(each, CLEConfig) for each in algorithms):
        scheme = equalized_as_asked(scheme, algorithms, {}, wanted=True)
    scheme = smoothed_as_asked(rotated_as_asked(scheme, algorithms, {}), algorithms, {})
    if any(isinstance(each, BiasCorrectionConfig) for each in algorithms):
        scheme = replace(scheme, bias_correction=True)
    mixing, finetuning = mixing_of(algorithms), finetuning_of(algorithms)
    scheme = mixed(scheme, mixing, {}) if mixing else scheme
    return finetuned(scheme, finetuning) if finetuning else scheme
