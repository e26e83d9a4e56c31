"""Weight rounding: codes of least error of what layers compute, instead of the codes nearest to the weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast import _core
from quarkfast.algorithms.algorithm import AlgorithmContext
from quarkfast.algorithms.bias_correction import bias_of
from quarkfast.algorithms.held_apart import split_samples
from quarkfast.algorithms.rounding import DESCENDING, SOLVERS, CoordinateDescent, GptqSolver, RoundingProblem, Solver
from quarkfast.algorithms.rounding.error_feedback import InverseFactors, round_with_feedback
from quarkfast.algorithms.rounding.group_scales import solve_with_scales
from quarkfast.config import POLICY, Scheme
from quarkfast.evaluate.judge import Counted, Judge
from quarkfast.evaluate.noise import Gains
from quarkfast.graph.access import array_of_tensor
from quarkfast.reconstruction import LinearLayer, linear_layers
from quarkfast.reconstruction.error_share import add_to_diagonals, covariances, error_share
from quarkfast.reconstruction.reconstruct import LayerStatistics, reconstruct
from quarkfast.reconstruction.set_aside import LARGE, SetAside
from quarkfast.reconstruction.shared_weights import shared_weights
from quarkfast.wording import counted

__all__ = ["WeightRoundingSettings", "round_weight", "round_weights", "settings_of"]

Values = NDArray[np.float64]

# The highest code of 8 bits; a float bias has none.
_MOST_OF_8_BITS = 255


@dataclass(frozen=True, slots=True)
class WeightRoundingSettings:
    """Settings of weight rounding.

    Attributes:
        solver: What finds the codes of a layer, with settings of its own.
        damping: What is added to the diagonal of a Gram matrix, as a part of its mean: what few samples say of rare
            inputs counts less.
        rows_wanted: Rows of samples for each input of a layer with which a Gram matrix says enough; with fewer the
            damping grows by the square.
        samples: Most samples that layers are run on.
        update_bias: Whether a bias makes up for the mean error of its layer.
        from_float_input: Whether layers are to give what they give in the float model, and not what their float
            weights make of the quantized input.
        part_of_error: How much of the difference between these two they are to make up for. None asks the samples, for
            each layer (`quarkfast.reconstruction.error_share`).
        scale_rounds: How many times scales of groups are fitted to the codes and codes to the scales, where weights
            are stored alone in 4 bits. None leaves scales as they are.
        op_types: Operators whose weights get new codes; empty means all.
    """

    solver: Solver = field(default_factory=CoordinateDescent)
    damping: float = POLICY.rounding_damping
    rows_wanted: int = POLICY.rounding_rows
    samples: int = POLICY.rounding_samples
    update_bias: bool = True
    from_float_input: bool = True
    part_of_error: float | None = None
    scale_rounds: int | None = 2
    op_types: tuple[str, ...] = ()


def round_weight(
    tensor: Any,
    seen: LayerStatistics,
    settings: WeightRoundingSettings,
    centred: bool,
    bias_error: Values | None = None,
) -> Any:
    """Returns a weight whose codes make the layer's output nearer to what it should be.

    With `W` the float weights, ``W^`` those of the codes, `x` the input to match and ``x^`` the input there is, the
    mean of ``|W x - W^ x^|^2`` is a quadratic form of ``W^`` in ``G = E[x^ x^T]`` and ``C = W E[x x^T]``. Where a bias
    is off by `e`, what is to be made is ``W x + e``, and ``C`` has ``e E[x^T]`` more.

    Args:
        tensor: The weight (`quarkfast.quantization.QuantizedTensor`).
        seen: How it lies, and Gram matrices of the layer's input, which are taken out.
        settings: The solver, and how far to trust the matrices.
        centred: Whether a bias takes care of means, so that only what varies counts.
        bias_error: What a bias that does not lacks in its codes, ``[groups, m]``; None for nothing.

    Returns:
        The tensor with other codes, and where they are its own with other scales.
    """
    layer, inputs = seen.layer, seen.layer.matrix_shape[2]
    decoded = layer.to_rows(tensor.decoded()).astype(np.float64)
    few = max(1.0, settings.rows_wanted * inputs / max(seen.rows, 1))
    relative, part = settings.damping * few * few, settings.part_of_error
    if layer.steps is not None and layer.steps.of_state:
        part = 0.0  # what the state lacks is what this layer itself takes from it
    if part is None:
        part = error_share(seen.parts[0], seen.parts[1], relative, centred) if len(seen.parts) > 1 else 1.0
    gram, target, wanted = _form(seen, part, relative, centred, bias_error)
    if gram.nbytes > LARGE:
        _core.release_memory()  # of the sums that it was made of
    if not tensor.is_integer:
        blocks = _blocks(tensor, layer)
        assert blocks is not None
        found = layer.from_rows(round_with_feedback(decoded, gram, target, blocks, _rounder(tensor)))
        return tensor.with_nearest(found.astype(np.float32))
    codes, scales = layer.to_rows(tensor.encoded()), layer.to_rows(tensor.scales)
    form = SetAside(gram)
    del gram
    factors = InverseFactors.of(form, act_order=True)
    if form.is_large:
        _core.release_memory()  # of what they were computed with
    best = factors.of_least_error(target, wanted)
    lowest, highest = tensor.limits
    problem = RoundingProblem(codes, decoded, best, scales, form, target, lowest, highest, factors)
    size = getattr(tensor, "scaled_inputs", 0)
    if size and settings.scale_rounds is not None:
        fitted = solve_with_scales(problem, settings.solver, size, settings.scale_rounds)
        return tensor.with_codes(*map(layer.from_rows, fitted))
    if not np.ptp(scales, axis=-1).any():
        problem = replace(problem, scales=scales[..., 0])
    return tensor.with_codes(layer.from_rows(settings.solver.solve(problem)))


def _form(
    seen: LayerStatistics, part: float, relative: float, centred: bool, bias_error: Values | None
) -> tuple[Values, Values, Values]:
    """Returns ``G`` and ``T`` with a part of the mean of the diagonal of ``G`` added to it, and the float weights."""
    matrices = seen.take()
    gram, target = covariances(matrices, part, centred)
    if bias_error is not None:
        target += bias_error[:, :, None] * matrices.mean[:, None, :]
    damping = relative * np.trace(gram, axis1=1, axis2=2) / gram.shape[-1]
    add_to_diagonals(gram, damping)
    target += damping[:, None, None] * matrices.weights
    return gram, target, matrices.weights


def _rounder(tensor: Any) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """Returns what rounds rows of a weight in floats or blocks."""
    return lambda values: tensor.of_rows(np.ascontiguousarray(values))


def _blocks(tensor: Any, layer: LinearLayer) -> list[NDArray[np.int64]] | None:
    """Returns the inputs of each block of a weight's rows; None where blocks lie across rows, or scales differ."""
    if not hasattr(tensor, "axis"):
        return None if tensor.quantizer.axis is not None else [np.array([k]) for k in range(layer.matrix_shape[2])]
    axis = tensor.axis % len(layer.shape)
    along = np.arange(layer.shape[axis]).reshape([-1 if each == axis else 1 for each in range(len(layer.shape))])
    others = np.arange(int(np.prod(layer.shape)) // layer.shape[axis]).reshape(
        [1 if each == axis else size for each, size in enumerate(layer.shape)]
    )
    places = layer.to_rows(np.broadcast_to(along, layer.shape))
    if np.ptp(places, axis=1).any():
        return None
    rest = layer.to_rows(np.broadcast_to(others, layer.shape))[0, 0]
    block = places[0, 0] // tensor.row.block_size
    order = np.lexsort((places[0, 0], block, rest))
    cuts = np.flatnonzero((np.diff(rest[order]) != 0) | (np.diff(block[order]) != 0)) + 1
    return np.split(order, cuts)


class _Rounding:
    """The codes that were found so far."""

    def __init__(self, context: AlgorithmContext, settings: WeightRoundingSettings) -> None:
        self._settings = settings
        self._weights, self._biases = context.coded_weights(), context.movable_biases()
        self.changed: dict[str, Any] = {}

    def solve(self, seen: LayerStatistics) -> Mapping[str, NDArray[np.float32]]:
        layer, means = seen.layer, seen.means()
        bias = self._biases.get(layer.bias or "") if self._settings.update_bias else None
        weight = self._weights[layer.weight]
        centred = bias is not None and _takes_means(bias)
        error = None if bias is None or centred else _error_of_codes(bias, layer)
        rounded = round_weight(weight, seen, self._settings, centred, error)
        found = {layer.weight: rounded}
        if bias is not None and layer.bias is not None:
            found[layer.bias] = bias.with_nearest(bias_of(bias, weight, rounded.decoded(), layer, *means))
        self.changed |= found
        return {name: tensor.decoded() for name, tensor in found.items()}


def _takes_means(bias: Any) -> bool:
    """Whether a bias makes up for any mean: codes of 8 bits reach from the largest bias down by 42 dB alone."""
    return getattr(bias, "limits", (0, _MOST_OF_8_BITS + 1))[1] > _MOST_OF_8_BITS


def _error_of_codes(bias: Any, layer: LinearLayer) -> Values:
    """Returns what the nearest codes of a bias lack, ``[groups, m]``."""
    values = np.asarray(array_of_tensor(bias.values), np.float32)
    groups, outputs, _ = layer.matrix_shape
    error = values.astype(np.float64) - bias.with_nearest(values).decoded()
    return np.asarray(error.reshape(groups, outputs), np.float64)


def round_weights(context: AlgorithmContext, settings: WeightRoundingSettings) -> bool:
    """Chooses codes of weights by what their layers compute, and keeps them if the outputs on other samples gain.

    Args:
        context: A plan with codes.
        settings: How.

    Returns:
        Whether the plan has other codes.
    """
    layers = [layer for layer in _layers(context) if not settings.op_types or layer.op_type in settings.op_types]
    if not layers:
        context.notes.append(
            "weight rounding was left out: no layer has a float32 weight of its own with codes that it may choose"
        )
        return False
    if not context.has_real_samples:
        context.notes.append("weight rounding was left out: the samples are random")
        return False
    if context.scheme.rounding in DESCENDING:
        context.notes.append(f"rounding: {context.scheme.rounding!r} runs 'descent', which solves the same problem")
    fitting, apart = split_samples(context, settings.samples)
    both, policy = settings.from_float_input, context.scheme.policy
    models = context.simulate([name for layer in layers for name in (layer.weight, layer.bias) if name])
    rounding = _Rounding(context, settings)
    halves = both and settings.part_of_error is None

    weights = {layer.weight for layer in layers}

    def report(done: int) -> None:
        context.report(done, len(weights))

    # What a recurrent layer reads says nothing of its own weights, and what it gives is not few numbers.
    features = "" if layers[-1].steps else layers[-1].data
    with Judge(models.float_model, apart, Counted(features=features), models.float_folder) as judge:
        before = judge.noise(models.quantized, models.quantized_folder).ratios()
        reconstruct(models, layers, fitting, rounding.solve, both=both, halves=halves, report=report, policy=policy)
        gains = Gains(before, judge.noise(models.quantized, models.quantized_folder).ratios())
    if not gains.any() or gains.are_losses(policy):
        context.notes.append(f"weight rounding was undone, for it made the model no better: {gains}")
        return False
    context.replace_codes(rounding.changed)
    context.notes.append(f"weight rounding: codes of {counted(len(weights), 'layer')} chosen by their output; {gains}")
    return True


def _layers(context: AlgorithmContext) -> list[LinearLayer]:
    """Returns the layers whose weight has codes for layers alone: integers, or floats and blocks along its rows."""
    tensors = context.coded_weights()
    return [
        layer
        for layer in linear_layers(
            context.model,
            added=context.scheme.weights_only,
            shared=shared_weights(context.model),
            recurrent=True,
        )
        if layer.weight in tensors
        and (tensors[layer.weight].is_integer or _blocks(tensors[layer.weight], layer) is not None)
    ]


def settings_of(scheme: Scheme) -> WeightRoundingSettings:
    """Returns the settings that a scheme means whose rounding is not to nearest."""
    kind = SOLVERS[scheme.rounding]
    own = {each.name for each in fields(WeightRoundingSettings)}
    policy, alone = scheme.policy, scheme.weights_only
    narrow = alone and scheme.weight.format.bits < policy.rounding_narrow_bits
    rows = policy.rounding_narrow_rows if narrow else policy.rounding_rows
    usual = {"damping": policy.rounding_damping, "rows_wanted": rows, "samples": policy.rounding_samples}
    given = {**usual, **({"act_order": True} if alone and kind is GptqSolver else {}), **dict(scheme.rounding_options)}
    solver = kind(**{name: value for name, value in given.items() if name not in own})
    return WeightRoundingSettings(solver, **{name: value for name, value in given.items() if name in own})
