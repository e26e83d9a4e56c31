"""Every link of a page leads to a file and a heading that are there; those that lead outside are https."""

import re
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
# docs/conf.py writes this page from the docstrings.
GENERATED = {ROOT / "docs" / "python.md"}
NAMED = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
PAGES = [*NAMED, *sorted(set((ROOT / "docs").rglob("*.md")) - GENERATED)]
CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    return CODE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    seen: Counter[str] = Counter()
    found = set()
    for title in re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if "://" in target:
            parts = urlsplit(target)
            assert (parts.scheme, bool(parts.hostname)) == ("https", True), target
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if path in GENERATED:
            continue
        assert path.exists(), target
        assert path.is_relative_to(ROOT), target
        assert not anchor or anchor in anchors(path), target


def test_every_page_is_reached() -> None:
    """From the README, link by link, or from the contents of the site."""
    listed = re.findall(r"^[\w/]+$", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    reached, todo = set[Path](), [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in listed)]
    while todo:
        page = todo.pop()
        if page in reached or page.suffix != ".md" or page in GENERATED:
            continue
        reached.add(page)
        links = (target.partition("#")[0] for target in LINK.findall(prose(page)) if "://" not in target)
        todo += [(page.parent / name).resolve() for name in links if name]
    alone = {ROOT / "SECURITY.md", ROOT / "docs" / "index.md", *(ROOT / "docs" / "results").glob("*")}
    assert set(PAGES) - reached <= alone
