"""Writes the tables of docs/ that come from tables of the source: options in cli.md, range methods in calibration.md,
number formats in types.md, thresholds in policy.md, Quark's keys in quark_keys.md, kernels in kernels.md.

    python -m tools.docs_tables
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from quarkfast.config import GROUPS, OPTIONS, POLICY, Option, thresholds
from quarkfast.config.options.kinds import Kind
from quarkfast.config.quark.keys import GROUPS as KEY_GROUPS
from quarkfast.config.quark.keys import KEYS, Key, holds
from quarkfast.formats import Format, find, weight_formats
from quarkfast.ranges.registry import METHODS, PARAMETERS, RangeMethod
from quarkfast.writers.nodes import find_form
from tools import kernels_page

DOCS = Path(__file__).parents[1] / "docs"


def options_table() -> str:
    """Every option, by groups."""
    return "\n\n".join("\n".join(_group(group)) for group in GROUPS)


def _group(group: str) -> Iterator[str]:
    yield f"**{group}**\n"
    yield "| option | in Python | what, and Quark's key |"
    yield "|---|---|---|"
    for option in OPTIONS.values():
        if option.group == group:
            key = f" (`{option.quark_key}`)" if option.quark_key else ""
            values = "a flag" if option.kind.word is bool else option.kind.expects
            yield f"| {_spelling(option)} | {values} | {option.help.removesuffix('.')}{key} |"


def _spelling(option: Option) -> str:
    plain = f"--{option.name.replace('_', '-')}"
    if option.flags is not None:
        return ", ".join(f"`{flag}`" for flag in option.flags.split("/"))
    return f"`{plain}`, `--no-{plain[2:]}`" if option.kind.word is bool else f"`{plain}`"


def methods_table() -> str:
    """Every range method."""
    rows = [f"| `{row.name}` | {row.range} | {_parameters(row)} |" for row in METHODS.values()]
    return "\n".join(["| method | the range | parameters |", "|---|---|---|", *rows])


def _parameters(row: RangeMethod) -> str:
    return ", ".join(
        f"`{PARAMETERS[name].option or name}`{_default(PARAMETERS[name].default)}" for name in row.parameters
    )


def _default(value: object) -> str:
    if value is None:
        return ""
    return f" ({', '.join(map(str, value)) if isinstance(value, tuple) else value})"


def formats_table() -> str:
    """Every number format that something may be quantized to, those that differ in nothing but their names together."""
    names: dict[str, list[str]] = {}
    for name in weight_formats():
        names.setdefault(_format(find(name)), []).append(f"`{name}`")
    rows = [f"| {', '.join(alike)} | {row}" for row, alike in names.items()]
    return "\n".join(["| type | for | written as | oldest opset | scale |", "|---|---|---|---|---|", *rows])


def _format(row: Format) -> str:
    form = find_form(row.name, "qdq")
    if form.quantize == "Cast":
        operators = "Cast to the type and back, between Div and Mul by the scale"
    elif row.is_block:
        operators = f"Quark's {form.quantize}"
    elif form.domain:
        operators = f"Quark's {form.quantize}, {form.dequantize}{'; or Cast' if row.cast_opset else ''}"
    else:
        operators = f"{form.quantize}, {form.dequantize}"
    scale = "yes" if row.needs_scale else "with `activation_scaled`, `weight_scaled`" if row.may_be_scaled else "no"
    return f"{'both' if row.activation else 'weights'} | {operators} | {form.opset} | {scale} |"


def policy_table() -> str:
    """Every threshold of accuracy."""
    rows = [f"| `{row.name}` | {row.measure()} | {row.purpose} |" for row in thresholds(POLICY)]
    return "\n".join(["| threshold | value | what for |", "|---|---|---|", *rows])


def keys_table() -> str:
    """Every key of Quark's, by groups, and how many there are of each kind."""
    found = [holds(row) for row in KEYS.values()]
    honoured, anyway, noted, refused = (found.count(each) for each in ("honoured", "so anyway", "noted", "refused"))
    counted = (
        f"{len(found)} keys: for {honoured} some values change the result, {anyway} are so anyway whatever the value,\n"
        f"of {noted} a warning says that they have no effect, and {refused} are refused with any value but those that\n"
        "ask for nothing."
    )
    return "\n\n".join([counted, *("\n".join(_keys(group)) for group in KEY_GROUPS)])


def _keys(group: str) -> Iterator[str]:
    yield f"**{group}**\n"
    if group == "Options by another name":
        yield ", ".join(f"`{row.name}` ({row.why.removeprefix('option ')})" for row in KEY_GROUPS[group]) + "."
        return
    yield "| key | values that do something | values that ask for nothing (default bold) | what is done, or why not |"
    yield "|---|---|---|---|"
    names: dict[str, list[str]] = {}
    for row in KEY_GROUPS[group]:
        words = row.honoured.replace("|", "\\|") if holds(row) == "honoured" else f"none: {holds(row)}"
        names.setdefault(f"{words} | {_accepted(row)} | {row.why.removesuffix('.')}", []).append(f"`{row.name}`")
    for row, alike in names.items():
        yield f"| {', '.join(alike)} | {row} |"


#: Models of configuration on which Quark's defaults depend, in words.
_FAMILIES = {
    "cnn": "NPU CNN", "transformer": "NPU transformer", "dynamic": "dynamic", "block": "blocks", "float": "floats",
    "integer": "integers",
}  # fmt: skip


def _accepted(row: Key) -> str:
    """Returns the values of a key that ask for nothing, in words."""
    parts = [f"**{_values(row.default)}**"] if row.default else []
    parts += [_values(row.already)] if row.already != () else []
    families: dict[str, list[str]] = {}
    for family, values in row.families.items():
        families.setdefault(_values(values) or "none", []).append(_FAMILIES[family])
    parts += [f"{', '.join(names)}: {words}" for words, names in families.items()]
    return "; ".join(parts)


def _values(values: object) -> str:
    if isinstance(values, Kind):
        return values.expects
    return ", ".join(f"`{value!r}`" for value in values) if isinstance(values, tuple) else ""


#: Page -> what is written on it, by the name of the place.
PLACES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "cli.md": {"options": options_table},
    "calibration.md": {"methods": methods_table},
    "quark_keys.md": {"keys": keys_table},
    "policy.md": {"policy": policy_table},
    "types.md": {"formats": formats_table},
    "kernels.md": {"kernels": kernels_page.page},
}


def written(text: str, name: str, table: str) -> str:
    """Returns a page with `table` in the place called `name`, between two comments.

    Raises:
        ValueError: If the page has no such place.
    """
    begin, end = f"<!-- {name}: written by python -m tools.docs_tables -->\n", f"<!-- end of {name} -->"
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"page: expected {begin.strip()!r} and {end!r}, got neither or one")
    return f"{head}{begin}\n{table}\n\n{end}{tail}"


def main() -> None:
    """Writes every table into its page."""
    for page, places in PLACES.items():
        path = DOCS / page
        text = path.read_text(encoding="utf-8")
        for name, table in places.items():
            text = written(text, name, table())
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
