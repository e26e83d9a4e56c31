"""What `quarkfast doctor` looks at: each check answers with findings, and a failed one with its remedy."""

import importlib
import platform
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

from quarkfast.errors import QuarkfastError


class Diagnosis(NamedTuple):
    """One line of the diagnosis; a finding with a remedy is something that is wrong."""

    what: str
    value: str
    remedy: str = ""


def examine() -> Iterator[Diagnosis]:
    """Yield the findings in the order in which a person would look for the fault."""
    yield Diagnosis(
        "python", f"{platform.python_version()}, {platform.system()} {platform.machine()}, {sys.executable}"
    )
    yield from packages()
    native = list(native_library())
    yield from native
    # Operators run the same kernels: a fault of those would only be reported again, five times.
    if not any(finding.remedy for finding in native):
        yield from operators()


def packages() -> Iterator[Diagnosis]:
    """Yield quarkfast's version and those of the packages that its own metadata requires."""
    try:
        yield Diagnosis("quarkfast", metadata.version("quarkfast"))
        requirements = metadata.requires("quarkfast") or []
    except metadata.PackageNotFoundError:
        yield Diagnosis("quarkfast", "not installed, running from a source tree")
        return
    for requirement in requirements:
        name, minimum, extra = parse_requirement(requirement)
        if name == "onnxruntime":
            yield from onnxruntime(minimum)
        elif not extra:
            yield package(name, minimum)


def parse_requirement(requirement: str) -> tuple[str, str, str]:
    """Split a requirement of package metadata into name, least version and extra.

    Example:
        >>> parse_requirement('onnxruntime>=1.20; extra == "ort"')
        ('onnxruntime', '1.20', 'ort')
        >>> parse_requirement("numpy")
        ('numpy', '', '')
    """
    name = re.match(r"[\w.-]+", requirement)
    minimum = re.search(r">=\s*([\w.]+)", requirement)
    extra = re.search(r"extra\s*==\s*['\"](\w+)['\"]", requirement)
    return (name[0] if name else requirement, minimum[1] if minimum else "", extra[1] if extra else "")


def older(version: str, minimum: str) -> bool:
    """Return whether a version is below a minimum, by their leading numbers.

    Example:
        >>> older("1.9.2", "1.20"), older("1.20.0rc1", "1.20"), older("2.0", "")
        (True, False, False)
    """
    return [int(n) for n in re.findall(r"\d+", version)] < [int(n) for n in re.findall(r"\d+", minimum)]


def package(name: str, minimum: str) -> Diagnosis:
    """Look a distribution up and hold it against the least version that works."""
    remedy = f'pip install "{name}>={minimum}"' if minimum else f"pip install {name}"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Diagnosis(name, "not installed", remedy)
    return Diagnosis(name, version, remedy if older(version, minimum) else "")


def onnxruntime(minimum: str) -> Iterator[Diagnosis]:
    """Look for the module, which several distributions bring: onnxruntime, -gpu, -directml, an NPU vendor's."""
    distributions = sorted(set(metadata.packages_distributions().get("onnxruntime", [])))
    if not distributions:
        yield Diagnosis("onnxruntime", "not installed", "pip install onnxruntime")
        return
    if len(distributions) > 1:
        remedy = f"they overwrite each other's files: pip uninstall {' '.join(distributions)}, then install one"
        yield Diagnosis("onnxruntime", f"installed {len(distributions)} times: {', '.join(distributions)}", remedy)
        return
    yield package(distributions[0], minimum)


def native_library() -> Iterator[Diagnosis]:
    """Load the bindings and say which instruction set and how many threads they use."""
    try:
        isa = importlib.import_module("quarkfast.kernels.isa")
    except ImportError as error:
        yield Diagnosis(
            "native library",
            str(error),
            "install quarkfast again, from where it came: pip install --force-reinstall ...",
        )
        return
    yield Diagnosis("instruction sets", ", ".join(isa.available_isas()))
    for what, setting in (("active", isa.active_isa), ("threads", isa.num_threads)):
        try:
            yield Diagnosis(what, str(setting()))
        except ValueError as error:
            yield Diagnosis(what, str(error), "change or unset the variable")


def operators() -> Iterator[Diagnosis]:
    """Load the operator library into ONNX Runtime and run every operator once."""
    try:
        ort = importlib.import_module("quarkfast.ort")
        trial = importlib.import_module("quarkfast.cli.operator_selftest")
        yield Diagnosis("operator library", ort.get_library_path())
        ort.session_options()
        yield Diagnosis("8-bit models here", importlib.import_module("quarkfast.evaluate.processor").speed_here())
    except (ImportError, QuarkfastError) as error:
        yield Diagnosis("operator library", str(error), "install what is named above, then run quarkfast doctor again")
        return
    for operator in trial.OPERATORS:
        name = f"{operator.domain}.{operator.name}"
        try:
            fault = trial.fault_of(operator)
        except QuarkfastError as error:
            fault = str(error)
        yield Diagnosis(name, fault or "runs", "report this with the whole output of quarkfast doctor" if fault else "")
