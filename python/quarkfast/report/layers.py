"""The table of layers, and that of what stayed float: whole without scripts, sorted and filtered with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from quarkfast.evaluate.tensor_comparison import TensorComparison
from quarkfast.quantization.record_plan import NodeRecord, Records, TensorRecord
from quarkfast.report.content import Content
from quarkfast.report.markup import Markup, decibels, element, join, percent

__all__ = ["float_table", "layer_section", "state_counts"]

_STATES = {"quantized": "quantized", "float": "float", "other": "no floats"}


class _Column(NamedTuple):
    """A column: its title, what it means, whether a telephone has room for it, and whether it holds numbers."""

    title: str
    meaning: str
    wide: bool = True
    number: bool = False


_PLACE = _Column("#", "place in the order in which nodes run", True, True)
_NAME = _Column("node", "name of the node", False)
_OPERATOR = _Column("operator", "type of the operator", False)
_STATE = _Column("state", "quantized, or left float")
_WEIGHT = _Column("weight", "type of the codes of its constants")
_OUTPUT = _Column("output", "type of the codes of its results")
_WEIGHT_DB = _Column("weight dB", "expected signal to noise of the constants' own rounding", True, True)
_OUTPUT_DB = _Column("output dB", "expected signal to noise of the results' own rounding", True, True)
_MEASURED_DB = _Column("measured dB", "signal to noise of the results as it accumulates", False, True)
_CLIPPED = _Column("clipped", "share of the results' values in calibration that are cut off", True, True)


def state_counts(records: Records) -> Counter[str]:
    """Returns how many nodes are quantized, float, or compute on no floats."""
    return Counter(node.state for node in records.nodes)


def layer_section(content: Content) -> Markup:
    """Returns the controls, hidden without scripts, and the table of all nodes."""
    records, measured = content.records, {row.tensor: row for row in content.compared}
    columns = [_PLACE, _NAME, _OPERATOR, _STATE, _WEIGHT, _OUTPUT, _WEIGHT_DB, _OUTPUT_DB]
    columns += [*([_MEASURED_DB] if measured else []), _CLIPPED]
    if not measured:  # then a telephone has room for what is expected
        columns = [each._replace(wide=False) if each is _OUTPUT_DB else each for each in columns]
    head = join(element("th", each.title, scope="col", title=each.meaning, class_=_class_of(each)) for each in columns)
    classes = [_class_of(each) for each in columns]
    body = join(
        _row(index, _cells(index, node, records, measured), classes) for index, node in enumerate(records.nodes)
    )
    caption = element("caption", f"{len(records.nodes)} nodes, in the order in which they run")
    made = element("table", caption, element("thead", element("tr", head)), element("tbody", body), id="layers")
    frame = element("div", made, class_="scroll", tabindex=0, role="region", aria_label="Layers")
    return join([_controls(records), frame])


def _class_of(column: _Column) -> str | None:
    return " ".join(name for name, has in (("n", column.number), ("wide", column.wide)) if has) or None


def _row(place: int, cells: Sequence[str], classes: Sequence[str | None]) -> Markup:
    return element(
        "tr",
        *(
            element("th", cell, scope="row") if index == 1 else element("td", cell, class_=classes[index])
            for index, cell in enumerate(cells)
        ),
        id=f"n{place}",
    )


def _cells(index: int, node: NodeRecord, records: Records, measured: Mapping[str, TensorComparison]) -> list[str]:
    constants = [each for each in _known(node.inputs, records) if each.kind in ("weight", "constant")]
    results = _known(node.outputs, records)
    found = [ratio for name in node.outputs if name in measured and (ratio := measured[name].sqnr) is not None]
    clipped = [each.clipped for each in results if each.clipped is not None]
    return [
        str(index),
        node.name or "(no name)",
        node.op_type,
        _STATES[node.state],
        _types(constants),
        _types(results),
        decibels(_least(constants)),
        decibels(_least(results)),
        *([decibels(min(found, default=None))] if measured else []),
        percent(max(clipped, default=None)),
    ]


def _known(names: Iterable[str], records: Records) -> list[TensorRecord]:
    return [records.tensors[name] for name in names if name in records.tensors]


def _types(tensors: Sequence[TensorRecord]) -> str:
    return ", ".join(dict.fromkeys(each.dtype for each in tensors)) or "\u2013"


def _least(tensors: Sequence[TensorRecord]) -> float | None:
    return min((each.sqnr for each in tensors if each.sqnr is not None), default=None)


def _controls(records: Records) -> Markup:
    """Returns the filter; the script shows it."""
    states = [("", "all states"), *((state, text) for state, text in _STATES.items() if state_counts(records)[state])]
    types = sorted(Counter(node.op_type for node in records.nodes).items())
    operators = [("", "all operators"), *((op_type, f"{op_type} ({count})") for op_type, count in types)]
    return element(
        "form",
        element("label", "Find ", element("input", type="search", id="find", autocomplete="off", spellcheck="false")),
        element("label", "State ", _choice("state", [(_STATES.get(key, ""), text) for key, text in states])),
        element("label", "Operator ", _choice("operator", operators)),
        element("p", id="shown", role="status"),
        id="controls",
        hidden=True,
    )


def _choice(name: str, options: Sequence[tuple[str, str]]) -> Markup:
    return element("select", *(element("option", text, value=value) for value, text in options), id=name)


def float_table(left: Sequence[Mapping[str, Any]], title: str) -> Markup:
    """Returns the nodes that stay float by type and reason, the names of each in a list that opens."""
    names: dict[tuple[str, str], list[str]] = {}
    for node in left:
        names.setdefault((node["op_type"], node["reason"]), []).append(node["name"])
    if not names:
        return element("p", "Nothing that computes on floats was left alone.")
    rows = [
        element(
            "tr",
            element("th", op_type, scope="row"),
            element("td", str(len(found)), class_="n"),
            element("td", reason, _names(found)),
        )
        for (op_type, reason), found in sorted(names.items(), key=lambda each: -len(each[1]))
    ]
    head = element(
        "tr",
        element("th", "operator", scope="col"),
        element("th", "nodes", scope="col", class_="n"),
        element("th", "why, and which", scope="col"),
    )
    caption = element("caption", title)
    made = element("table", caption, element("thead", head), element("tbody", *rows))
    return element("div", made, class_="scroll", tabindex=0, role="region", aria_label=title)


def _names(names: Sequence[str]) -> Markup:
    if len(names) == 1:
        return element("p", element("code", names[0]))
    items = element("ul", *(element("li", element("code", name)) for name in names))
    return element("details", element("summary", f"{len(names)} names"), items)
