"""The probe library (tests/cpp/ort_abi_probe.cc), compiled for the test run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of the probe library; QUARKFAST_PROBE names one that was built before."""
    if built := os.environ.get("QUARKFAST_PROBE"):
        return Path(built)
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        pytest.skip("no C++ compiler for the probe library; set CXX, or QUARKFAST_PROBE to a built one")
    library = tmp_path_factory.mktemp("probe") / "libprobe.so"
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{ROOT / 'csrc'}"]
    subprocess.run([compiler, *flags, str(ROOT / "tests/cpp/ort_abi_probe.cc"), "-o", str(library)], check=True)
    return library
