"""The page about a quantization, as text: well-formed, complete without scripts, safe with any name, small."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from quarkfast.evaluate.tensor_comparison import TensorComparison
from quarkfast.quantization.record_plan import Bins, Channels, NodeRecord, Records, TensorRecord
from quarkfast.report import Content, render_page
from quarkfast.report.details import ALPHABET, levels

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    '"><img src=x onerror=alert(3)>',
    "'&amp;\u2028\u2029]]>-->",
    "\x00\x1b[31m\ud800",
    "</style><title>",
]
VOID = {"meta", "br", "input", "col"}
LIMIT = 2_000_000


class Page(HTMLParser):
    """Reads a page and fails where elements do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert not self.open, f"expected every element to be closed, got {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"{tag}: an attribute stands twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def records(count: int, names: list[str] | None = None) -> Records:
    """As many convolutions in a row, each with all that is known of tensors."""
    rng, nodes, tensors = np.random.default_rng(7), [], {}
    for index in range(count):
        name = names[index % len(names)] if names else f"/model/layers.{index}/attention/Conv"
        weight, out = f"{name}.weight.{index}", f"{name}_output_{index}"
        low = rng.normal(size=64).astype(np.float32) - 3
        bins = Bins(-3.0, 0.1, rng.integers(0, 10_000, 64).astype(np.uint64))
        kept = {"scales": 1, "scale": 0.0123456, "zero_point": 0, "seen": (-3.14159, 3.3), "kept": (-1.5, 1.5)}
        shared = {"sqnr": 30 + rng.normal(), "clipped": 0.01, "bins": bins, **kept}
        channels = Channels(512, low, -low, -low)
        tensors[weight] = TensorRecord(weight, "weight", "int8", (512, 64, 3, 3), channels=channels, **shared)
        tensors[out] = TensorRecord(out, "activation", "int8", **shared)
        nodes.append(NodeRecord(name, "Conv", "quantized", "", (f"{name}_output_{index - 1}", weight), (out,)))
    nodes.append(NodeRecord(names[0] if names else "last", "Relu", "float", "it is excluded", (), ()))
    return Records(tuple(nodes), tensors)


def content(count: int = 3, names: list[str] | None = None, **more) -> Content:
    found = names or ["y"]
    document = {
        "model": f"folder/{found[0]}.onnx",
        "preset": "A8W8",
        "activation": "int8",
        "weight": "int8",
        "target": "ryzenai-a8w8",
        "bytes_before": 4000,
        "bytes_after": 1000,
        "samples": 8,
        "outputs": [(name, 11.5) for name in found],
        "notes": [f"a note about {name}" for name in found],
        "preflight": [f"the NPU and {name}" for name in found],
        "left_float": [{"name": name, "op_type": "Relu", "reason": "it is excluded"} for name in found],
        "seconds": {"load": 0.5, "insert": 1.5},
        "levers": [
            {"lever": found[0], "seconds": 1.0, "bytes": 1000, "sqnr": 20.0, "kept": True, "metric": None},
            {"lever": "wide", "seconds": 1.0, "bytes": 1500, "sqnr": None, "kept": False, "metric": None},
        ],
        "pareto_front": [found[0], "wide"],
    }
    facts = [("preset", "A8W8"), ("worst", ", ".join(map(repr, found)))]
    sizes = {"int8 codes": 700, "nodes, names and metadata": 300}
    return Content(document=document | more, facts=facts, records=records(count, names), sizes=sizes, version="0.1.0")


def test_the_page_is_well_formed():
    page = Page(render_page(content()))
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == len(page.all("main")) == len(page.all("body")) == 1


def test_every_picture_is_xml_with_a_title_and_a_description():
    text = render_page(content())
    pictures = re.findall(r"<svg .*?</svg>", text, re.DOTALL)
    assert len(pictures) >= 3
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        if root.get("aria-hidden") == "true":
            continue
        assert root.get("role") == "img"
        labels = {each.get("id"): each.text for each in root}
        assert all(labels[name] for name in root.get("aria-labelledby").split())


def test_the_tensors_that_cost_most_come_first_and_lead_to_their_nodes():
    found = content(40)
    text = render_page(found)
    section = re.search(r'<section id="error".*?</section>', text, re.DOTALL).group()
    listed = re.findall(r'<tr><th scope="row"><code>(.*?)</code>.*?class="n">(.*?)</td>.*?href="#n(\d+)"', section)
    known = {name: tensor.sqnr for name, tensor in found.records.tensors.items()}
    lowest = sorted(known, key=known.get)[:10]
    assert [name for name, _, _ in listed] == lowest
    assert [ratio for _, ratio, _ in listed] == [f"{known[name]:.1f}" for name in lowest]
    assert all(name.endswith(f"_{node}") or name.endswith(f".{node}") for name, _, node in listed)


def test_what_is_referred_to_is_in_the_page_once():
    page = Page(render_page(content()))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"].removeprefix("#") for attributes in page.all("a")]
    labels = [name for _, each in page.elements for name in (each.get("aria-labelledby") or "").split()]
    assert links
    assert labels
    assert {*links, *labels} <= set(ids)


def test_nothing_is_loaded_from_anywhere():
    text = render_page(content())
    page = Page(text)
    assert not [each for _, each in page.elements if each.keys() & {"src", "srcset", "action", "data", "style"}]
    assert not page.all("link")
    assert "url(" not in text
    assert "@import" not in text
    assert all(each["href"].startswith("#") for each in page.all("a"))


def test_tables_have_captions_and_heads_and_controls_have_labels():
    text = render_page(content())
    for table in re.findall(r"<table.*?</table>", text, re.DOTALL):
        assert re.match(r"<table[^>]*><caption>[^<]", table)
        assert '<th scope="col"' in table
        assert '<th scope="row"' in table
    assert len(re.findall(r"<label>[^<]+<(input|select)", text)) == len(re.findall(r"<(?:input|select) ", text)) == 3


def test_the_policy_allows_the_pages_own_script_and_style_alone():
    text = render_page(content())
    (policy,) = (each["content"] for each in Page(text).all("meta") if "http-equiv" in each)
    blocks = [re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in ("style", "script")]
    for (block,) in blocks:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text_whatever_they_hold(name):
    text = render_page(content(3, [name]))
    page, plain = Page(text), Page(render_page(content(3, ["plain"])))
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    assert not [each for _, each in page.elements if any(key.startswith("on") for key in each)]
    data = json.loads(page.texts["script"][0])
    assert data["tensors"][0]["n"] == f"{name}.weight.0"
    text.encode()  # no half of a pair of surrogates is left
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", text)


def test_summary_tables_and_layers_are_there_without_scripts():
    found = content(5)
    text = render_page(found)
    cells = {cell for texts in Page(text).texts.values() for cell in texts}
    for expected in ("A8W8", "a note about y", "int8 codes", "it is excluded", "4.00 times smaller", "11.5 dB"):
        assert expected in cells, expected
    assert {node.name for node in found.records.nodes} <= cells
    assert 'id="controls" hidden' in text


def test_what_the_runtime_made_of_it_is_told_with_layers_by_reason():
    layers = [{"name": name, "op_type": "Conv", "reason": "no kernel"} for name in ("first<", "second")]
    found = {
        "integer": {"QLinearConv": 3},
        "float_layers": layers,
        "runtime": "1.32.0",
        "may_saturate": ["a", "b"],
        "accuracy": {"output": "y", "exact": None, "default": 21.04},
        "saturated_sums": {"saturated": 7.5, "whole": 8.1, "layers": 2},
    }
    text = render_page(content(verification=found))
    section = re.search(r'<section id="verified".*?</section>', text, re.DOTALL).group()
    for expected in ("3 QLinearConv", "\u221e dB", "21.0 dB", "7.5 dB, 8.1 dB", "first&lt;", "2 names"):
        assert expected in section, expected
    assert section.count("no kernel") == 1
    plain = render_page(content(verification=found | {"float_layers": [], "accuracy": None, "saturated_sums": None}))
    assert "no kernel" not in plain


def test_nine_hundred_nodes_with_every_tensor_measured_take_less_than_two_megabytes():
    found = content(900)
    more = {"clipped": 0.001, "used": 0.9, "worst_channels": ((101, 12.5), (202, 13.5), (303, 14.5))}
    rows = [
        measured(name, "weight" if tensor.kind == "weight" else "activation", 20.5, 30.5, **more)
        for name, tensor in found.records.tensors.items()
    ]
    size = len(render_page(replace(found, compared=rows, samples=8)).encode())
    assert 200_000 < size < LIMIT


def test_a_model_without_anything_known_has_a_page():
    text = render_page(Content(document={}, facts=[]))
    assert Page(text).all("h1")
    assert "None" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


def measured(tensor, kind, sqnr, own, **more):
    return TensorComparison(tensor, kind, "" if kind == "output" else "int8", sqnr, own, **more)


def test_measured_ratios_get_a_line_and_a_column_and_lead_the_table():
    plain = content()
    names = [name for node in plain.records.nodes for name in node.outputs]
    inf = float("inf")
    more = {"clipped": 0.25, "used": 0.5, "worst_channels": ((3, 12.5), (4, inf))}
    rows = [
        measured(names[0], "activation", 33.25, 44.5, **more),
        measured(names[1], "activation", inf, None),
        measured(names[2], "weight", 3.0, 50.0),
        measured("elsewhere", "activation", None, 1.0),
    ]
    shown = {"compared": rows, "samples": 8, "not_compared": ("'folded': <away>",)}
    text = render_page(Content(document=plain.document, facts=plain.facts, records=plain.records, **shown))
    assert "measured dB" in text
    assert "measured dB" not in render_page(plain)
    (line,) = re.findall(r'<polyline points="([^"]*)" class="line whole">', text)
    assert len(line.split()) == 1  # neither what is infinite, nor weights, nor what stands nowhere
    section = re.search(r'<section id="error".*?</section>', text, re.DOTALL).group()
    lowest, all_of_them = section.split("All 4 tensors that were measured")
    assert re.findall(r"<code>(.*?)</code>", lowest) == [names[0], names[2]]
    assert re.findall(r"<code>(.*?)</code>", all_of_them) == [*names[:3], "elsewhere"]
    assert re.findall(r"<td[^>]*>(.*?)</td>", all_of_them)[:6] == [
        "int8", "44.5", "33.2", "25 %", "50 %", "3: 12.5 dB, 4: exact",
    ]  # fmt: skip
    assert "on 8 samples" in all_of_them
    assert "<away>" not in all_of_them
    assert "'folded': <away>" in html.unescape(all_of_them)
    tensors = {tensor["n"]: tensor for tensor in json.loads(Page(text).texts["script"][0])["tensors"]}
    found = tensors[names[0]]
    assert (found["m"], found["p"], found["g"], found["u"]) == (33.25, 44.5, 0.5, [[3, 12.5]])
    assert found["l"] == 0.25
    assert "m" not in tensors[names[1]]
    assert "\u221e" in text


def verdict_of(**more) -> str:
    text = render_page(content(**more))
    section = re.search(r'<section id="verdict".*?</section>', text, re.DOTALL).group()
    assert text.index(section) < text.index('class="tiles"'), "the verdict is not first"
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", section)).split())


def test_the_verdict_is_said_in_words_with_what_to_do_next():
    poor = verdict_of(outputs=[("y", 11.5)], output="q.onnx", latency=None)
    assert (
        "The quantized model has poor outputs: noise is 27 % of the signal in 'y' (11.5 dB on the first sample)" in poor
    )
    assert "4 times smaller" in poor
    assert "--min-sqnr 25" in poor
    assert "quarkfast evaluate folder/y.onnx q.onnx --data PATH" in poor
    assert "1 warning below" in poor
    good = verdict_of(outputs=[("y", 34.0)], preflight=[])
    assert "stays close to the float model" in good
    assert "--min-sqnr" not in good
    assert "warning" not in good
    assert "gives the numbers of the float model" in verdict_of(outputs=[("y", None)])
    assert "Nobody has measured" in verdict_of(outputs=[])


def test_the_head_figure_is_over_all_samples_and_names_a_channel_that_is_lost():
    row = measured("y", "output", 29.5, None, worst_channels=((4, -0.02), (0, 18.5)))
    text = render_page(replace(content(), compared=[row], samples=8, device="ryzenai-xint8"))
    assert "'y' over 8 samples" in html.unescape(text)
    assert "11.5" not in text
    assert "Channel 4 of 'y' is lost (-0.0 dB)" in html.unescape(text)
    assert "How fast ryzenai-xint8 runs it cannot be measured here." in text


def test_a_simulation_is_called_so():
    latency = {
        **{"reference_ms": 10.0, "model_ms": 20.0, "rows": 1, "runs": 25, "threads": 2},
        **{"processor": "A Chip", "runtime": "1.30.0"},
    }
    text = render_page(replace(content(latency=latency), device="ryzenai-xint8"))
    assert "a run, simulated here" in text
    assert "not the speed of ryzenai-xint8; A Chip" in text
    assert "times as fast" not in text


def test_what_rounding_takes_away_is_explained():
    gone = measured("y", "activation", 0.0, 0.0, used=0.0)
    assert gone.channels_told == "too small for its scale: nearly all values become one code"
    assert (
        measured("w", "weight", 30.0, 30.0, worst_channels=((6, 0.0), (2, 9.5))).channels_told == "6: all 0, 2: 9.5 dB"
    )


def test_what_is_as_good_as_exact_does_not_stretch_the_plot():
    plain = content()
    names = [name for node in plain.records.nodes for name in node.outputs]
    rows = [measured(names[0], "activation", 150.0, 168.6), measured(names[1], "activation", 20.0, 30.0)]
    text = render_page(Content(document=plain.document, facts=plain.facts, records=plain.records, compared=rows))
    (scales,) = re.findall(r'id="depth"[^>]*data-scales="([^"]*)"|data-scales="([^"]*)"[^>]*id="depth"', text)
    assert max(float(each) for each in "".join(scales).split()[4:6]) < 100
    assert "168.6" in text


def test_outputs_alone_leave_the_table_of_what_calibration_expects():
    plain = content()
    rows = [measured("y", "output", 20.0, None)]
    text = render_page(Content(document=plain.document, facts=plain.facts, records=plain.records, compared=rows))
    assert "costs most, as expected from calibration" in text
    assert "All 1 tensors" in text


def test_latency_is_told_with_the_processor_and_the_session():
    latency = {
        **{"reference_ms": 12.34, "model_ms": 6.17, "rows": 1, "runs": 25, "threads": 2},
        **{"processor": "A <Chip>", "runtime": "1.30.0"},
    }
    text = render_page(content(latency=latency)).replace("\u00a0", " ")
    assert "12.3 ms \u2192 6.17 ms" in text
    assert "2.00 times as fast; A &lt;Chip&gt;" in text
    section = re.search(r'<section id="latency".*?</section>', text, re.DOTALL).group()
    assert all(each in section for each in ("12.3 ms", "6.17 ms", "ONNX Runtime 1.30.0, default session, 2 threads"))
    assert 'id="latency"' not in render_page(content())


def test_heights_are_read_by_the_script_as_they_are_written():
    script = re.search(r'const ALPHABET = "(.*)";', render_page(content())).group(1)
    assert script == ALPHABET
    assert len(set(ALPHABET)) == 64
    assert levels([-1.0, 0.0, 5.0], 0.0, 2.0) == "00_"
    assert levels([1.0, 1.0], 1.0, 1.0) == "00"


def _luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_marks_stand_out_as_wcag_aa_asks_in_light_and_dark():
    style = re.search(r"<style>(.*?)</style>", render_page(content()), re.DOTALL).group(1)
    themes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    ]
    assert len(themes) == 2
    for theme in themes:
        for ground in ("paper", "panel"):
            for text in ("ink", "soft", "blue"):
                assert _contrast(theme[text], theme[ground]) >= 4.5, (text, ground)
            for mark in ("red", "green", "violet", "amber", "teal"):
                assert _contrast(theme[mark], theme[ground]) >= 3.0, (mark, ground)
