"""One self-contained HTML page about a quantization: what was done, what it cost, where the error is."""

from quarkfast.report.checkpoint import render_checkpoint
from quarkfast.report.content import Content
from quarkfast.report.page import render_page

__all__ = ["Content", "render_checkpoint", "render_page"]
