"""Takes the picture of a report that docs/report.md shows: the demo's model in Chromium.

python -m tools.report_picture
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import quarkfast
from quarkfast.demo.data import MODEL, load_images
from tools.browser import Browser, find_browser

PICTURE = Path(__file__).parents[1] / "docs" / "report.png"


def main() -> None:
    """Quantizes the demo's model, writes its page and takes the picture."""
    program = find_browser()
    if program is None:
        raise SystemExit("expected Chromium, got none; QUARKFAST_BROWSER names one")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        samples = load_images().calibration
        result = quarkfast.quantize(MODEL, None, "A8W8", samples, histograms=True)
        page = result.write_report(Path(folder, "report.html"), more={"model": MODEL.name})
        with Browser(program, Path(folder, "profile")) as browser:
            browser.open(page, width=1000, height=960)
            browser.evaluate("document.querySelectorAll('#notes, nav').forEach(each => each.remove())")
            browser.evaluate(
                "[...document.querySelectorAll('#layers tbody tr')]"
                ".find(row => /int.*int/.test(row.cells[4].textContent + row.cells[5].textContent))"
                ".querySelector('button').click()"
            )
            browser.evaluate("document.querySelector('.tiles').after(document.getElementById('layer-table'))")
            browser.screenshot(PICTURE, whole=False)
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
