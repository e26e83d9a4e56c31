"""HTML as text: everything that goes in is escaped, since names of tensors may hold anything."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence

from quarkfast.errors import printable

__all__ = ["Markup", "decibels", "element", "join", "milliseconds", "number", "percent", "size", "table"]

_VOID = frozenset({"meta", "br", "col", "input"})

# All but line ends and spaces that do not break, of which the page's own texts make use.
_SHOWN = re.compile("[^\n\u00a0]+")


class Markup(str):
    """Text that is HTML already; any other text is escaped where it is put into an element."""

    __slots__ = ()


def escape(text: object) -> Markup:
    """Returns `text` for an element or an attribute; what is markup stays, what is not printable is escaped.

    Example:
        >>> escape("<b> & 'c'"), escape(Markup("<b>"))
        ('&lt;b&gt; &amp; &#x27;c&#x27;', '<b>')
    """
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(_SHOWN.sub(lambda found: printable(found[0]), str(text))))


def join(parts: Iterable[object], between: str = "") -> Markup:
    """Returns all parts behind each other, each escaped unless it is markup."""
    return Markup(between.join(escape(part) for part in parts))


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """Returns an element.

    Args:
        tag: Its name.
        children: Texts, which are escaped, and markup; None stands for nothing.
        attributes: By name, with an underscore for each hyphen and one at the end of Python's own words. None and
            False leave one out, True has no value.

    Example:
        >>> element("td", "a < b", class_="name", hidden=True, colspan=None)
        '<td class="name" hidden>a &lt; b</td>'
    """
    found = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        spelled = name.rstrip("_").replace("_", "-")
        found.append(f" {spelled}" if value is True else f' {spelled}="{escape(value)}"')
    start = f"<{tag}{''.join(found)}>"
    return Markup(start if tag in _VOID else f"{start}{join(each for each in children if each is not None)}</{tag}>")


def table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Sequence[int] = ()
) -> Markup:
    """Returns a table whose first column heads its rows.

    Args:
        caption: What it shows.
        heads: Titles of the columns.
        rows: Cells, as many as heads.
        numbers: Indices of the columns that hold numbers.
    """
    kind = ["n" if index in numbers else None for index in range(len(heads))]
    head = join(element("th", text, scope="col", class_=kind[index]) for index, text in enumerate(heads))
    body = join(
        element(
            "tr",
            element("th", first, scope="row"),
            join(element("td", cell, class_=kind[index]) for index, cell in enumerate(rest, 1)),
        )
        for first, *rest in rows
    )
    made = element("table", element("caption", caption), element("thead", element("tr", head)), element("tbody", body))
    return element("div", made, class_="scroll", tabindex=0, role="region", aria_label=caption)


def number(value: float | None) -> str:
    """Returns a number in four digits, a dash for none.

    Example:
        >>> number(0.000012345), number(1234.5), number(-0.5), number(None)
        ('1.234e-05', '1234', '-0.5', '\u2013')
    """
    return "\u2013" if value is None or math.isnan(value) else f"{value:.4g}"


def decibels(value: float | None) -> str:
    """Returns a ratio with one digit behind the point.

    Example:
        >>> decibels(24.06), decibels(float("inf")), decibels(None)
        ('24.1', '\u221e', '\u2013')
    """
    if value is None or math.isnan(value):
        return "\u2013"
    return f"{value:.1f}" if math.isfinite(value) else "\u221e" if value > 0 else "\u2212\u221e"


def percent(share: float | None) -> str:
    """Returns a share of 0 to 1 in percent; what is more than nothing never reads as nothing.

    Example:
        >>> percent(0.1234), percent(1e-6), percent(0.0)
        ('12.3 %', '< 0.01 %', '0 %')
    """
    if share is None or math.isnan(share):
        return "\u2013"
    if 0 < share < 1e-4:
        return "< 0.01 %"
    return f"{100 * share:.3g} %"


def milliseconds(value: float) -> str:
    """Returns a time in three digits.

    Example:
        >>> [milliseconds(value).replace("\N{NO-BREAK SPACE}", " ") for value in (0.1234, 12.34, 1234.5)]
        ['0.123 ms', '12.3 ms', '1,234 ms']
    """
    return f"{value:.3g}\u00a0ms" if value < 1000 else f"{value:,.0f}\u00a0ms"


def size(count: float) -> str:
    """Returns bytes for a person, with a space that does not break.

    Example:
        >>> [size(count).replace("\N{NO-BREAK SPACE}", " ") for count in (198128, 12, 2.5e9)]
        ['198 kB', '12 B', '2.5 GB']
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g}\u00a0{unit}" if count < 100 * factor else f"{count / factor:,.0f}\u00a0{unit}"
    return f"{count:.0f}\u00a0B"
