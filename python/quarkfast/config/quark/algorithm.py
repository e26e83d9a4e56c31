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
    "FinetuningConfig",
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
class FinetuningConfig(AlgoConfig):
    """What AdaRound and AdaQuant have in common; `quarkfast.config.quark.finetuning` says what becomes of it.

    None leaves a setting to quarkfast.
    """

    num_iterations: int = 1000
    learning_rate: float = 0.1
    batch_size: int = 2
    data_size: int = 1000
    fixed_seed: int = 1705472343
    num_batches: int = 1
    lr_adjust: Any = None
    early_stop: bool = False
    output_index: int = 0
    target_op_type: list[str] | None = None
    selective_update: bool = False
    update_bias: bool | None = None
    output_qdq: bool = False
    drop_ratio: float = 1.0
    mem_opt_level: int = 1
    cache_dir: str | None = None
    log_period: int | None = None
    ref_model_path: str | None = None
    dynamic_batch: bool = False
    parallel: bool = False
    optim_device: str = "cpu"
    infer_device: str = "cpu"
    select_max_mem_layer: bool = False
    num_workers: int = 1
    pin_memory: bool = False
    use_gds: bool = False


@dataclass
class AdaRoundConfig(FinetuningConfig):
    """Adaptive rounding."""

    reg_param: float = 0.01
    beta_range: tuple[float, float] = (20.0, 2.0)
    warm_start: float = 0.2

    def __post_init__(self) -> None:
        self.name = "AdaRound"


@dataclass
class AdaQuantConfig(FinetuningConfig):
    """Adaptive quantization."""

    learning_rate: float = 1e-5

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
    """GPTQ; `quarkfast.config.quark.gptq` says what becomes of it."""

    bits: int = 8
    block_size: int = 128
    group_size: int = -1
    perc_damp: float = 0.01
    act_order: bool = False
    per_channel: bool = False
    weight_symmetric: bool = True
    mse: bool = False

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
    """Raise for the first algorithm that does not exist yet.

    Bias correction, one step of equalization, AdaRound and AdaQuant do.

    Raises:
        UnsupportedError: there is one.
    """
    for algorithm in algorithms or []:
        done = isinstance(algorithm, BiasCorrectionConfig) or (
            isinstance(algorithm, CLEConfig) and algorithm.cle_steps == 1
        )
        if done and not algorithm.options:
            continue
        if not isinstance(algorithm, FinetuningConfig):
            refuse_algorithm(algorithm.name)


def refuse_algorithm(name: str) -> NoReturn:
    """Raise for an algorithm that does not exist yet.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError(f"algorithms: expected none in this version, got {name}; leave it out")
