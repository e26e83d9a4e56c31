"""Models above 2 GiB: what their path does to small ones is what the ordinary path does, and nothing is left behind."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.config import PRESETS
from quarkfast.errors import CalibrationError, OutputError, UnsupportedError
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.graph.external_constants import constants_in_files, proto_and_folder
from quarkfast.graph.load import load_model
from support.tiny_models import conv_relu_model, samples, tiny_model

X = samples(6)
_STATIC = [name for name, scheme in PRESETS.items() if not scheme.weights_only]


def _plain():
    """MatMul -> Add -> Relu -> MatMul over [N, 12], whose weights no pass changes."""
    rng = np.random.default_rng(3)
    arrays = {
        "w1": rng.normal(0, 0.3, (12, 40)).astype(np.float32),
        "b1": rng.normal(0, 0.3, 40).astype(np.float32),
        "w2": rng.normal(0, 0.3, (40, 8)).astype(np.float32),
    }
    text = """g (float[N, 12] x) => (float[N, 8] y) {
        m = MatMul (x, w1)
        a = Add (m, b1)
        r = Relu (a)
        y = MatMul (r, w2)
    }"""
    return tiny_model(text, arrays)


def _half():
    proto = _plain()
    for tensor in proto.graph.initializer:
        tensor.CopyFrom(
            onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype(np.float16), tensor.name)
        )
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    return proto


def _data(proto):
    value = proto.graph.input[0].type.tensor_type
    shape = [dim.dim_value for dim in value.shape.dim[1:]]
    return samples(6, tuple(shape)).astype(onnx.helper.tensor_dtype_to_np_dtype(value.elem_type))


def _store(proto, folder, where="weights"):
    folder.mkdir(exist_ok=True)
    model = onnx.ModelProto()
    model.CopyFrom(proto)
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location=where, size_threshold=0)
    return folder / "m.onnx"


@pytest.fixture
def large(monkeypatch):
    """Every model is one that does not fit into a protobuf, and every constant a large one."""

    def make():
        monkeypatch.setattr("quarkfast.graph.external_constants._WHOLE", 0)
        monkeypatch.setattr("quarkfast.graph.external_constants._LEAST", 0)
        monkeypatch.setattr("quarkfast.graph.external.PROTOBUF_LIMIT", 1)

    return make


@pytest.fixture
def opened(monkeypatch):
    """The sessions that are opened on bytes, as (bytes, folder)."""
    seen = []
    genuine = ort.inference_session

    def watch(model, options=None, providers=("CPUExecutionProvider",), folder=None):
        seen.append((model, folder))
        return genuine(model, options, providers, folder)

    monkeypatch.setattr(ort, "inference_session", watch)
    # What measures the outputs on the first sample opens sessions too, on whole models.
    for name in ("output_sqnr", "check_default_session"):
        monkeypatch.setattr(f"quarkfast.pipeline.quantization_steps.{name}", lambda *_, **__: ())
    return seen


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files, of which none must remain."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not list(folder.iterdir())


def _content(model):
    """Nodes, metadata, and the bytes of every constant, wherever they lie."""
    proto = onnx.load(model) if isinstance(model, Path) else onnx.load_model_from_string(model)
    for tensor in proto.graph.initializer:
        data = onnx.numpy_helper.to_array(tensor)
        tensor.CopyFrom(onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims))
        tensor.raw_data = data.tobytes()
    return proto.SerializeToString(deterministic=True)


@pytest.mark.parametrize("preset", _STATIC)
@pytest.mark.parametrize("make", [_plain, conv_relu_model, _half], ids=["plain", "equalized", "half"])
def test_a_large_model_gets_the_tensors_of_a_small_one(preset, make, tmp_path, temporary, large):
    proto = make()
    model = _store(proto, tmp_path / "in")
    small = quarkfast.quantize(model, preset=preset, calibration_data=_data(proto))
    large()
    result = quarkfast.quantize(model, tmp_path / "q.onnx", preset, _data(proto))
    onnx.checker.check_model(tmp_path / "q.onnx")
    assert _content(tmp_path / "q.onnx") == _content(small.model_bytes)
    left = {path.name for path in tmp_path.iterdir()} - {"in", "temporary", "q.onnx", "q.onnx.data"}
    assert not left
    assert (result.summary.notes, result.summary.worst) == (small.summary.notes, small.summary.worst)
    assert result.summary.bytes_after == sum((tmp_path / name).stat().st_size for name in ("q.onnx", "q.onnx.data"))


@pytest.mark.parametrize(
    "options",
    [
        {"per_channel": True, "weight_method": "minmse"},
        {"method": "percentile", "weight_type": "int4"},
        {"keep_float_weights": True},
        {"preset": "MXFP4E2M1", "packed_weights": True},
        {"preset": "BF16", "keep_float_weights": True},
    ],
    ids=lambda options: ", ".join(map(str, options.values())),
)
def test_options_do_to_a_large_model_what_they_do_to_a_small_one(options, tmp_path, large, monkeypatch):
    model = _store(_plain(), tmp_path / "in")
    small = quarkfast.quantize(model, calibration_data=_data(_plain()), **options)
    large()
    monkeypatch.setattr("quarkfast.graph.chunked_io.PIECE_BYTES", 100)
    quarkfast.quantize(model, tmp_path / "q.onnx", calibration_data=_data(_plain()), **options)
    assert _content(tmp_path / "q.onnx") == _content(small.model_bytes)


def test_onnxruntime_reads_the_weights_from_the_files_of_the_model(tmp_path, temporary, large, opened):
    model = _store(_plain(), tmp_path / "in")
    large()
    quarkfast.quantize(model, tmp_path / "q.onnx", calibration_data=_data(_plain()), strict=True)
    ((data, folder),) = opened
    assert folder == (tmp_path / "in").resolve()
    assert all(tensor.data_location == 1 for tensor in onnx.load_model_from_string(data).graph.initializer)


def test_a_model_that_fits_stays_in_its_files_where_that_takes_less_memory(tmp_path, monkeypatch, opened):
    model = _store(_plain(), tmp_path / "in")
    before = quarkfast.quantize(model, tmp_path / "one.onnx", calibration_data=_data(_plain()), strict=True)
    monkeypatch.setattr("quarkfast.graph.external_constants._WHOLE", 100)
    result = quarkfast.quantize(model, tmp_path / "two.onnx", calibration_data=_data(_plain()), strict=True)
    assert result.model_bytes == before.model_bytes == (tmp_path / "two.onnx").read_bytes()
    assert not (tmp_path / "two.onnx.data").exists()
    assert [folder is None for _, folder in opened] == [True, True]
    monkeypatch.setattr("quarkfast.graph.external_constants._LEAST", 0)
    assert quarkfast.quantize(model, calibration_data=_data(_plain()), strict=True).model_bytes == before.model_bytes
    assert opened[-1][1] == (tmp_path / "in").resolve()


def test_small_constants_go_along_with_the_graph(tmp_path, large, monkeypatch, opened):
    model = _store(_plain(), tmp_path / "in")
    large()
    monkeypatch.setattr("quarkfast.graph.external_constants._LEAST", 1000)
    quarkfast.calibrate(model, _data(_plain()))
    tensors = onnx.load_model_from_string(opened[-1][0]).graph.initializer
    assert {tensor.name: tensor.data_location for tensor in tensors} == {"w1": 1, "b1": 0, "w2": 1}


@pytest.mark.parametrize("make", [lambda p: p, ir.from_proto], ids=["protobuf", "onnx-ir"])
def test_a_large_model_may_come_from_memory(make, tmp_path, temporary, large, opened):
    small = quarkfast.quantize(_plain(), calibration_data=_data(_plain()), search_ranges=False)
    large()
    quarkfast.quantize(make(_plain()), tmp_path / "q.onnx", calibration_data=_data(_plain()), search_ranges=False)
    assert opened[-1][1].parent == tmp_path.resolve()
    assert _content(tmp_path / "q.onnx") == _content(small.model_bytes)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["q.onnx", "q.onnx.data", "temporary"]


def test_constants_in_several_folders_are_brought_together(tmp_path, temporary, large):
    one, other = (ir.load(_store(_plain(), tmp_path / name)) for name in ("one", "other"))
    expected = quarkfast.calibrate(one, _data(_plain()))
    one.graph.initializers["w2"].const_value = other.graph.initializers["w2"].const_value
    large()
    assert quarkfast.calibrate(one, _data(_plain())) == expected


def test_a_data_file_may_lie_in_a_folder_below_the_model(tmp_path, large, opened):
    (tmp_path / "in" / "data").mkdir(parents=True)
    model = _store(_plain(), tmp_path / "in", "data/weights")
    expected = quarkfast.calibrate(model, _data(_plain()))
    large()
    assert quarkfast.calibrate(model, _data(_plain())) == expected
    assert opened[-1][1] == (tmp_path / "in").resolve()


def _constants(proto, where):
    """Moves the weights of a model into Constant nodes: of the graph, or of a function that all of it becomes."""
    nodes = [onnx.helper.make_node("Constant", [], [t.name], value=t) for t in proto.graph.initializer]
    nodes += proto.graph.node
    del proto.graph.initializer[:], proto.graph.node[:]
    if where == "graph":
        proto.graph.node.extend(nodes)
        return proto
    proto.functions.append(onnx.helper.make_function("own", "All", ["x"], ["y"], nodes, proto.opset_import))
    proto.opset_import.append(onnx.helper.make_opsetid("own", 1))
    proto.graph.node.append(onnx.helper.make_node("All", ["x"], ["y"], domain="own", name="all"))
    return proto


@pytest.mark.parametrize("where", ["graph", "function"])
def test_constant_nodes_may_lie_in_files(where, tmp_path, large, opened):
    proto = _constants(_plain(), where)
    options = {"calibration_data": _data(proto), "search_ranges": False}
    expected = quarkfast.quantize(proto, **options)
    offset, data = 0, b""
    nodes = proto.graph.node if where == "graph" else proto.functions[0].node
    for tensor in [node.attribute[0].t for node in nodes if node.op_type == "Constant"]:
        data += tensor.raw_data
        onnx.external_data_helper.set_external_data(tensor, "weights", offset, len(tensor.raw_data))
        tensor.ClearField("raw_data")
        offset = len(data)
    (tmp_path / "weights").write_bytes(data)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    large()
    result = quarkfast.quantize(tmp_path / "m.onnx", tmp_path / "q.onnx", **options)
    assert _content(tmp_path / "q.onnx") == _content(expected.model_bytes)
    assert opened[-1][1] == tmp_path.resolve()
    assert result.summary.bytes_before == (tmp_path / "m.onnx").stat().st_size + len(data)
    (tmp_path / "weights").rename(tmp_path / "r.onnx.data")
    for tensor in [node.attribute[0].t for node in nodes if node.op_type == "Constant"]:
        tensor.external_data[0].value = "r.onnx.data"
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(OutputError, match="expected a name whose data file is not in use"):
        quarkfast.quantize(tmp_path / "m.onnx", tmp_path / "r.onnx", calibration_data=_data(proto))


def test_bodies_may_refer_to_files(tmp_path, large, opened):
    text = """g (bool c, float[N, 12] x) => (float[N, 8] y) {
        y = If (c) <
            then_branch = t () => (float[N, 8] a) { a = MatMul (x, w) },
            else_branch = e () => (float[N, 8] b) { b = Gemm <alpha = 0.5> (x, w) }
        >
    }"""
    proto = tiny_model(text, {"w": np.ones((12, 8), np.float32)})
    for attribute in proto.graph.node[0].attribute:
        attribute.g.initializer.append(proto.graph.initializer[0])
    del proto.graph.initializer[:]
    feeds = [{"c": np.array(c), "x": x[None]} for c, x in zip([True, False], samples(2, (12,)), strict=True)]
    model = _store(proto, tmp_path / "in")
    expected = quarkfast.calibrate(model, feeds, preset="A8W8")
    large()
    assert quarkfast.calibrate(model, feeds, preset="A8W8") == expected
    assert opened[-1][1] == (tmp_path / "in").resolve()


def test_a_calibration_of_a_large_model_is_that_of_a_small_one(tmp_path, temporary, large):
    model = _store(conv_relu_model(), tmp_path / "in")
    expected = quarkfast.calibrate(model, X, preset="A8W8")
    small = quarkfast.quantize(model, calibration=expected)
    large()
    found = quarkfast.calibrate(model, X, tmp_path / "c.json", preset="A8W8")
    assert found == expected
    assert found.key == expected.key
    quarkfast.quantize(model, tmp_path / "q.onnx", calibration=tmp_path / "c.json")
    assert _content(tmp_path / "q.onnx") == _content(small.model_bytes)


def test_workers_read_the_same_files(tmp_path, large, opened):
    model = _store(_plain(), tmp_path / "in")
    expected = quarkfast.calibrate(model, _data(_plain()), batch_size=1)
    large()
    with ThreadPoolExecutor(2) as executor:
        assert quarkfast.calibrate(model, _data(_plain()), batch_size=1, executor=executor) == expected
    assert {folder for _, folder in opened[1:]} == {(tmp_path / "in").resolve()}


@pytest.mark.parametrize("error", [KeyboardInterrupt, CalibrationError])
def test_a_run_that_is_cut_short_leaves_no_file(error, tmp_path, temporary, large):
    def feeds():
        yield from [{"x": X[:1]}] * 20  # more than are read ahead of the calibration
        assert any(path.name.startswith(".quarkfast") for path in (*tmp_path.iterdir(), *temporary.iterdir()))
        raise error

    large()
    with pytest.raises(error):
        quarkfast.quantize(conv_relu_model(), tmp_path / "q.onnx", calibration_data=feeds())
    with pytest.raises(error):
        quarkfast.calibrate(conv_relu_model(), feeds())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["temporary"]


def test_a_disk_without_room_for_weights_meets_a_sentence(tmp_path, large, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    large()
    monkeypatch.setattr("quarkfast.graph.external.DataFile.write", full)
    with pytest.raises(
        OutputError, match=r"calibration: expected room for \d+ bytes of weights in '.*', got No space left on device"
    ):
        quarkfast.quantize(_plain(), tmp_path / "q.onnx", calibration_data=_data(_plain()))
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(OutputError, match=r"output: expected a folder .*No space left on device"):
        quarkfast.quantize(_plain(), tmp_path / "q.onnx", calibration_data=_data(_plain()))


def test_a_large_result_without_an_output_is_refused(large):
    large()
    sentence = "quantize: expected an output for a model of more than 2 GiB, got none"
    with pytest.raises(UnsupportedError, match=sentence):
        quarkfast.quantize(_plain(), calibration_data=_data(_plain()))
    with pytest.warns(UserWarning, match="nothing in the model"), pytest.raises(UnsupportedError, match=sentence):
        quarkfast.quantize(_plain(), exclude_op_types=["MatMul", "Add", "Relu"])


def test_a_large_model_of_which_nothing_is_quantized_is_copied(tmp_path, large):
    model, nothing = _store(_plain(), tmp_path / "in"), {"exclude_op_types": ["MatMul", "Add", "Relu"]}
    with pytest.warns(UserWarning, match="nothing in the model can be quantized"):
        small = quarkfast.quantize(model, **nothing)
    large()
    with pytest.warns(UserWarning, match="nothing in the model can be quantized"):
        quarkfast.quantize(model, tmp_path / "q.onnx", **nothing)
    assert _content(tmp_path / "q.onnx") == _content(small.model_bytes)


def test_a_model_whose_constants_are_not_in_files_is_refused_as_one_protobuf(large, monkeypatch):
    large()
    monkeypatch.setattr("quarkfast.graph.save.PROTOBUF_LIMIT", 1)
    model = ir.from_proto(_plain())
    with pytest.raises(UnsupportedError, match="model: expected tensors of at most 1 bytes in all, got"):
        proto_and_folder(model)
    with constants_in_files(model):
        proto, folder = proto_and_folder(model)
        assert folder is not None
        assert all(tensor.data_location == 1 for tensor in proto.graph.initializer)


def test_an_older_onnxruntime_gets_a_graph_beside_the_weights(tmp_path, large, monkeypatch):
    model = _store(conv_relu_model(), tmp_path / "in")
    expected = quarkfast.calibrate(model, X, preset="U8S8", equalize=False)
    large()
    monkeypatch.setattr(ort, "_FOLDER_OPTION", (99, 0))
    assert quarkfast.calibrate(model, X, preset="U8S8", equalize=False) == expected
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["m.onnx", "weights"]


@pytest.mark.parametrize("refused", [(tempfile, "mkstemp"), (os, "fdopen")], ids=["no permission", "no room"])
def test_an_older_onnxruntime_without_room_beside_the_weights_meets_a_sentence(tmp_path, large, monkeypatch, refused):
    model = _store(conv_relu_model(), tmp_path / "in")
    large()
    monkeypatch.setattr(ort, "_FOLDER_OPTION", (99, 0))
    before = sorted(path.name for path in (tmp_path / "in").iterdir())

    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*refused, refuse)
    with pytest.raises(
        UnsupportedError,
        match=r"inference_session: expected to write a graph beside its weights in '.*in', got No space left on device",
    ):
        quarkfast.calibrate(model, X, preset="U8S8", equalize=False)
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == before


def test_the_memory_of_a_large_model_is_forecast_from_its_files(tmp_path, large):
    model = _store(_plain(), tmp_path / "in")
    large()
    with pytest.raises(CalibrationError, match="max_memory: expected at least"):
        quarkfast.calibrate(model, _data(_plain()), max_memory="1MB")


@pytest.mark.exhaustive
def test_a_model_of_more_than_2_gib_is_quantized(tmp_path):
    """2.2 GB in a table and a product, of numbers that repeat; 3 GB of disk."""
    words, width = 135168, 2048
    text = f"""g (int64[N] x) => (float[N, {words}] y) {{
        e = Gather (table, x)
        y = MatMul (e, head)
    }}"""
    proto = tiny_model(text)
    block = np.random.default_rng(0).standard_normal(width * 1024).astype(np.float32)
    with (tmp_path / "weights").open("wb") as file:
        for name, shape in (("table", (words, width)), ("head", (width, words))):
            tensor = proto.graph.initializer.add(name=name, data_type=onnx.TensorProto.FLOAT, dims=shape)
            tensor.raw_data = b""
            onnx.external_data_helper.set_external_data(tensor, "weights", file.tell(), 4 * words * width)
            tensor.ClearField("raw_data")
            for start in range(words // 1024):
                file.write(np.roll(block, start).data)
    onnx.save(proto, tmp_path / "m.onnx")
    x = np.arange(0, words, 4099)
    quarkfast.quantize(tmp_path / "m.onnx", tmp_path / "q.onnx", "A8W8", x)
    onnx.checker.check_model(tmp_path / "q.onnx")
    expected, found = (exact_session(tmp_path / name).run(None, {"x": x})[0] for name in ("m.onnx", "q.onnx"))
    # Table, its rows, weights and sums: each is normal within 6 deviations, so a step of 12 / 255 of one adds noise
    # of (12 / 255)^2 / 12 of their square, and four add up to 31.3 dB.
    assert sqnr(expected, found) > 31.3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "q.onnx", "q.onnx.data", "weights"]
    for path in tmp_path.iterdir():
        path.unlink()


@pytest.fixture
def written(monkeypatch):
    """Constants go to a file whatever the size of the model."""
    monkeypatch.setattr("quarkfast.graph.external_constants._WRITTEN", 0)
    monkeypatch.setattr("quarkfast.graph.external_constants._LEAST", 200)


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8", "A16W8", "DYNAMIC", "BFP16"])
@pytest.mark.parametrize("make", [_plain, conv_relu_model])
def test_a_model_that_fits_is_calibrated_from_a_temporary_file(tmp_path, temporary, make, preset, opened, request):
    proto = make()
    options = {"preset": preset, "calibration_data": _data(proto), "strict": True}
    expected = quarkfast.quantize(proto, **options).model_bytes
    assert all(folder is None or folder.parent == temporary for _, folder in opened)
    request.getfixturevalue("written")
    opened.clear()
    result = quarkfast.quantize(proto, tmp_path / "q.onnx", **options)
    assert result.model_bytes == expected == (tmp_path / "q.onnx").read_bytes()
    if opened:  # not where the preset needs no samples
        assert opened[0][1].parent == tmp_path.resolve()
        kept = onnx.load_model_from_string(opened[0][0]).graph.initializer
        assert sum(len(tensor.raw_data) for tensor in kept if tensor.data_location != 1) < 200
    assert sorted(path.name for path in tmp_path.iterdir()) == ["q.onnx", "temporary"]


def test_nothing_of_the_protobuf_that_the_model_was_read_from_is_kept(written):
    model = load_model(_plain())
    values = model.graph.initializers.values()
    read = {value.name: value.const_value.raw for value in values}
    with constants_in_files(model):
        assert {name for name, value in model.graph.initializers.items() if value.const_value.nbytes >= 200} == {
            value.name for value in values if isinstance(value.const_value, ir.ExternalTensor)
        }
        small = {value.name: value.const_value.raw for value in values if value.const_value.nbytes < 200}
        assert small == {"b1": read["b1"]}
        assert small["b1"] is not read["b1"]


def test_new_constants_of_a_model_in_files_get_a_file_beside_theirs(written):
    model = load_model(_plain())
    values = model.graph.initializers.values()
    with constants_in_files(model):
        first, *others = (value for value in values if isinstance(value.const_value, ir.ExternalTensor))
        kept, doubled = {value: value.const_value for value in others}, 2 * first.const_value.numpy()
        first.const_value = ir.tensor(doubled)
        with constants_in_files(model):
            assert {value: value.const_value for value in others} == kept
            assert len({value.const_value.location for value in (first, *others)}) == 2
            np.testing.assert_array_equal(first.const_value.numpy(), doubled)
            assert proto_and_folder(model)[1] is not None


def test_a_disk_without_room_for_weights_leaves_a_model_that_fits_in_memory(tmp_path, written, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    expected = quarkfast.quantize(_plain(), calibration_data=_data(_plain())).model_bytes
    monkeypatch.setattr("quarkfast.graph.external.DataFile.write", full)
    assert quarkfast.quantize(_plain(), tmp_path / "q.onnx", calibration_data=_data(_plain())).model_bytes == expected
    assert [path.name for path in tmp_path.iterdir()] == ["q.onnx"]


def test_workers_get_the_weights_of_a_model_that_fits_with_the_graph(temporary, written):
    expected = quarkfast.calibrate(_plain(), _data(_plain()))
    sent = []

    class Elsewhere(ThreadPoolExecutor):
        def submit(self, work, model, *rest):
            sent.append(model)
            return super().submit(work, model, *rest)

    with Elsewhere(2) as executor:
        assert quarkfast.calibrate(_plain(), _data(_plain()), executor=executor) == expected
    assert all(folder is None for _, folder in sent)
    assert sent
