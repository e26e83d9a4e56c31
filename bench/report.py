"""Turns the JSON of a benchmark run into the tables of docs/results/kernels.md: ``python -m bench.report run.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.race import RIVALS
from bench.workload import SIZES

PAGE = Path(__file__).parents[1] / "docs" / "results" / "kernels.md"
Record = dict[str, Any]


def rows(run: Record, kind: str) -> list[Record]:
    """What the benchmarks of one kind noted beside their times."""
    return [bench["extra_info"] for bench in run["benchmarks"] if bench["extra_info"].get("kind") == kind]


def table(header: list[str], lines: list[list[str]]) -> str:
    """A Markdown table, the first column aligned left and the others right."""
    rule = [":--", *["--:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *lines])


def machine(run: Record) -> str:
    """The conditions in one sentence."""
    facts = run["machine_info"]["quarkfast"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    absent = f"; not installed: {', '.join(facts['absent'])}" if facts["absent"] else ""
    return (
        f"{facts['cpu']}, {facts['cores']} cores, Python {facts['python']}, {facts['isa']}, {versions}{absent}. "
        f"Load average when the run began: {facts['load']}. Taken {run['datetime'][:10]}, "
        f"commit {(run['commit_info'].get('id') or 'unknown')[:9]}."
    )


def times(row: Record, name: str) -> tuple[float, float]:
    """Minimum and median seconds of a contestant."""
    return row["seconds"][name]["min"], row["seconds"][name]["median"]


def pair(values: tuple[float, float], digits: int = 2) -> str:
    """Of minima, and of medians in brackets."""
    return f"{values[0]:.{digits}f} ({values[1]:.{digits}f})"


def ratio(row: Record, above: str, below: str) -> tuple[float, float]:
    """Minima divided by minima, medians by medians."""
    up, down = times(row, above), times(row, below)
    return up[0] / down[0], up[1] / down[1]


def speed(row: Record) -> str:
    """Gigabytes a second, read and written."""
    return f"{row['bytes_moved'] / times(row, 'quarkfast')[0] / 1e9:.1f}"


def nearest(row: Record) -> str:
    """The fastest rival, and how many times as long it takes."""
    found = [(ratio(row, name, "quarkfast")[0], name) for name in RIVALS if name in row["seconds"]]
    return f"{min(found)[1]} {min(found)[0]:.1f}" if found else ""


def one_thread(run: Record) -> str:
    """The table of one thread: speed, and of arrays in memory the multiple of a plain copy and the nearest rival."""
    first, large = list(SIZES)[1:]  # of the smallest the call itself is most of the time
    # The same copy in every row: the quietest moment of all tells its time.
    copy = min((times(row, "copy")[0] for row in rows(run, "kernel") if row["size"] == large), default=0.0)
    tasks: dict[str, dict[str, Record]] = {}
    for row in rows(run, "kernel"):
        if row["threads"] == 1 and " uint" not in row["task"]:  # as fast as signed ones
            tasks.setdefault(row["task"], {})[row["size"]] = row
    lines = []
    for task, sizes in tasks.items():
        cells = [speed(sizes[size]) if size in sizes else "" for size in (first, large)]
        if large in sizes:
            cells += [f"{times(sizes[large], 'quarkfast')[0] / copy:.2f}", nearest(sizes[large])]
        lines.append([task, *cells, *[""] * (4 - len(cells))])
    return table(["task", f"GB/s: {first}", large, "of a copy", "nearest rival"], lines)


BUSY = (
    "Not measured: the machine was shared with other work (load average above its number of cores), and threads that\n"
    "wait for each other then measure only how often they are interrupted."
)


def quiet(run: Record) -> bool:
    """Whether there was a core for each thread when the run began."""
    facts = run["machine_info"]["quarkfast"]
    return bool(facts["load"] is not None and facts["load"] < facts["cores"])


def two_threads(run: Record) -> str:
    """Speed-up of the second thread: the least of all types of an operation."""
    least: dict[str, dict[str, float]] = {}
    for row in rows(run, "kernel"):
        if row["threads"] > 1:
            found = least.setdefault(row["task"].split()[0], {})
            gain = ratio(row, "quarkfast, 1 thread", "quarkfast")[0]
            found[row["size"]] = min(gain, found.get(row["size"], gain))
    sizes = [size for size in SIZES if any(size in found for found in least.values())]
    lines = [
        [name, *(f"{found[size]:.2f}" if size in found else "" for size in sizes)] for name, found in least.items()
    ]
    return table(["least of all types", *sizes], lines)


def cycles(run: Record) -> str:
    """Elements a cycle of each task on each instruction set, and of the limits."""
    found = {row["task"]: row["per_cycle"] for row in rows(run, "cycles")}
    limits = found.pop("limits", {})
    names = list(next(iter(found.values())))
    lines = [[label, f"{value:.2f}", *("" for _ in names[1:])] for label, value in limits.items()]
    lines += [[task, *(f"{value:.2f}" for value in values.values())] for task, values in found.items()]
    clock = max(row["clock"] for row in rows(run, "cycles")) / 1e9
    return f"Clock while running: {clock:.2f} GHz.\n\n" + table(["task", *names], lines)


def imports(run: Record) -> str:
    """Milliseconds of fresh interpreters, and how much of them the import takes."""
    row = rows(run, "import")[0]
    bare = times(row, "nothing")
    lines = []
    for name in row["seconds"]:
        low, middle = times(row, name)
        over = ((low - bare[0]) * 1e3, (middle - bare[1]) * 1e3)
        lines.append([name, pair((low * 1e3, middle * 1e3), 0), pair(over, 0)])
    return table(["import", "ms", "ms over a bare interpreter"], lines)


def sections(run: Record) -> dict[str, str]:
    """The tables that this run can fill, by the name of their place on the page."""
    threads = {row["threads"] for row in rows(run, "kernel")}
    found = {"one_thread": one_thread(run)} if 1 in threads else {}
    if any(number > 1 for number in threads):
        found["threads"] = two_threads(run) if quiet(run) else BUSY
    if rows(run, "cycles"):
        found["cycles"] = cycles(run)
    if rows(run, "import"):
        found["import"] = imports(run)
    if found:
        found["machine"] = machine(run)
    return found


def replace(page: str, name: str, text: str) -> str:
    """Put text between the marks of a place."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if begin not in page or end not in page:
        raise ValueError(f"kernels.md: expected the marks {begin.strip()} and {end}, got a page without them")
    head, rest = page.split(begin, 1)
    return head + begin + text + "\n" + end + rest.split(end, 1)[1]


def joined(runs: list[Record]) -> Record:
    """One run of all benchmarks; where several runs timed the same, each contestant's best run counts."""
    named: dict[str, Record] = {}
    for bench in (bench for run in runs for bench in run["benchmarks"]):
        known = named.setdefault(bench["fullname"], bench)
        seconds = known["extra_info"].get("seconds", {})
        for name, each in bench["extra_info"].get("seconds", {}).items():
            seconds[name] = min(each, seconds.get(name, each), key=lambda found: found["min"])
    return {**runs[0], "benchmarks": list(named.values())}


def main(arguments: list[str]) -> None:
    """Fill the page from the runs given."""
    run = joined([json.loads(Path(path).read_text(encoding="utf-8")) for path in arguments])
    for name, text in sections(run).items():
        PAGE.write_text(replace(PAGE.read_text(encoding="utf-8"), name, text), encoding="utf-8")
        print(f"{name}:\n{text}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
