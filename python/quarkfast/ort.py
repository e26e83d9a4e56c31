"""ONNX Runtime: the operator library, and the one place where sessions are made.

onnxruntime is imported only when a function of this module needs it, so that
`import quarkfast` neither requires nor loads it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakSet

from quarkfast.errors import DependencyError, ModelError, UnsupportedError

__all__ = [
    "ARRAY_TYPES",
    "get_library_path",
    "inference_session",
    "lean_options",
    "register",
    "run",
    "runtime_version",
    "session_options",
]

_LIBRARY_NAMES = {"linux": "libquarkfast.so", "darwin": "libquarkfast.dylib", "win32": "quarkfast.dll"}
_DEVICES = ("CPU",)
ARRAY_TYPES = frozenset(
    f"tensor({name})"
    for name in (
        *("bool", "double", "float", "float16", "string"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
)
"""Types of tensors that onnxruntime hands over as arrays, by its names; of int4 or bfloat16 it has no arrays."""

# Options that have the operators, for as long as they live: onnxruntime takes them twice, and opens no session then.
_registered: WeakSet[Any] = WeakSet()

# The first version with an option for the folder of the external files of a model without a path.
_FOLDER_OPTION = (1, 21)


def get_library_path(device: str = "CPU") -> str:
    """Return the path of the operator library, for `SessionOptions.register_custom_ops_library`.

    Args:
        device: The device the operators run on, in any case. Only `"CPU"` is available.

    Raises:
        UnsupportedError: The device has no operators.
        DependencyError: The library is not beside the module `quarkfast._core`.

    Example:
        >>> import quarkfast
        >>> quarkfast.get_library_path("cpu").endswith((".so", ".dylib", ".dll"))
        True
    """
    if str(device).upper() not in _DEVICES:
        raise UnsupportedError(
            f"get_library_path: device: expected {' or '.join(map(repr, _DEVICES))}, got {device!r}; "
            "the operators run on CPUExecutionProvider, beside any other provider of the session"
        )
    path = _native_folder() / _LIBRARY_NAMES.get(sys.platform, "libquarkfast.so")
    if not path.is_file():
        raise DependencyError(
            f"get_library_path: expected the operator library at {path}, got no such file; reinstall quarkfast"
        )
    return str(path)


def _native_folder() -> Path:
    """Return the folder of `quarkfast._core`: in an editable install that of what was compiled, not of the sources."""
    found = importlib.util.find_spec("quarkfast._core")
    return Path(__file__ if found is None or found.origin is None else found.origin).parent


def register(options: Any) -> None:
    """Add quarkfast's operators to the options of a session; options that have them stay as they are.

    Args:
        options: An `onnxruntime.SessionOptions`.

    Raises:
        DependencyError: The installed onnxruntime is older than the operators need.

    Example:
        >>> import onnxruntime, quarkfast
        >>> options = onnxruntime.SessionOptions()
        >>> quarkfast.register(options)
    """
    if options in _registered:
        return
    failures = _failures()
    try:
        options.register_custom_ops_library(get_library_path())
    except failures as error:
        raise DependencyError(f"register: {_sentence(error)}") from error
    _registered.add(options)


def session_options(
    *, threads: int | None = None, optimize: bool = True, spinning: bool = True, arena: bool = True
) -> Any:
    """Make session options with quarkfast's operators registered.

    Args:
        threads: Number of intra-op threads, 1 or more; None leaves the choice to onnxruntime, but for processors that
            this process may not use, of which it knows nothing.
        optimize: Whether onnxruntime may rewrite the graph (all its levels) or must run it as it stands.
        spinning: Whether threads that wait for work keep their processor busy, as onnxruntime has it, or sleep.
        arena: Whether tensors share blocks that the session keeps for its next run, as onnxruntime has it. An output
            that is kept holds its whole block: 70 MB of what a text detector's layers see held 180 MB.

    Returns:
        An `onnxruntime.SessionOptions`.

    Raises:
        DependencyError: onnxruntime is missing or too old.

    Example:
        >>> from quarkfast import ort
        >>> ort.session_options(threads=1).intra_op_num_threads
        1
    """
    onnxruntime = _onnxruntime()
    if threads is not None and threads < 1:
        raise ValueError(f"session_options: threads: expected 1 or more, got {threads}")
    options = onnxruntime.SessionOptions()
    # Warnings speak to the author of a model about its graph, errors arrive as exceptions; 4 leaves the fatal ones.
    options.log_severity_level = 4
    options.intra_op_num_threads = _usable_processors() if threads is None else threads
    options.enable_cpu_mem_arena = options.enable_mem_pattern = arena
    if not spinning:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    register(options)
    return options


def _usable_processors() -> int:
    """Returns how many processors this process is held to (taskset, cpusets of containers), or 0 if to none."""
    from quarkfast import _core

    usable = _core.usable_processors()
    return usable if usable < (os.cpu_count() or 1) else 0


def lean_options(*, optimize: bool = True) -> Any:
    """Make session options for a few runs that shall take little memory.

    Nodes run in their order as far as it lets them, so that what reads a tensor frees it early; activations share no
    block, which would be rounded up; and no tensor is copied into the layout of blocked convolutions.

    Args:
        optimize: Whether onnxruntime may fuse nodes, or must run the graph as it stands.

    Returns:
        An `onnxruntime.SessionOptions`.

    Raises:
        DependencyError: onnxruntime is missing or too old.
    """
    options = session_options(optimize=optimize, spinning=False)
    onnxruntime = _onnxruntime()
    options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    options.enable_mem_pattern = False
    if optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    return options


def inference_session(
    model: str | os.PathLike[str] | bytes,
    options: Any = None,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    folder: str | os.PathLike[str] | None = None,
) -> Any:
    """Open a session on a model that may use quarkfast's operators.

    Args:
        model: Path of the model, or its serialized bytes (below 2 GiB).
        options: From :func:`session_options`; made with its defaults when None.
        providers: Names of execution providers, the preferred one first.
        folder: Where the files are that serialized bytes refer to; a path needs none.

    Returns:
        An `onnxruntime.InferenceSession`.

    Raises:
        ModelError: onnxruntime rejects the model.
        DependencyError: onnxruntime is missing or too old.
        UnsupportedError: onnxruntime before 1.21 wants a file in `folder`, which cannot be written.

    Example:
        >>> from quarkfast import ort
        >>> try:
        ...     ort.inference_session(b"not a model")
        ... except Exception as error:
        ...     print(error)
        inference_session: model: onnxruntime rejects it: Failed to load model because protobuf parsing failed.
    """
    onnxruntime = _onnxruntime()
    if options is None:
        options = session_options()
    source = model if isinstance(model, bytes) else os.fspath(model)
    name = "model" if isinstance(source, bytes) else source
    if isinstance(source, str) and not _is_unicode(source):  # onnxruntime takes no other paths
        path = Path(source)
        source, folder = path.read_bytes(), path.resolve().parent
        if not _is_unicode(str(folder)):
            raise ModelError(
                f"inference_session: expected a folder whose name is UTF-8, got {str(folder)!r}; rename it"
            )
    look = _looking_in(Path(folder), source, options) if folder and isinstance(source, bytes) else nullcontext(source)
    try:
        with look as found:
            return onnxruntime.InferenceSession(found, options, providers=list(providers))
    except _failures() as error:
        raise ModelError(
            f"inference_session: {name}: onnxruntime rejects it: {' '.join(_sentence(error).split())}"
        ) from error


def _is_unicode(path: str) -> bool:
    """Whether the bytes of a path are UTF-8; Python has half of a surrogate pair for each that is not."""
    return os.fsencode(path).decode(errors="replace") == path


@contextmanager
def _looking_in(folder: Path, model: bytes, options: Any) -> Iterator[str | bytes]:
    """Has onnxruntime look in `folder` for the files of a serialized model, and yields the model for that."""
    if tuple(map(int, runtime_version().split(".")[:2])) >= _FOLDER_OPTION:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
        yield model
        return
    name = None
    try:
        try:
            descriptor, name = tempfile.mkstemp(prefix=".quarkfast_", suffix=".onnx", dir=folder)
            with os.fdopen(descriptor, "wb") as file:
                file.write(model)
        except OSError as error:
            raise UnsupportedError(
                f"inference_session: expected to write a graph beside its weights in {str(folder)!r}, got "
                f"{error.strerror}; onnxruntime 1.21 and newer do without"
            ) from error
        yield name
    finally:
        if name is not None:
            Path(name).unlink()


def run(session: Any, feed: Mapping[str, Any]) -> list[Any]:
    """Run a session once and return all its outputs.

    Args:
        session: From :func:`inference_session`.
        feed: One array for each input, by name.

    Returns:
        An array for a tensor, a list for a sequence, and None for an optional that is empty, and for a tensor of a type
        that onnxruntime has no arrays of, such as int4.

    Raises:
        ModelError: onnxruntime cannot run the model on this feed.

    Example:
        >>> import numpy as np, onnx
        >>> from quarkfast import ort
        >>> text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y) { y = Abs(x) }'
        >>> session = ort.inference_session(onnx.parser.parse_model(text).SerializeToString())
        >>> ort.run(session, {"x": np.float32([-1, 2])})
        [array([1., 2.], dtype=float32)]
    """
    try:
        return list(session.run(None, dict(feed)))
    except RuntimeError as error:
        outputs = session.get_outputs()
        names = [each.name for each in outputs if not each.type.startswith("tensor") or each.type in ARRAY_TYPES]
        if len(names) in (0, len(outputs)):
            raise ModelError(f"onnxruntime: {error}") from error
        found = dict(zip(names, session.run(names, dict(feed)), strict=True))
        return [found.get(each.name) for each in outputs]
    except _failures() as error:
        raise ModelError(f"onnxruntime: {' '.join(_sentence(error).split())}") from error


def runtime_version() -> str:
    """Return the version of onnxruntime.

    Raises:
        DependencyError: onnxruntime is missing.

    Example:
        >>> from quarkfast import ort
        >>> int(ort.runtime_version().split(".")[0])
        1
    """
    return str(_onnxruntime().__version__)


def _onnxruntime() -> ModuleType:
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise DependencyError(
            "quarkfast.ort: expected an installed onnxruntime, got none; "
            "pip install onnxruntime, or the onnxruntime build of your hardware's vendor"
        ) from error


def _failures() -> tuple[type[Exception], ...]:
    """Every exception class that onnxruntime makes of a status; they share no base below Exception."""
    state = importlib.import_module(f"{_onnxruntime().__name__}.capi.onnxruntime_pybind11_state")
    names = "Fail", "InvalidArgument", "NoSuchFile", "NoModel", "EngineError", "RuntimeException"
    more = "InvalidProtobuf", "ModelLoaded", "NotImplemented", "InvalidGraph", "EPFail"
    return tuple(getattr(state, name) for name in names + more)


def _sentence(error: Exception) -> str:
    """The text of a status without onnxruntime's prefix `[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : `."""
    text = str(error)
    return text.split(" : ", 3)[-1] if text.startswith("[ONNXRuntimeError]") else text
