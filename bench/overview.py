"""The overview of docs/accuracy.md, from the tables of docs/results: ``python -m bench.overview``."""

from __future__ import annotations

from pathlib import Path

from bench.tables import read_table

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "accuracy.md"
SOURCES = ("peers.md", "wild.md")
MODELS = {
    "resnet20_cifar10": "ResNet-20",
    "mobilenetv2_cifar10": "MobileNetV2",
    "minilm": "MiniLM",
    "superres": "super-resolution",
    "ppocr_cls": "orientation",
    "ppocr_rec": "text recognizer",
    "text_yolox": "text detector",
}
CASES = (
    "A8W8",
    "XINT8",
    "A16W8",
    "U8S8",
    "DYNAMIC",
    "BF16",
    "BFP16",
    "MX9",
    "INT8_WO",
    "INT4_WO",
)
BEGIN, END = "<!-- overview -->", "<!-- /overview -->"


def overview() -> str:
    """Returns the table: our cells of some models and cases."""
    columns = {}
    for source in SOURCES:
        lines = (DOCS / "results" / source).read_text(encoding="utf-8").splitlines()
        for index, line in enumerate(lines):
            model = line.removeprefix("## ").partition(",")[0]
            if line.startswith("## ") and model in MODELS:
                end = next(
                    at for at in range(index + 2, len(lines) + 1) if lines[at : at + 1] == [""] or at == len(lines)
                )
                columns[model] = line.rpartition(" ")[2], read_table(lines[index + 2 : end], model).rows
    heads = [MODELS[model] for model in MODELS]
    floats = [first if first[0].isdigit() else "" for first, _ in (columns[model] for model in MODELS)]
    rows = [["float", *floats]]
    for case in CASES:
        rows.append([case, *(columns[model][1].get(case, {}).get("quarkfast", "") for model in MODELS)])
    table = [["preset", *heads], [":--", *["--:"] * len(heads)], *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in table)


def with_overview(page: str) -> str:
    """Returns the page with the table of today between its marks.

    Raises:
        ValueError: The page lacks the marks.
    """
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"page: expected the marks {BEGIN} and {END}, got a page without them")
    return f"{before}{BEGIN}\n{overview()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_overview(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
