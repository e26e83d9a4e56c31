"""Segment Anything's encoder at 1024 pixels: onnxruntime#23005 tells of a crash without an error."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest

from support.sam_encoder import GRID, HEADS, sam_encoder

pytest.importorskip("resource", reason="no module resource: Windows does not tell the peak of a process in this way")

_SCORES = HEADS * GRID**4 * 4  # bytes of one tensor of global attention: 805 MB

_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
import numpy as np
import quarkfast
from support.peak_memory import peak_bytes
rng = np.random.default_rng(1)
images = [rng.standard_normal((1, 3, 1024, 1024), np.float32) for _ in range(2)]
"""
_QUANTIZE = (
    "quarkfast.quantize('sam.onnx', sys.argv[2], sys.argv[3], ({'x': each} for each in images), method='percentile')"
)
_RUN = "output = open_session(sys.argv[2]).run(None, {'x': images[0]})[0]"
_DEFAULT = "from quarkfast.ort import inference_session as open_session"
_EXACT = "from quarkfast.evaluate.exact_sums import exact_session as open_session"
_TELL = "print(peak_bytes())"


@dataclass(frozen=True)
class _Ran:
    peak: int
    output: np.ndarray


def _process(folder: Path, *lines: str, arguments: tuple[str, ...]) -> int:
    """Returns the most bytes that a fresh process in `folder` holds."""
    program, paths = "\n".join([_START, *lines, _TELL]), json.dumps(sys.path)
    command = [sys.executable, "-c", program, paths, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert not done.returncode, done.stderr
    return int(done.stdout)


def _run(folder: Path, model: str, session: str) -> _Ran:
    peak = _process(folder, session, _RUN, f"np.save('{model}.npy', output)", arguments=(model,))
    return _Ran(peak, np.load(folder / f"{model}.npy"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sam")
    onnx.save(sam_encoder(), path / "sam.onnx")
    return path


@pytest.fixture(scope="module")
def plain(folder: Path) -> _Ran:
    return _run(folder, "sam.onnx", _DEFAULT)


@pytest.mark.parametrize("preset", ["A8W8", "U8S8"])
def test_an_encoder_of_1024_pixels_is_quantized_in_little_more_memory_than_it_runs_in(
    folder: Path, plain: _Ran, preset: str
) -> None:
    peak = _process(folder, _QUANTIZE, arguments=(f"{preset}.onnx", preset))
    # An observer hands its tensor on without a copy, and may keep it alive while the next is made: one more tensor of
    # scores than the float model needs. Two images of the four in each global block, kept, would be six.
    assert peak < plain.peak + _SCORES
    got = _run(folder, f"{preset}.onnx", _EXACT).output
    noise = np.square(got - plain.output, dtype=np.float64).sum()
    # Rounding normal values to the 8 bits of a range of 5 deviations leaves 37 dB. What passes fifteen such roundings,
    # as from the input to the output here, keeps 37 - 10 log10(15) = 25 dB.
    assert 10 * np.log10(np.square(plain.output, dtype=np.float64).sum() / noise) > 25
