"""The step that gives attention weights, the results of Softmax, more bits where 8 take too much from the outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

import onnx

from quarkfast import ort
from quarkfast.algorithms.activation_noise import activation_judge, may_judge_activations
from quarkfast.config.rules import Change, TensorRule
from quarkfast.errors import UnsupportedError
from quarkfast.evaluate.constant_trial import decibels
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.sample_noise import TriedForm
from quarkfast.formats import wider_integer
from quarkfast.graph.access import name_of
from quarkfast.graph.attention import nodes_of_attention
from quarkfast.graph.placement import Quantizer
from quarkfast.pipeline.context import Context
from quarkfast.pipeline.placing_anew import place_anew
from quarkfast.pipeline.simulate import simulate_activations
from quarkfast.quantization import Plan, needs_ranges
from quarkfast.quantization.scales import quantizer_for_range
from quarkfast.quantization.weight_precision import has_eight_bits
from quarkfast.ranges.decibels import ratio_of
from quarkfast.wording import counted, first_names

__all__ = ["may_raise_attention", "raise_attention"]


def may_raise_attention(context: Context) -> bool:
    """Whether activations have 8 bits and may have 16, samples tell, and the preset is no strict one."""
    scheme = context.scheme
    narrow = scheme.encoding == "qdq" and needs_ranges(scheme) and has_eight_bits(scheme.activation)
    return narrow and not scheme.strict and context.source.has_data and _wide(context) is not None


def raise_attention(context: Context) -> bool:
    """Gives what the Softmax of each attention makes 16 bits, if 8 bits of these alone leave the outputs below 25 dB.

    Where a row attends to hundreds of others most of its weights are below half of a 255th: they become zero, and
    what is left adds up to less than one. That is seen on the float model with nothing but these tensors rounded, as
    with weights (`quarkfast.quantization.weight_precision`). Nothing is done without real samples, and for a model
    whose activations on one sample or whose constants take too much memory.
    """
    names = _weights_of_attention(context)
    if not names or not may_judge_activations(context):
        return False
    noise = context.once("attention", (names, context.scheme.activation), lambda: _noise(context, names))
    if noise <= ratio_of(-context.scheme.policy.alone_sqnr):
        return False
    results = f"{counted(len(names), 'result')} of Softmax ({first_names(names)})"
    begin = f"attention: 8 bits of {results} leave the outputs {decibels(noise)} by themselves"
    wide = Change.of({"dtype": _wide(context)}, "activations")
    try:
        place_anew(context, [TensorRule(name, wide) for name in names])
    except UnsupportedError as error:
        context.notes.append(f"{begin}, and cannot be 16: {error}")
        return False
    context.notes.append(f"{begin}; with 16 now; strict=True keeps {context.scheme.name} as its name says")
    return True


def _wide(context: Context) -> str | None:
    """Returns the integers of 16 bits that activations may have, if the target takes them."""
    wide, taken = wider_integer(context.scheme.activation.dtype), context.target.activation_types
    return wide if not taken or wide in taken else None


def _weights_of_attention(context: Context) -> list[str]:
    """Returns the results of Softmax that have the scheme's own form."""
    own = {rule.tensor for rule in context.scheme.tensors}
    placement, found = context.placement, list[str]()
    attention = nodes_of_attention(context.model.graph)
    for node in context.model.graph:
        name = name_of(node.outputs[0])
        narrow = placement.activations.get(name) == name and placement.specs[name] == context.scheme.activation
        if node in attention and node.op_type == "Softmax" and narrow and name not in own:
            found.append(name)
    return found


def _noise(context: Context, names: Sequence[str]) -> float:
    """Returns the noise that rounding these tensors adds to the outputs, as a part of their power.

    Where that is too much for codes that reach to one, it is that for codes that reach as far as calibration will have
    it: to the largest number, where that is below a half.
    """
    noise = _noise_up_to(context, dict.fromkeys(names, 1.0))
    if noise <= ratio_of(-context.scheme.policy.alone_sqnr):
        return noise
    largest = _largest(context, names)
    ends = {name: 1.0 if 2 * each >= 1 else each for name, each in largest.items()}
    return noise if min(ends.values()) == 1 else _noise_up_to(context, ends)


def _noise_up_to(context: Context, ends: Mapping[str, float]) -> float:
    """Returns the noise with codes that reach from zero to an end of each tensor."""
    samples, policy = context.source.samples(context.model, context.scheme), context.scheme.policy
    with closing(activation_judge(context, [_rounded(context, ends)])) as judge:
        judge.see(samples.row())
        if judge.numbers < policy.alone_outputs:
            for feed in samples.rows(policy.alone_samples)[1:]:
                judge.see(feed)
        (noise,) = judge.noises()
    return float(noise.mean()) if noise.size else 0.0


def _largest(context: Context, names: Sequence[str]) -> dict[str, float]:
    """Returns the largest number of each tensor on the first sample."""
    model, folder = context.float_reference()
    del model.graph.output[:]
    for name in names:
        model.graph.node.append(onnx.helper.make_node("ReduceMax", [name], [f"{name}_largest"], keepdims=0))
        model.graph.output.append(onnx.ValueInfoProto(name=f"{name}_largest"))
    feed = context.source.samples(context.model, context.scheme).row()
    found = ort.run(exact_session(model, folder), feed)
    return {name: float(each) for name, each in zip(names, found, strict=True)}


def _rounded(context: Context, ends: Mapping[str, float]) -> TriedForm:
    """Returns the model with pairs behind tensors whose codes reach from zero to an end, and no others."""
    spec = context.scheme.activation
    quantizers: dict[str, Quantizer] = {name: quantizer_for_range(0.0, end, spec) for name, end in ends.items()}
    placement = replace(context.placement, activations={name: name for name in ends}, constants=(), biases=())
    (form,) = simulate_activations(context, [Plan(placement, quantizers, (), ())])
    return form
