"""The step that gives weights another form where the scheme's own takes too much from the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from quarkfast.calibration.data import Feed
from quarkfast.config import Scheme
from quarkfast.deferred import ir
from quarkfast.errors import ModelError, UnsupportedError
from quarkfast.evaluate.constant_trial import ConstantTrial, decibels
from quarkfast.evaluate.logits import judge_also, logits_of
from quarkfast.evaluate.ranked_outputs import judge_unranked
from quarkfast.graph.external import tensor_bytes
from quarkfast.graph.external_constants import proto_and_folder, with_constants_as_inputs
from quarkfast.pipeline.context import Context
from quarkfast.pipeline.placing_anew import place_anew
from quarkfast.quantization import needs_ranges
from quarkfast.quantization.weight_precision import (
    Choice,
    Effort,
    Form,
    WeightCandidate,
    choose_forms,
    forms_of,
    has_eight_bits,
    weights_of,
)
from quarkfast.targets import Target
from quarkfast.wording import first_names
from quarkfast.writers import lowest_opset

__all__ = [
    "choose_forms_if_run",
    "forms_taken",
    "may_raise_precision",
    "may_run_for_weights",
    "note_of",
    "raise_precision",
]


def may_raise_precision(context: Context) -> bool:
    """Whether weights have 8 bits and may have another form, and samples tell what these take."""
    scheme = context.scheme
    asked = scheme.encoding == "qdq" and needs_ranges(scheme) and not scheme.strict and context.source.has_data
    return asked and has_eight_bits(scheme.weight) and bool(forms_taken(scheme, context.target))


def raise_precision(context: Context) -> bool:
    """Gives weights that the scheme's own form cannot carry another one (`quarkfast.quantization.weight_precision`).

    Nothing is done without real samples, for a model whose activations on one sample or whose weights take too much
    memory, and for one that gives other outputs each time it runs.
    """
    feed, _ = context.source.sample_to_measure(context.model, context.scheme)
    weights = weights_of(context.model, context.placement, context.scheme)
    if feed is None or not weights or sum(each.values.nbytes for each in weights) > context.scheme.policy.tried_bytes:
        return False
    forms = forms_taken(context.scheme, context.target)
    asked = [(each.slot, each.axis) for each in weights], forms, context.effort
    choice = context.once("forms of weights", asked, lambda: _choose(context, weights, feed, forms, context.effort))
    if choice is None or not choice.is_wanted:
        return False
    return _take(context, choice, len(weights))


def may_run_for_weights(context: Context) -> bool:
    """Whether samples tell what weights take, of a model that is not too large to be run for that alone.

    Weights of fewer than 8 bits, which most outputs notice, are looked at where that is asked for.
    """
    scheme, asked = context.scheme, context.effort.most is not None
    small = tensor_bytes(context.model) <= scheme.policy.run_bytes
    return small and not scheme.strict and (asked or has_eight_bits(scheme.weight)) and context.source.has_data


def choose_forms_if_run(
    context: Context,
    weights: Sequence[WeightCandidate],
    forms: Sequence[Form],
    model: ir.Model | None = None,
    effort: Effort | None = None,
) -> Choice | None:
    """Returns which weights have another form; None where none needs it, and for a model that samples do not judge.

    Args:
        context: Where samples come from.
        weights: Those that may have it, the likeliest first.
        forms: What they may have, the cheapest first.
        model: What samples run through, with the constants of these; None for the context's own.
        effort: How far they are improved; None for the context's own.
    """
    feed, _ = context.source.sample_to_measure(context.model, context.scheme)
    if feed is None or not weights or sum(each.values.nbytes for each in weights) > context.scheme.policy.tried_bytes:
        return None
    effort = context.effort if effort is None else effort
    moving = [(each.name, *each.companions) for each in weights]  # biases that are moved along with codes
    try:
        choice = context.once(
            "forms of stored weights",
            (moving, context.scheme.weight, forms, effort),
            lambda: _choose(context, weights, feed, forms, effort, model),
        )
    except ModelError as error:  # of a model that is quantized without being run
        context.notes.append(f"samples were not run to judge weights: {error}")
        return None
    return choice if choice is not None and choice.is_wanted else None


def _choose(
    context: Context,
    weights: Sequence[WeightCandidate],
    feed: Feed,
    forms: Sequence[Form],
    effort: Effort,
    model: ir.Model | None = None,
) -> Choice | None:
    """Returns the forms by a few samples; None for a model that gives other outputs each time it runs.

    Those are as many as have numbers enough, the first alone where its outputs do.
    """
    values = {name: array for each in weights for name, array in {each.name: each.values, **each.companions}.items()}
    proto, folder = proto_and_folder(with_constants_as_inputs(context.model if model is None else model, values))
    if effort.logits:
        for logits in logits_of(judge_unranked(proto)).values():
            judge_also(proto, logits.tensor)
    trial = ConstantTrial(proto, folder, values, [feed])
    choice = None
    if trial.is_steady:
        policy = context.scheme.policy
        count = min(-(-policy.alone_outputs // trial.numbers), policy.alone_samples)
        if count > 1:
            others = context.source.samples(context.model, context.scheme).rows(count)[1:]
            trial.add_samples(others)
            count = 1 + len(others)
        noise = partial(trial.noise, of_worst=effort.of_worst)
        choice = replace(choose_forms(weights, noise, forms, effort), samples=count)
    trial.close()
    return choice


def forms_taken(scheme: Scheme, target: Target) -> list[Form]:
    """Returns the forms that a target takes, in an operator set that it takes and that has them."""
    newest, found = target.highest_opset, []
    for form in forms_of(scheme.weight):
        changed = replace(scheme, weight=form.change.apply(scheme.weight))
        if target.takes_weights(changed.weight) and (newest is None or lowest_opset(changed, target) <= newest):
            found.append(form)
    return found


def _take(context: Context, choice: Choice, count: int) -> bool:
    """Places the model with the forms chosen; returns whether there are any."""
    if choice.rules:
        try:
            place_anew(context, choice.rules)
        except UnsupportedError as error:
            context.notes.append(f"{_beginning(context, choice)}, and cannot have another: {error}")
            return False
    otherwise = f"{context.target.name} takes no other that would help"
    context.notes.append(note_of(context, choice, count, otherwise))
    return bool(choice.rules)


def note_of(context: Context, choice: Choice, count: int, otherwise: str) -> str:
    """Returns in words what weights take from the outputs, and which of `count` have another form.

    Args:
        context: Says what the scheme is called.
        choice: The forms.
        count: How many weights there are.
        otherwise: What there is to say where none has another form.
    """
    begin, name = _beginning(context, choice), context.scheme.name
    if not choice.names:
        return f"{begin}, and {otherwise}"
    found = [_counted(form, names, choice.shares[form]) for form, names in choice.names.items()]
    return (
        f"{begin}; of {count}, {' and '.join(found)}, with which they leave {decibels(choice.after)}; strict=True "
        f"keeps {name} as its name says"
    )


def _beginning(context: Context, choice: Choice) -> str:
    left, seen = decibels(choice.before), "sample" if choice.samples == 1 else f"{choice.samples} samples"
    where = f"{'worst of the ' if context.effort.of_worst and choice.samples > 1 else ''}first {seen}"
    they = "they and what they multiply" if context.scheme.encoding == "dynamic" else "they alone"
    return f"weights: in the form of {context.scheme.name} {they} leave the outputs {left} on the {where}"


def _counted(form: str, names: Sequence[str], share: float) -> str:
    verb = "have" if len(names) > 1 else "has"
    return f"{len(names)} ({first_names(names)}; {100 * share:.0f} % of their bytes) {verb} {form}"
