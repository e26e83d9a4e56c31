"""Tables of a page of results: cases down, tools across. What was measured anew replaces its cells, the others stay."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Table:
    """What one model scores.

    Attributes:
        subject: Name of the model; the heading begins with it.
        heading: The rest of the heading.
        tools: The columns.
        rows: Case -> tool -> cell.
    """

    subject: str
    heading: str
    tools: list[str]
    rows: dict[str, dict[str, str]] = field(default_factory=dict)

    def __str__(self) -> str:
        """Returns the heading and the table in Markdown."""
        head = [f"## {self.subject}, {self.heading}", "", f"| case | {' | '.join(self.tools)} |"]
        cells = [[case, *(found.get(tool, "") for tool in self.tools)] for case, found in self.rows.items()]
        return "\n".join([*head, f"| :-- |{' --: |' * len(self.tools)}", *(f"| {' | '.join(row)} |" for row in cells)])

    def over(self, former: Table, order: list[str]) -> Table:
        """Returns `former` with the cells of this table in place of its own; rows that are new stand as in `order`."""
        tools = [*former.tools, *(tool for tool in self.tools if tool not in former.tools)]
        cases = sorted(former.rows.keys() | self.rows.keys(), key=order.index)
        rows = {case: former.rows.get(case, {}) | self.rows.get(case, {}) for case in cases}
        return Table(self.subject, self.heading, tools, rows)


def read_table(section: list[str], subject: str) -> Table:
    """Returns the table below a heading, from lines that begin with the table's first."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section]
    tools = cells[0][1:]
    return Table(subject, "", tools, {case: dict(zip(tools, found, strict=True)) for case, *found in cells[2:]})


def put(page: str, table: Table, order: list[str]) -> str:
    """Returns a page with `table` put over the one below the heading of its model.

    Args:
        page: Markdown.
        table: What was measured.
        order: All cases in the order of rows.

    Raises:
        ValueError: The page has no heading of the model.
    """
    lines = page.split("\n")
    prefix = f"## {table.subject},"
    heading = next((index for index, line in enumerate(lines) if line.startswith(prefix)), None)
    if heading is None:
        raise ValueError(f"page: expected a heading that begins with {prefix!r}, got none")
    start = heading + 2
    end = next((index for index in range(start, len(lines)) if not lines[index].startswith("|")), len(lines))
    former = read_table(lines[start:end], table.subject)
    return "\n".join([*lines[:heading], *str(table.over(former, order)).split("\n"), *lines[end:]])
