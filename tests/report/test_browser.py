"""The page in Chromium: what its script does with a keyboard, on a telephone, on paper, and that nothing goes wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from quarkfast.quantization.record_plan import Bins, Channels, NodeRecord, Records, TensorRecord
from quarkfast.report import Content, render_page
from report.test_page import HOSTILE, content
from tools.browser import Browser, find_browser

# A browser that answers at all does so in milliseconds; a machine under load may take seconds.
_PATIENCE = 20.0


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium here; QUARKFAST_BROWSER names one")
    with Browser(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_page(content(40, [f"{name} {index}" for index, name in enumerate(HOSTILE)])), "utf-8")
    return path


def complaints(browser: Browser) -> list[str]:
    """What went wrong on any page: exceptions, and lines in the console such as those of the security policy."""
    return [str(found) for event, found in browser.events if event in ("Runtime.exceptionThrown", "Log.entryAdded")]


def wait_until(browser: Browser, expression: str) -> None:
    """Waits until an expression is true, as after a key that another process handles."""
    end = time.monotonic() + _PATIENCE
    while not browser.evaluate(expression):
        assert time.monotonic() < end, f"expected {expression} to become true"


def column(browser: Browser, index: int) -> list[str]:
    """The texts of the rows that are shown, in their order."""
    rows = "[...document.querySelectorAll('#layers > tbody > tr')].filter(row => !row.hidden && row.cells.length > 2)"
    return browser.evaluate(f"{rows}.map(row => row.cells[{index}].textContent)")


def focus_on(browser: Browser, selector: str) -> None:
    """Presses Tab until an element has the focus."""
    for _ in range(60):
        if browser.evaluate(f"document.activeElement.matches({selector!r})"):
            return
        browser.press("Tab")
    raise AssertionError(f"expected {selector} to be reached by Tab")


def test_a_page_with_hostile_names_runs_without_complaint_and_asks_for_nothing(browser, page):
    browser.events.clear()
    browser.open(page)
    for button in range(40):
        browser.evaluate(f"document.querySelectorAll('#layers tbody th button')[{button}].click()")
    assert complaints(browser) == []
    asked = [found["request"]["url"] for event, found in browser.events if event == "Network.requestWillBeSent"]
    assert asked == [page.as_uri()]
    assert browser.evaluate("document.querySelectorAll('script').length") == 2
    assert browser.evaluate("document.querySelectorAll('#layers tbody svg rect').length") > 1000


def test_numbers_that_cannot_be_drawn_are_left_out(browser, tmp_path):
    inf, nan = float("inf"), float("nan")
    low = np.float32([-inf, 0.0])
    common = {"scales": 1, "scale": 1e-45, "zero_point": 0, "sqnr": inf}
    tensors = [
        TensorRecord("a", "constant", "int8", (2, 2), seen=(-inf, 0.0), kept=(-1e30, 1e30), **common),
        TensorRecord(
            "b", "weight", "int8", (2, 2), seen=(nan, nan), channels=Channels(2, low, -low, abs(low)), **common
        ),
        TensorRecord("c", "activation", "int8", seen=(0.0, 0.0), kept=(0.0, 0.0), **common),
        TensorRecord("d", "activation", "int8", bins=Bins(0.0, 0.0, np.zeros(1, np.uint64)), clipped=nan, **common),
        TensorRecord("e", "activation", "mx6"),
        TensorRecord("f", "weight", "int8", (0,), channels=Channels(1, *[np.zeros(1, np.float32)] * 3), **common),
    ]
    names = tuple(tensor.name for tensor in tensors)
    nodes = (
        NodeRecord("n", "Conv", "quantized", "", names[:3], names[3:]),
        NodeRecord("", "Relu", "other", "", (), ()),
    )
    found = Content(document={}, facts=[], records=Records(nodes, {tensor.name: tensor for tensor in tensors}))
    path = tmp_path / "report.html"
    path.write_text(render_page(found), "utf-8")
    browser.events.clear()
    browser.open(path)
    browser.evaluate("document.querySelectorAll('#layers tbody button').forEach(each => each.click())")
    assert complaints(browser) == []
    shown = browser.evaluate("document.getElementById('layers').innerHTML")
    assert not [word for word in ("NaN", "undefined", "null", "Infinity") if word in shown]
    assert browser.evaluate("document.querySelectorAll('.tensors h3').length") == len(tensors)


def test_columns_are_sorted_with_the_keyboard(browser, page):
    browser.open(page)
    focus_on(browser, "#layers thead th:nth-child(7) button")
    browser.press("Enter")
    head = "document.querySelector('#layers thead th:nth-child(7)')"
    wait_until(browser, f"{head}.getAttribute('aria-sort') === 'ascending'")
    *found, last = column(browser, 6)
    assert last == "\u2013"
    assert list(map(float, found)) == sorted(map(float, found))
    browser.press(" ")
    wait_until(browser, f"{head}.getAttribute('aria-sort') === 'descending'")
    *found, last = column(browser, 6)
    assert last == "\u2013"
    assert list(map(float, found)) == sorted(map(float, found), reverse=True)
    assert browser.evaluate("document.querySelectorAll('[aria-sort]').length") == 1


def test_rows_are_filtered_by_what_is_typed(browser, page):
    browser.open(page)
    everything = column(browser, 1)
    focus_on(browser, "#find")
    for key in "IMG 2":
        browser.press(key)
    wait_until(browser, "document.getElementById('find').value === 'IMG 2'")
    assert column(browser, 1) == [name for name in everything if "img" in name and "2" in name]
    assert browser.evaluate("document.getElementById('shown').textContent").endswith("of 41 nodes")
    browser.evaluate("document.getElementById('find').value = ''")
    choose = "const s = document.getElementById('state'); s.value = 'float'; s.dispatchEvent(new Event('input'));"
    browser.evaluate(f"(() => {{ {choose} }})()")
    assert column(browser, 3) == ["float"]


def test_a_node_opens_and_closes_with_the_keyboard(browser, page):
    browser.open(page)
    focus_on(browser, "#layers tbody tr:first-child button")
    browser.press("Enter")
    button = "document.querySelector('#layers tbody button')"
    wait_until(browser, f"{button}.getAttribute('aria-expanded') === 'true'")
    pictures = "[...document.querySelectorAll('.open svg')].map(each => each.getAttribute('aria-label'))"
    found = browser.evaluate(pictures)
    assert len(found) == 3  # two histograms and the channels of the weight
    assert all("kept -1.5 to 1.5; 1 % cut off" in text for text in found if text.startswith("Histogram"))
    assert browser.evaluate("document.querySelectorAll('.open .cut').length") > 0
    browser.press("Enter")
    wait_until(browser, "document.querySelector('.open').hidden")
    assert browser.evaluate(f"{button}.getAttribute('aria-expanded')") == "false"


def test_a_link_to_a_node_opens_it_and_gives_it_the_focus(browser, page):
    browser.open(page)
    browser.evaluate("document.getElementById('find').value = 'nothing has this name'")
    browser.evaluate("document.getElementById('find').dispatchEvent(new Event('input'))")
    assert column(browser, 1) == []
    link = "document.querySelector('#error table a')"
    browser.evaluate(f"{link}.click()")
    wait_until(browser, f"document.activeElement.closest('tr').id === {link}.hash.slice(1)")
    assert browser.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    assert len(column(browser, 1)) == 41


def test_the_plot_names_what_the_pointer_is_at_and_leads_to_its_node(browser, page):
    browser.open(page)
    browser.evaluate("document.getElementById('depth').scrollIntoView({block: 'center', behavior: 'instant'})")
    # The lowest mark, which no other covers: its place in the window.
    found = browser.evaluate("""(() => {
        const svg = document.getElementById('depth');
        const paths = [...svg.querySelectorAll('.marks')].map(each => each.getAttribute('d')).join('');
        const marks = [...paths.matchAll(/M([\\d.]+) ([\\d.]+)/g)].map(each => each.slice(1).map(Number));
        const [x, y] = marks.reduce((one, other) => (one[1] > other[1] ? one : other));
        const at = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
        return {x: at.x, y: at.y};
    })()""")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", **found)
    link = "document.querySelector('#error table a').hash.slice(1)"  # the table has the lowest first
    node = browser.evaluate(link).removeprefix("n")
    said = "document.querySelector('.said').textContent"
    wait_until(browser, f"{said}.endsWith('dB, node {node}')")
    assert browser.evaluate(said).startswith(browser.evaluate("document.querySelector('#error code').textContent"))
    for kind in ("mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **found)
    wait_until(browser, f"document.activeElement.closest('tr')?.id === {link}")


def test_without_scripts_the_tables_stand_and_no_control_is_offered(browser, page):
    browser.open(page, scripts=False)
    root = browser.call("DOM.getDocument", depth=0)["root"]["nodeId"]
    rows = browser.call("DOM.querySelectorAll", nodeId=root, selector="#layers tbody tr")["nodeIds"]
    controls = browser.call("DOM.querySelector", nodeId=root, selector="#controls")["nodeId"]
    assert len(rows) == 41
    style = browser.call("CSS.getComputedStyleForNode", nodeId=controls)["computedStyle"]
    assert {each["name"]: each["value"] for each in style}["display"] == "none"


@pytest.mark.parametrize("width", [320, 390, 768, 1200])
@pytest.mark.parametrize("dark", [False, True])
def test_no_width_needs_to_be_scrolled_sideways(browser, page, width, dark):
    browser.open(page, width=width, dark=dark)
    browser.evaluate("document.querySelector('#layers tbody button').click()")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    ends = "[...document.querySelectorAll('caption')].map(each => each.getBoundingClientRect().right)"
    assert max(browser.evaluate(ends)) <= width  # also where the table below is wider, and scrolls
    ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)")


def test_it_prints_without_controls(browser, page):
    browser.open(page)
    browser.call("Emulation.setEmulatedMedia", media="print")
    shown = "getComputedStyle(document.querySelector('{}')).display"
    assert browser.evaluate(shown.format("#controls")) == "none"
    assert browser.evaluate(shown.format("nav")) == "none"
    rows = "new Set([...document.querySelectorAll('.tiles > div')].map(each => each.offsetTop)).size"
    count = browser.evaluate("document.querySelectorAll('.tiles > div').length")
    assert browser.evaluate(rows) == -(-count // 3)
    assert browser.evaluate(shown.format("#layers")) == "table"


def test_squares_are_drawn_on_paper_too(browser, page):
    """PDF paints no square caps on a line of no length."""
    browser.open(page)
    lengths = "[...document.querySelectorAll('.marks')].map(each => each.getTotalLength())"
    assert min(browser.evaluate(lengths)) > 0


def test_long_names_break_on_a_telephone(browser, page):
    browser.open(page, width=390)
    name = "'/layers.5/norm2/LayerNormalization_output_0_Mul_output_Concat_output'"
    browser.evaluate(f"document.querySelector('#summary tbody td').textContent = {name}")
    inside = "(each => each.scrollWidth <= each.clientWidth)(document.querySelector('#summary .scroll'))"
    assert browser.evaluate(inside)
    # Without a script that opens a row, all of the columns are there, and words are whole.
    browser.open(page, width=390, scripts=False)
    root = browser.call("DOM.getDocument")["root"]["nodeId"]
    table = browser.call("DOM.querySelector", nodeId=root, selector="#layers")["nodeId"]
    assert browser.call("DOM.getBoxModel", nodeId=table)["model"]["width"] >= 62 * 16
