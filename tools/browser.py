"""A page in a real browser without a window: Chromium, spoken to over a pipe in its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["Browser", "find_browser"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-pipe",
)

# The browser reads from descriptor 3 and writes to 4, whichever numbers the pipes have here.
_START = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""

# Seconds without a word after which a browser hangs.
_PATIENCE = 60

# Virtual key codes by the names of keys.
_KEYS = {"Tab": 9, "Enter": 13, " ": 32}


def find_browser() -> str | None:
    """The path of a browser, or None: QUARKFAST_BROWSER, or Chromium as distributions install it."""
    return os.environ.get("QUARKFAST_BROWSER") or next(filter(None, map(shutil.which, _NAMES)), None)


class Browser:
    """One tab. Used as a context manager, so that the process ends."""

    def __init__(self, program: str, folder: Path) -> None:
        here, there = os.pipe(), os.pipe()
        self._out, self._in = os.fdopen(here[1], "wb"), os.fdopen(there[0], "rb")
        command = [sys.executable, "-c", _START, str(here[0]), str(there[1]), program, *_FLAGS]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(here[0], there[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(folder)},
        )
        os.close(here[0])
        os.close(there[1])
        self._rest, self._count, self._session = b"", 0, ""
        #: What pages said since the browser was opened: method and parameters of each event.
        self.events: list[tuple[str, dict[str, Any]]] = []

    def __enter__(self) -> Browser:
        try:
            found = self.call("Target.createTarget", url="about:blank")
            self._session = self.call("Target.attachToTarget", targetId=found["targetId"], flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log", "DOM", "CSS"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)
        self._out.close()
        self._in.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the protocol and returns its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while True:
            found = self._read()
            if found.get("id") == self._count:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']}")
                return found["result"]

    def wait_for(self, event: str) -> dict[str, Any]:
        """Returns the parameters of the next event of that name."""
        while True:
            found = self._read()
            if found.get("method") == event:
                return found["params"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._in], [], [], _PATIENCE)[0]:
                raise RuntimeError(f"expected an answer of the browser, got none in {_PATIENCE} s")
            part = os.read(self._in.fileno(), 1 << 16)
            if not part:
                raise RuntimeError("the browser ended")
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        found = json.loads(text)
        if "method" in found:
            self.events.append((found["method"], found["params"]))
        return found

    def open(
        self, page: Path, *, width: int = 1200, height: int = 900, dark: bool = False, scripts: bool = True
    ) -> None:
        """Opens a file and waits until it is loaded."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        self.call("Page.navigate", url=page.as_uri())
        self.wait_for("Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        """Returns the value of an expression of JavaScript, as JSON has it."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Presses a key and lets it go."""
        text = {"Enter": "\r", " ": " "}.get(key, "" if len(key) > 1 else key)
        common = {"key": key, "windowsVirtualKeyCode": _KEYS.get(key, ord(key[0].upper()))}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Writes a picture of the page."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))
