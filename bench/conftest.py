"""What every benchmark shares: the rivals present, the seconds a case may take, and facts about the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import quarkfast
from bench.race import RIVALS, load_rivals


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--case-seconds", type=float, default=0.4, help="seconds of timed rounds a benchmark case (0.4)")


@pytest.fixture(scope="session")
def rivals() -> dict[str, ModuleType]:
    return load_rivals()[0]


@pytest.fixture(scope="session")
def case_seconds(pytestconfig: pytest.Config) -> float:
    return float(pytestconfig.getoption("--case-seconds"))


@pytest.fixture
def restore_threads() -> Any:
    before = quarkfast.num_threads()
    yield
    quarkfast.set_num_threads(before)


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Add what a reader needs to judge the figures."""
    absent = load_rivals()[1]
    names = [name for name in ("numpy", *RIVALS) if name not in absent]
    machine_info["quarkfast"] = {
        "isa": quarkfast.active_isa(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in dict.fromkeys(names)},
        "absent": absent,
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
    }


def cpu_name() -> str:
    """The processor as the system names it, with family and model where that is not enough."""
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor() or platform.machine()
    first = info.read_text(encoding="ascii", errors="replace").split("\n\n")[0]
    fields = dict(part.split(":", 1) for part in first.replace("\t", "").splitlines() if ":" in part)
    values = {key.strip(): value.strip() for key, value in fields.items()}
    return (
        f"{values.get('model name', platform.machine())} family {values.get('cpu family')} model {values.get('model')}"
    )
