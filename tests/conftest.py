"""How the suite runs on several cores, and fixtures: instruction sets, random numbers, sizes, and the shared data."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

import quarkfast

# Hypothesis draws the same examples on every run and every machine, and measures no time.
settings.register_profile("quarkfast", derandomize=True, deadline=None, database=None)
settings.load_profile("quarkfast")

# Sizes below, at and above the lane counts of every instruction set (4 to 64), and one that spans several chunks.
SIZES = (0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 1000, 4099)

# Files of half a minute and more, the longest first. The tests of a file run in one process, so that one of these that
# began last would end long after all others.
LONGEST = (
    "pipeline/test_default_sessions.py",
    "pipeline/test_accuracy.py",
    "pipeline/test_standard.py",
    "recorded/test_recorded.py",
    "pipeline/test_models_in_the_wild.py",
    "pipeline/test_real_models.py",
    "pipeline/test_segment_anything.py",
    "calibration/test_same_bytes.py",
    "pipeline/test_loads_and_runs.py",
    "ort/test_processor.py",
    "fuzz/test_models.py",
    "fuzz/test_fuzz.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Tests folders on every core, and files in this process; `-n`, `--dist` and `--capture=no` have the last word."""
    option = config.option
    if not config.pluginmanager.hasplugin("xdist") or hasattr(config, "workerinput"):
        return
    if option.numprocesses is None and option.capture != "no" and not any(".py" in each for each in config.args):
        option.numprocesses = "logical"
    if option.numprocesses and option.dist == "no":
        option.dist, option.loadscopereorder = "loadfile", False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the longest files first where several processes share the files."""
    if hasattr(config, "workerinput"):
        ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(LONGEST)}
        items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


@pytest.fixture(params=quarkfast.available_isas())
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every instruction set that runs here, active for the test."""
    with quarkfast.use_isa(request.param):
        yield request.param


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers seeded by the test's own name."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real models and data; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("QUARKFAST_SHARED", Path(__file__).parents[2] / "shared"))
    if not (folder / "models").is_dir():
        pytest.skip(f"no folder of real models at {folder}; set QUARKFAST_SHARED")
    return folder


def float_bits(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return n float32 of random bits, seasoned with NaN, infinities, zeros of both signs, subnormals and ties."""
    x = rng.integers(0, 1 << 32, n, dtype=np.uint64).astype(np.uint32).view(np.float32)
    special = np.float32([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, -1e-45, 0.5, -0.5, 1.5, 2.5, -2.5, 127.5, 3.4e38])
    where = rng.random(n) < 0.25
    x[where] = rng.choice(special, int(where.sum()))
    near = rng.random(n) < 0.25
    x[near] = rng.standard_normal(int(near.sum())).astype(np.float32) * 4
    return x
