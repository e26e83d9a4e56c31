"""What to make of it all, in a few sentences, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from quarkfast.report.content import Content
from quarkfast.report.markup import Markup, decibels, element, join
from quarkfast.wording import counted

__all__ = ["JudgedOutput", "judged_on", "judged_outputs", "verdict_section"]

# Least ratios in dB and what they are called; noise of 3, 10 and 25 % of the signal's amplitude.
_WORDS = ((30.0, "stays close to the float model"), (20.0, "follows the float model with some noise"),
          (12.0, "differs noticeably from the float model"), (-math.inf, "has poor outputs"))  # fmt: skip

# Ratio below which a part of an output counts as lost: more noise than half of its amplitude.
_LOST = 6.0

# Ratio from which on nothing need be mended.
_GOOD = 20.0

_HINTS = (
    "dB tell how far noise lies below the signal: it has 10 % of its amplitude at 20 dB, 3 % at 30, 1 % at 40.",
    "Expected ratios come from calibration: even rounding and what is cut off; measured ones from two models.",
    "A tensor that stands out below its neighbours is where to look: exclude its node, or give it 16 bits.",
    "Select a node to see the histograms of its tensors, the range that codes keep, and the channels of its weight.",
)


class JudgedOutput(NamedTuple):
    """An output: its ratio in dB, None for no error at all, its worst channel and what its channels have, in words."""

    name: str
    ratio: float | None
    channel: tuple[int, float] | None = None
    channels: str = ""


def judged_outputs(content: Content) -> list[JudgedOutput]:
    """Returns the outputs, the worst first: over all samples that were compared, or else on the first one."""
    found = [
        JudgedOutput(each.tensor, each.sqnr, next(iter(each.worst_channels), None), each.channels_told)
        for each in content.compared
        if each.kind == "output" and each.sqnr is not None
    ]
    found = found or [JudgedOutput(name, ratio) for name, ratio in content.document.get("outputs") or ()]
    return sorted(found, key=lambda each: math.inf if each.ratio is None else each.ratio)


def judged_on(content: Content) -> str:
    """Returns on what the outputs are judged."""
    measured = content.samples and any(each.kind == "output" for each in content.compared)
    return f"over {counted(content.samples, 'sample')}" if measured else "on the first sample"


def verdict_section(content: Content) -> Markup:
    """Returns the verdict, what to do next, and how to read the page."""
    steps = element("ul", *(element("li", step) for step in _next_steps(content)))
    hints = join(element("p", hint) for hint in _HINTS)
    reading = element("details", element("summary", "How to read this"), hints)
    return join([element("p", " ".join(_verdict(content)), class_="verdict"), steps, reading])


def _verdict(content: Content) -> Iterator[str]:
    outputs, found = judged_outputs(content), content.document
    if not outputs:
        yield "Nobody has measured what the outputs lose: calibration samples do so."
    else:
        name, ratio, *_ = outputs[0]
        if ratio is None or ratio == math.inf:
            yield f"The quantized model gives the numbers of the float model {judged_on(content)}."
        else:
            words = next(words for least, words in _WORDS if ratio >= least)
            share = f"noise is {100 * 10 ** (-ratio / 20):.2g} % of the signal in {name!r}"
            yield f"The quantized model {words}: {share} ({decibels(ratio)} dB {judged_on(content)})."
    for each in _with_lost_channels(content):
        assert each.channel is not None
        channel, ratio = each.channel
        yield (
            f"Channel {channel} of {each.name!r} is lost ({decibels(ratio)} dB), though: what is small beside the rest "
            "of an output, as scores are beside boxes, hardly counts in that figure."
        )
    before, after = found.get("bytes_before"), found.get("bytes_after")
    if before and after:
        yield f"The file is {before / after:.2g} times smaller."
    latency = found.get("latency")
    if content.device:
        yield f"How fast {content.device} runs it cannot be measured here."
    elif latency:
        yield f"A run takes {latency['model_ms'] / latency['reference_ms']:.2g} of the float model's time here."


def _next_steps(content: Content) -> Iterator[str]:
    outputs, found = judged_outputs(content), content.document
    ratios = [each.ratio for each in outputs if each.ratio is not None]
    if _with_lost_channels(content):
        yield "Scores beside boxes: docs/guide/detection_heads.md says what keeps them."
    if ratios and min(ratios) < _GOOD:
        yield "Ask for more: --min-sqnr 25 gives what suffers more bits (docs/guide/accuracy_drops.md)."
    if found.get("preflight"):
        yield f"Look at what may keep the device from running it: {counted(len(found['preflight']), 'warning')} below."
    model, output = found.get("model", "FLOAT.onnx"), found.get("output", "QUANTIZED.onnx")
    yield f"Measure it on data that calibration has not seen: quarkfast evaluate {model} {output} --data PATH"


def _with_lost_channels(content: Content) -> list[JudgedOutput]:
    """Returns the outputs that are good as a whole and have lost a channel."""
    return [
        each
        for each in judged_outputs(content)
        if each.channel is not None and each.channel[1] < _LOST and (each.ratio is None or each.ratio >= _WORDS[2][0])
    ]
