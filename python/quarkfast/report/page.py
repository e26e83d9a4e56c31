"""The page as a whole: head, key figures, sections, and the data of what is drawn later."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from quarkfast.report.compared import compared_tables, lowest_table
from quarkfast.report.content import Content
from quarkfast.report.details import details_json
from quarkfast.report.figures import (
    bar,
    bytes_figure,
    depth_figure,
    depth_series,
    seconds_figure,
    tried_figure,
)
from quarkfast.report.layers import float_table, layer_section, state_counts
from quarkfast.report.markup import Markup, decibels, element, join, milliseconds, size, table
from quarkfast.report.verdict import judged_on, judged_outputs, verdict_section
from quarkfast.report.verified import latency_section, verified_section

__all__ = ["framed", "render_page"]

# Ratio in dB at which the bar of an output is full: that of 10 bits.
_FULL = 60.0

# Notes that are shown at once.
_NOTES = 6

# Rows of the summary that have sections of their own.
_ELSEWHERE = frozenset({"left float", "lever", "NPU", "note", "measured SQNR", "seconds"})


def render_page(content: Content) -> str:
    """Returns a page that needs nothing else: no network, and scripts only to sort, to filter and to draw tensors.

    The same content gives the same page. Its content security policy lets no script run but its own, whatever the
    names of tensors hold.

    Example:
        >>> page = render_page(Content(document={"preset": "A8W8"}, facts=[("preset", "<A8W8>")]))
        >>> page[:15], "&lt;A8W8&gt;" in page
        ('<!doctype html>', True)
    """
    verdict = _section("verdict", "Verdict", verdict_section(content))
    sections = [each for each in _sections(content) if each is not None]
    title, data = _title(content.document), Markup(details_json(content))
    return framed(title, _subtitle(content), join([verdict, _figures(content)]), sections, data, content.version)


def framed(
    title: str, subtitle: str, first: Markup, sections: Sequence[tuple[str, str, Markup]], data: Markup, version: str
) -> str:
    """Returns a page with style and script in it.

    Args:
        title: Its head.
        subtitle: A line below it.
        first: What stands before the sections.
        sections: Name, title and contents of each.
        data: JSON of what is drawn later.
        version: Version of quarkfast.
    """
    style, script = _part("report.css"), _part("report.js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{title} \u2013 quarkfast"),
        element("style", Markup(style)),
    )
    links = [element("li", element("a", text, href=f"#{name}")) for name, text, _ in sections]
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        element("header", element("h1", title), element("p", subtitle)),
        element("nav", element("ul", *links), aria_label="Sections"),
        element("main", first, *(_section(*each) for each in sections), id="content"),
        element("footer", element("p", f"Written by quarkfast {version}. Nothing was loaded from a network.")),
        element("script", data, type="application/json", id="data"),
        element("script", Markup(script)),
    )
    return "<!doctype html>\n" + element("html", head, body, lang="en") + "\n"


def _part(name: str) -> str:
    return resources.files("quarkfast.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _title(document: Mapping[str, Any]) -> str:
    name = str(document.get("model") or document.get("output") or "a model").replace("\\", "/").rpartition("/")[2]
    return f"{name} in {document.get('preset', 'other types')}"


def _subtitle(content: Content) -> str:
    found = content.document
    types = f"activations {found.get('activation', 'as they were')}, weights {found.get('weight', 'as they were')}"
    return f"What quantization did: {types}, placed for {found.get('target', 'no target')}."


def _section(name: str, title: str, inside: Markup) -> Markup:
    return element("section", element("h2", title, id=f"{name}-head"), inside, id=name, aria_labelledby=f"{name}-head")


def _sections(content: Content) -> list[tuple[str, str, Markup] | None]:
    """Returns name, title and contents of each section, None for those of which nothing is known."""
    found = content.document
    notes = _notes(found.get("notes", ()), found.get("preflight", ()))
    facts = [row for row in content.facts if row[0] not in _ELSEWHERE]
    series = depth_series(content.records, content.compared)
    depth = _joined(
        depth_figure(series),
        lowest_table(content.records, content.compared),
        compared_tables(content.compared, content.samples, content.not_compared),
    )
    tried, seconds = tried_figure(found), seconds_figure(found.get("seconds", {}))
    space = bytes_figure(found.get("bytes_before", 0), found.get("bytes_after", 0), content.sizes)
    layers = layer_section(content) if content.records.nodes else None
    made: list[tuple[str, str, Markup | None]] = [
        ("summary", "Summary", table("What was done", ("what", "result"), facts)),
        ("notes", "Warnings and notes", notes),
        ("outputs", "Outputs", _outputs(content)),
        ("error", "Error along the network", depth),
        ("space", "Where the bytes are", space if found.get("bytes_after") else None),
        ("tries", "What was tried", tried),
        ("latency", "How long a run takes", latency_section(found.get("latency"), content.device)),
        ("verified", "On this processor", verified_section(found.get("verification"))),
        ("layer-table", "Layers and tensors", layers),
        (
            "float",
            "What stayed float, and why",
            float_table(found.get("left_float", ()), "Nodes that compute on floats"),
        ),
        ("time", "Where the time went", seconds),
        ("made", "How it was made", _made(content.made)),
    ]
    return [(name, title, inside) if inside is not None else None for name, title, inside in made]


def _joined(*parts: Markup | None) -> Markup | None:
    found = [part for part in parts if part is not None]
    return join(found) if found else None


def _made(made: Mapping[str, str]) -> Markup | None:
    """Returns texts that open: they are long, and for whoever wants to do the same again."""
    parts = [
        element("details", element("summary", name), element("pre", element("code", text)))
        for name, text in made.items()
    ]
    return _joined(*parts)


def _figures(content: Content) -> Markup:
    """Returns the few numbers that everybody wants first."""
    found, tiles = content.document, list[tuple[str, str, str]]()
    before, after = found.get("bytes_before"), found.get("bytes_after")
    if before and after:
        tiles.append(("size", f"{size(before)} \u2192 {size(after)}", f"{before / after:.2f} times smaller"))
    if outputs := judged_outputs(content):
        tiles.append(("worst output", f"{_ratio(outputs[0].ratio)} dB", f"{outputs[0].name!r} {judged_on(content)}"))
    latency = found.get("latency")
    if latency:
        reference, quantized = latency["reference_ms"], latency["model_ms"]
        said = f"{reference / quantized:.2f} times as fast; {latency['processor']}"
        if content.device:
            said = f"not the speed of {content.device}; {latency['processor']}"
        title = "a run, simulated here" if content.device else "a run here"
        tiles.append((title, f"{milliseconds(reference)} \u2192 {milliseconds(quantized)}", said))
    counts = state_counts(content.records)
    if content.records.nodes:
        whole = counts["quantized"] + counts["float"]
        tiles.append(("nodes quantized", f"{counts['quantized']} of {whole}", f"{counts['float']} stay float"))
    if found.get("samples"):
        tiles.append(("calibrated on", f"{found['samples']} samples", _tensors(content)))
    seconds = found.get("total_seconds", sum(found.get("seconds", {}).values()))
    if seconds:
        tiles.append(("took", f"{seconds:.1f} s", "from the float model to the file"))
    items = (
        element("div", element("dt", name), element("dd", element("b", value), element("small", more)))
        for name, value, more in tiles
    )
    return element("dl", *items, class_="tiles")


def _tensors(content: Content) -> str:
    count = sum(each.kind == "activation" for each in content.records.tensors.values())
    return f"{count} activations, {content.document.get('weights', 0)} weights"


def _ratio(value: float | None) -> str:
    return decibels(float("inf") if value is None else value)


def _notes(notes: Sequence[str], preflight: Sequence[str]) -> Markup | None:
    items = [
        *(element("li", element("strong", "NPU: "), text) for text in preflight),
        *(element("li", text) for text in notes),
    ]
    if not items:
        return None
    rest = element("ul", *items[_NOTES:])
    more = element("details", element("summary", f"{len(items) - _NOTES} more"), rest) if len(items) > _NOTES else None
    return element("div", element("ul", *items[:_NOTES]), more, class_="notes")


def _outputs(content: Content) -> Markup | None:
    """Returns what the outputs have, and their worst channels where these were compared."""
    outputs = judged_outputs(content)
    if not outputs:
        return None
    channels = any(each.channels for each in outputs)
    rows = [
        (
            element("code", name),
            _ratio(ratio),
            bar(min(max(_FULL if ratio is None else ratio, 0.0) / _FULL, 1.0)),
            *([told or "\u2013"] if channels else []),
        )
        for name, ratio, _, told in outputs
    ]
    heads = ("output", "dB", "bar", *(["worst channels"] if channels else []))
    caption = f"Signal to quantization noise in dB, {judged_on(content)} with exact sums; the bar ends at {_FULL:.0f}"
    return table(caption, heads, rows, numbers=(1,))
