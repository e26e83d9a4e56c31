import numpy as np
import onnx
import pytest

from quarkfast.evaluate import activation_store
from quarkfast.evaluate.activation_store import ActivationStore
from quarkfast.graph.load import load_model
from quarkfast.reconstruction import linear_layers
from quarkfast.reconstruction.stages import StagedModel
from support.tiny_models import run_exactly, tiny_model

# Two layers side by side, one behind both, and a residual that crosses them all.
BRANCHES = """g (float[N, 4] x) => (float[N, 4] y) {
    s = Relu (x)
    a = MatMul (s, u)
    b = MatMul (s, v)
    c = Add (a, b)
    d = MatMul (c, w)
    y = Add (d, s)
}"""


def _branches(rng):
    return tiny_model(BRANCHES, {name: rng.normal(size=(4, 4)).astype(np.float32) for name in "uvw"})


def _samples(rng, count=3):
    return [{"x": rng.normal(size=(1, 4)).astype(np.float32)} for _ in range(count)]


def _layers(proto, shared=()):
    return list(linear_layers(load_model(proto), shared=shared))


def _names(found):
    return [[[layer.node for layer in readers] for readers in stage] for stage in found]


@pytest.mark.parametrize("budget", [0, 1 << 20])
def test_layers_see_what_they_see_in_the_whole_model(budget, rng):
    proto, feeds = _branches(rng), _samples(rng)
    whole = onnx.ModelProto.FromString(proto.SerializeToString())
    whole.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in "sc")
    one, other, behind = layers = _layers(proto)
    with StagedModel(proto, layers, feeds, budget) as model:
        found = [model.layers_of(stage) for stage in range(model.stages + 1)]
        assert _names(found) == [[], [["matmul_1"], ["matmul_2"]], [["matmul_4"]]]
        model.run(0)
        for sample, feed in enumerate(feeds):
            _, s, _ = run_exactly(whole, feed)
            assert [model.input_of(each, sample).tolist() for each in (one, other)] == [s.tolist()] * 2
        model.run(1)
        for sample, feed in enumerate(feeds):
            assert model.input_of(behind, sample).tolist() == run_exactly(whole, feed)[2].tolist()


def test_sizes_that_an_earlier_stage_computes_are_those_of_a_resize(rng):
    """ONNX Runtime takes no sizes of an unknown number."""
    text = """g (float[1, 2, H, W] x) => (float[1, 2, H2, W2] y) {
        shape = Shape (x)
        sizes = Mul (shape, twice)
        a = Conv (x, u)
        large = Resize <mode = "linear"> (a, , , sizes)
        y = Conv (large, v)
    }"""
    weights = {name: rng.normal(size=(2, 2, 1, 1)).astype(np.float32) for name in "uv"}
    proto = tiny_model(text, weights | {"twice": np.int64([1, 1, 2, 2])})
    feeds = [{"x": rng.normal(size=(1, 2, 3, width)).astype(np.float32)} for width in (3, 4)]
    with StagedModel(proto, layers := _layers(proto), feeds, 1 << 20) as model:
        for stage in range(model.stages):
            model.run(stage)
        assert [model.input_of(layers[-1], sample).shape for sample in range(2)] == [(1, 2, 6, 6), (1, 2, 6, 8)]


def test_weights_that_are_replaced_before_their_stage_count(rng):
    proto, feeds = _branches(rng), _samples(rng)
    with StagedModel(proto, layers := _layers(proto), feeds, 1 << 20) as model:
        model.run(0)
        zeros = onnx.numpy_helper.from_array(np.zeros((4, 4), np.float32), "u")
        proto.graph.initializer[0].CopyFrom(zeros)
        model.run(1)
        s = np.maximum(feeds[0]["x"], 0)
        (v,) = (onnx.numpy_helper.to_array(each) for each in proto.graph.initializer if each.name == "v")
        # A sum of four products, each rounded to float32, in another order at most.
        np.testing.assert_allclose(model.input_of(layers[-1], 0), s @ v, atol=8 * np.finfo(np.float32).eps * 4)


def test_a_stage_reads_what_bodies_read(rng):
    text = """g (float[N, 4] x, bool p) => (float[N, 4] y) {
        s = Relu (x)
        a = MatMul (s, w)
        t = Neg (a)
        y = If (p) <then_branch = t () => (float[N, 4] o) { o = Add (t, s) },
                    else_branch = e () => (float[N, 4] q) { q = Sub (t, s) }>
        z = MatMul (y, v)
    }"""
    proto = tiny_model(text, {name: rng.normal(size=(4, 4)).astype(np.float32) for name in "wv"})
    feeds = [each | {"p": np.array(True)} for each in _samples(rng)]
    with StagedModel(proto, layers := _layers(proto), feeds, 0) as model:
        model.run(0)
        model.run(1)
        assert model.input_of(layers[-1], 1).tolist() == run_exactly(proto, feeds[1])[0].tolist()


def test_layers_that_share_a_weight_are_of_the_latest_stage_of_theirs(rng):
    text = """g (float[N, 4] x) => (float[N, 4] y, float[N, 4] z) {
        a = MatMul (x, u)
        y = MatMul (x, w)
        b = MatMul (a, v)
        z = MatMul (b, w)
    }"""
    proto, feeds = tiny_model(text, {name: rng.normal(size=(4, 4)).astype(np.float32) for name in "uvw"}), _samples(rng)
    _, first, _, last = layers = _layers(proto, shared={"w"})
    with StagedModel(proto, layers, feeds, 1 << 20) as model:
        found = [model.layers_of(stage) for stage in range(model.stages + 1)]
        assert _names(found) == [[], [["matmul_0"]], [["matmul_2"]], [["matmul_1", "matmul_3"]]]
        for stage in range(3):
            model.run(stage)
        u, v = (onnx.numpy_helper.to_array(each) for each in proto.graph.initializer if each.name in "uv")
        assert model.input_of(first, 2).tolist() == feeds[2]["x"].tolist()
        # Two sums of four products, each rounded to float32, in another order at most.
        near = 16 * np.finfo(np.float32).eps * (np.abs(feeds[2]["x"]) @ np.abs(u) @ np.abs(v)).max()
        np.testing.assert_allclose(model.input_of(last, 2), feeds[2]["x"] @ u @ v, atol=near)


PAGE = activation_store._PAGE


def test_the_store_keeps_within_its_budget_and_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    arrays = [np.full(10, index, np.float32) for index in range(4)]
    with ActivationStore(budget=80) as store:
        for index, array in enumerate(arrays):
            store.put("x", index, array)
        assert store.on_disk == 2 * PAGE
        assert [store.get("x", index).tolist() for index in range(4)] == [each.tolist() for each in arrays]
        store.drop("x", 0)
        assert "x" in store
        store.put("x", 0, arrays[0])
        assert store.on_disk == 2 * PAGE
        for index in range(4):
            store.drop("x", index)
        assert "x" not in store
        assert store.on_disk == 0
        store.put("y", 0, arrays[0])
        assert store.on_disk == 0
    assert not list(tmp_path.iterdir())


def test_pages_are_written_again(monkeypatch, rng):
    """Arrays of one page, of several and of parts of one, in pages that others left; some lie in another order."""
    monkeypatch.setattr(activation_store, "_PAGE", 16)
    kept = {}
    with ActivationStore(budget=0) as store:
        for index in range(60):
            if index % 3 == 2:
                gone = sorted(kept)[int(rng.integers(len(kept)))]
                store.drop("x", gone)
                del kept[gone]
            kept[index] = rng.normal(size=(int(rng.integers(1, 7)), 3)).astype(rng.choice(["f2", "f4", "f8"])).T
            store.put("x", index, kept[index])
        assert store.on_disk == sum(-(-array.nbytes // 16) * 16 for array in kept.values())
        for index, array in kept.items():
            found = store.get("x", index)
            assert (found.dtype, found.shape, found.tolist()) == (array.dtype, array.shape, array.tolist())


def test_an_empty_array_takes_nothing():
    with ActivationStore(budget=0) as store:
        store.put("x", 0, np.empty((0, 3), np.float32))
        assert (store.get("x", 0).shape, store.on_disk) == ((0, 3), 0)
