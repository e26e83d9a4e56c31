"""Quark's algorithm settings. They carry names and numbers; an algorithm that does not exist yet is refused by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

from quarkfast.errors import UnsupportedError

__all__ = [
    "AdaQuantConfig",
    "AdaRoundConfig",
    "AlgoConfig",
    "AutoMixprecisionConfig",
    "BiasCorrectionConfig",
    "CLEConfig",
    "GPTQConfig",
    "QuarotConfig",
    "SmoothQuantConfig",
    "refuse_algorithm",
    "refuse_algorithms",
]


@dataclass
class AlgoConfig:
    """Base of all algorithm settings.

    Attributes:
        name: The algorithm's name in messages.
        options: Further settings, by Quark's keys.
    """

    name: str = field(default="", init=False)
    options: dict[str, Any] = field(default_factory=dict, kw_only=True)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: the class and its settings."""
        return {"class": type(self).__name__, **vars(self)}


@dataclass
class AdaRoundConfig(AlgoConfig):
    """Adaptive rounding."""

    num_iterations: int = 1000
    learning_rate: float = 0.1
    batch_size: int = 2
    data_size: int = 1000

    def __post_init__(self) -> None:
        self.name = "AdaRound"


@dataclass
class AdaQuantConfig(AlgoConfig):
    """Adaptive quantization."""

    num_iterations: int = 1000
    learning_rate: float = 1e-5
    batch_size: int = 2
    data_size: int = 1000

    def __post_init__(self) -> None:
        self.name = "AdaQuant"


@dataclass
class CLEConfig(AlgoConfig):
    """Cross-layer equalization."""

    cle_steps: int = 1

    def __post_init__(self) -> None:
        self.name = "CLE"


@dataclass
class SmoothQuantConfig(AlgoConfig):
    """SmoothQuant."""

    alpha: float = 0.5

    def __post_init__(self) -> None:
        self.name = "SmoothQuant"


@dataclass
class BiasCorrectionConfig(AlgoConfig):
    """Bias correction."""

    def __post_init__(self) -> None:
        self.name = "BiasCorrection"


@dataclass
class GPTQConfig(AlgoConfig):
    """GPTQ."""

    bits: int = 8
    group_size: int = -1

    def __post_init__(self) -> None:
        self.name = "GPTQ"


@dataclass
class AutoMixprecisionConfig(AlgoConfig):
    """Automatic mixed precision."""

    def __post_init__(self) -> None:
        self.name = "AutoMixprecision"


@dataclass
class QuarotConfig(AlgoConfig):
    """QuaRot."""

    def __post_init__(self) -> None:
        self.name = "QuaRot"


def refuse_algorithms(algorithms: list[AlgoConfig] | None) -> None:
    """Raise for the first algorithm that does not exist yet: any but bias correction and one step of equalization.

    Raises:
        UnsupportedError: there is one.
    """
    for algorithm in algorithms or []:
        done = isinstance(algorithm, BiasCorrectionConfig) or (
            isinstance(algorithm, CLEConfig) and algorithm.cle_steps == 1
        )
        if done and not algorithm.options:
            continue
        refuse_algorithm(algorithm.name)


def refuse_algorithm(name: str) -> NoReturn:
    """Raise for an algorithm that does not exist yet.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError(f"algorithms: expected none in this version, got {name}; leave it out")
