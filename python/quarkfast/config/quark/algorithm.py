"""Quark's algorithm settings. They carry names and numbers; an algorithm that does not exist yet is refused by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

from quarkfast.config.quark.arguments import checked_arguments
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
    "refuse_beside_weights",
]


@checked_arguments
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


@checked_arguments
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


@checked_arguments
@dataclass
class AdaRoundConfig(FinetuningConfig):
    """Adaptive rounding."""

    reg_param: float = 0.01
    beta_range: tuple[float, float] = (20.0, 2.0)
    warm_start: float = 0.2

    def __post_init__(self) -> None:
        self.name = "AdaRound"


@checked_arguments
@dataclass
class AdaQuantConfig(FinetuningConfig):
    """Adaptive quantization."""

    learning_rate: float = 1e-5

    def __post_init__(self) -> None:
        self.name = "AdaQuant"


@checked_arguments
@dataclass
class CLEConfig(AlgoConfig):
    """Cross-layer equalization; `quarkfast.config.quark.smoothing` says what becomes of it."""

    cle_balance_method: str = "max"
    cle_steps: int = 1
    cle_weight_threshold: float = 0.5
    cle_scale_append_bias: bool = True
    cle_scale_use_threshold: bool = True
    cle_total_layer_diff_threshold: float = 1.9e-7

    def __post_init__(self) -> None:
        self.name = "CLE"


@checked_arguments
@dataclass
class SmoothQuantConfig(AlgoConfig):
    """SmoothQuant; `quarkfast.config.quark.smoothing` says what becomes of it."""

    alpha: float = 0.5

    def __post_init__(self) -> None:
        self.name = "SmoothQuant"


@checked_arguments
@dataclass
class BiasCorrectionConfig(AlgoConfig):
    """Bias correction."""

    def __post_init__(self) -> None:
        self.name = "BiasCorrection"


@checked_arguments
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


@checked_arguments
@dataclass
class AutoMixprecisionConfig(AlgoConfig):
    """Automatic mixed precision; `quarkfast.config.quark.mixed_precision` says what becomes of it."""

    target_layer_config: Any = None
    target_op_type: tuple[str, ...] | list[str] = ("Conv", "ConvTranspose", "Gemm", "MatMul")
    subgraph_json: str | None = None
    include_layers: list[str] | None = None
    exclude_layers: list[str] | None = None
    data_size: int = 0
    metric_output_index: int = 0
    metric_distance_fn: Any = None
    metric_evaluate_fn: Any = None
    metric_default: str = "l2"
    metric_threshold: float | None = 0
    metric_optimize_object: str = "speed"
    sensitivity_cache_file: str | None = None
    worker_num: int = 1
    dual_quant_nodes: bool = False
    no_input_qdq_shared: bool = False
    shared_param_mode: str = "propagate"

    def __post_init__(self) -> None:
        self.name = "AutoMixprecision"


@checked_arguments
@dataclass
class QuarotConfig(AlgoConfig):
    """QuaRot; `quarkfast.config.quark.smoothing` says what becomes of it."""

    r_matrix_dim: int = 4096
    use_random_had: bool = False
    r_config_path: str | None = None

    def __post_init__(self) -> None:
        self.name = "QuaRot"


def refuse_algorithms(algorithms: list[AlgoConfig] | None) -> None:
    """Raise for the first algorithm that does not exist yet.

    Bias correction, equalization, SmoothQuant, rotation, AdaRound, AdaQuant and mixed precision do.

    Raises:
        UnsupportedError: there is one.
    """
    for algorithm in algorithms or []:
        if algorithm == BiasCorrectionConfig():
            continue
        known = CLEConfig | SmoothQuantConfig | QuarotConfig | FinetuningConfig | AutoMixprecisionConfig
        if not isinstance(algorithm, known):
            refuse_algorithm(algorithm.name)


def refuse_beside_weights(algorithms: list[AlgoConfig], also: tuple[type[AlgoConfig], ...] = ()) -> None:
    """Raise for the first algorithm that does nothing for weights that are stored alone, but for classes in `also`.

    Raises:
        UnsupportedError: there is one.
    """
    for algorithm in algorithms:
        if not isinstance(algorithm, (FinetuningConfig, *also)):
            raise UnsupportedError(
                f"algorithms: expected none beside weights alone, got {algorithm.name}; leave it out"
            )


def refuse_algorithm(name: str) -> NoReturn:
    """Raise for an algorithm that does not exist yet.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError(f"algorithms: expected none in this version, got {name}; leave it out")
