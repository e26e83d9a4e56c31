"""Models as ONNX Runtime reads them: a graph that refers to constants in files of one folder."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import onnx

from quarkfast import _core
from quarkfast.atomic_files import folder_beside
from quarkfast.deferred import ir
from quarkfast.errors import OutputError
from quarkfast.graph.access import shape_of
from quarkfast.graph.external import constants_of, exceeds_one_file, lay_out, tensor_bytes
from quarkfast.graph.save import to_proto
from quarkfast.graph.subgraphs import graphs_of, nodes_of

__all__ = [
    "constants_in_files",
    "forget_types",
    "make_inputs",
    "proto_and_folder",
    "stays_in_files",
    "with_constants_as_inputs",
]

# From here on constants that lie in files stay there. Of 592 MB of weights, calibration held 2.36 GB as one protobuf,
# which onnxruntime copies, and 0.68 GB as files, which it maps.
_WHOLE = 1 << 28

# From here on constants are written to a file, which takes less time than their copies in memory: of a sentence
# encoder's 90 MB calibration held 536 MB as one protobuf and 157 MB with a file.
_WRITTEN = 1 << 20
_IN_FILES = "quarkfast.in_files"

# Below this a constant goes along with the graph: 2 GiB hold 32768 such, and no model has as many.
_LEAST = 1 << 16


@contextmanager
def constants_in_files(model: ir.Model, output: Path | None = None, *, alone: bool = True) -> Iterator[None]:
    """Keeps the large constants of a model in files of one folder, so that they are in memory no more than once.

    1. A model of less than 1 MiB stays as it is. Of one above 256 MiB, small constants are read into memory, and if all
       others lie in files of one folder, these are used.
    2. Else all of them are written to a temporary file, tensor by tensor. It is removed at the end, and the model is
       then of no use. A model that is in such a file already, and has new constants, gets another beside it for these.
    3. Where other processes run the model, which may not see a temporary file, and where there is no room for one, a
       model that fits into a protobuf stays as it is.

    Args:
        model: The model; changed in place.
        output: Beside what a temporary file may be made; None means the system's folder for such files.
        alone: Whether this process alone runs the model.

    Raises:
        OutputError: If there is no room for a file that it cannot do without.
    """
    size = tensor_bytes(model)
    needed = exceeds_one_file(size)
    if size > _WHOLE:
        for value, tensor in constants_of(model):
            if isinstance(tensor, ir.ExternalTensor) and tensor.nbytes < _LEAST:
                value.const_value = _in_memory(tensor)
    if not needed and (size < _WRITTEN or not alone):
        yield
        return
    if size > _WHOLE and _folder_of(model) is not None:
        yield
        return
    with ExitStack() as stack:
        try:
            _write(model, model.meta.get(_IN_FILES) or stack.enter_context(_folder_for_weights(output)))
        except OutputError:
            if needed:
                raise
        del model  # whose graph a session does without
        yield


def proto_and_folder(model: ir.Model) -> tuple[onnx.ModelProto, Path | None]:
    """Returns a model as a protobuf, and the folder that its references start from, or None where it has none.

    Raises:
        UnsupportedError: If it is too large for one protobuf, and its constants are not in files of one folder.
    """
    folder = _folder_of(model)
    if folder is None:
        return to_proto(model), None
    return ir.serde.serialize_model(model), folder


def stays_in_files(model: ir.Model) -> bool:
    """Whether ONNX Runtime reads the large constants of `model` from files itself."""
    return _folder_of(model) is not None


def _folder_of(model: ir.Model) -> Path | None:
    """Returns the folder that a large model refers to, or None if a constant is in memory or they are in several."""
    if tensor_bytes(model) <= _WHOLE and not model.meta.get(_IN_FILES):
        return None
    folders: set[Path | None] = set()
    for _, tensor in constants_of(model):
        if isinstance(tensor, ir.ExternalTensor):
            folders.add(Path(tensor.base_dir).resolve())
        elif tensor.nbytes >= _LEAST:
            folders.add(None)
    return folders.pop() if len(folders) == 1 else None


def _part_from_protobuf(model: ir.Model) -> None:
    """Copies what is still part of the protobuf that the model was read from: one tensor keeps all of that alive."""
    for value, tensor in constants_of(model):
        if isinstance(tensor, ir.TensorProtoTensor):
            value.const_value = _copied(tensor)
    for node in nodes_of(model.graph):
        for name, attribute in node.attributes.items():
            if attribute.type == ir.AttributeType.TENSOR and isinstance(attribute.value, ir.TensorProtoTensor):
                node.attributes[name] = ir.AttrTensor(name, _copied(attribute.value))


def _copied(tensor: ir.TensorProtoTensor) -> ir.TensorProtocol:
    proto = onnx.TensorProto()
    proto.CopyFrom(tensor.raw)
    return ir.serde.deserialize_tensor(proto)


def _in_memory(tensor: ir.ExternalTensor) -> ir.TensorProtocol:
    proto = onnx.TensorProto(
        name=tensor.name, data_type=int(tensor.dtype), dims=shape_of(tensor), raw_data=tensor.tobytes()
    )
    return ir.serde.deserialize_tensor(proto)


@contextmanager
def _folder_for_weights(output: Path | None) -> Iterator[Path]:
    if output is not None:
        with folder_beside(output) as folder:
            yield folder.resolve()
        return
    try:
        temporary = tempfile.TemporaryDirectory(prefix=".quarkfast_", ignore_cleanup_errors=True)
    except OSError as error:
        raise OutputError(f"calibration: expected a folder for weights, got {error.strerror}") from error
    with temporary as name:
        yield Path(name).resolve()


def _write(model: ir.Model, folder: Path) -> None:
    """Moves large constants of `model` to a new file in `folder`; leaves it as it was if there is no room.

    Those that are in files of `folder` stay there.
    """
    path, before = folder / f"weights_{len(list(folder.iterdir()))}", list(constants_of(model))
    laid_out = lay_out(model, path, _LEAST, folder)
    try:
        with path.open("wb") as file:
            laid_out.write(file)
    except OSError as error:
        for value, tensor in before:
            value.const_value = tensor
        raise OutputError(
            f"calibration: expected room for {laid_out.size} bytes of weights in {str(folder.parent)!r}, "
            f"got {error.strerror}"
        ) from error
    if model.meta.get(_IN_FILES) != folder:
        model.meta[_IN_FILES] = folder
        del laid_out, before
        _part_from_protobuf(model)
        gc.collect()  # nodes that preparation has removed form cycles, and their constants are of that protobuf too
        _core.release_memory()


def with_constants_as_inputs(model: ir.Model, names: Collection[str]) -> ir.Model:
    """Returns a copy of a model, some of whose constants are inputs instead; tensors are shared, not copied.

    It knows no types of values between nodes (`forget_types`).

    Args:
        model: The model.
        names: Constants of its own graph and of bodies.
    """
    copy = model.clone()
    forget_types(copy)
    make_inputs(copy, names)
    return copy


def make_inputs(model: ir.Model, names: Collection[str]) -> None:
    """Makes some constants of a model and of its bodies inputs of its own graph, which bodies read too, in place."""
    graphs = graphs_of(model)
    for name in names:
        value = next(graph for graph in graphs if name in graph.initializers).initializers.pop(name)
        if value.const_value is not None:
            value.type, value.shape = ir.TensorType(value.const_value.dtype), ir.Shape(shape_of(value.const_value))
        if value not in model.graph.inputs:
            model.graph.inputs.append(value)


def forget_types(model: ir.Model) -> None:
    """Forgets types and shapes of what a model's own graph computes, in place: ONNX Runtime infers them again.

    That takes it less time than it takes to write and to read them.
    """
    values = [value for node in model.graph for value in node.outputs if not value.is_graph_output()]
    for value in (*values, *model.graph.initializers.values()):
        if not value.is_graph_input():
            value.type = value.shape = None
