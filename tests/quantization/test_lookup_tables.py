"""Embedding tables have a scale for each column, and their codes turn float behind the lookup."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from support.processors import run_exact
from support.tiny_models import tiny_model

WORDS, POSITIONS, WIDTH, TOKENS = 64, 32, 16, 12

# Word and position embeddings of a sentence encoder, whose sum is normalized.
ENCODER = """g (int64[N, T] ids) => (float[N, T, 16] y) {
    words = Gather(table, ids)
    length = Shape<start = 1, end = 2>(ids)
    some = Slice(places, start, length, axis)
    sum = Add(words, some)
    h = LayerNormalization(sum, gain)
    y = MatMul(h, w)
}"""
# Words in front of a layer, with a move between.
LAYER = """g (int64[N, 12] ids) => (float[N, 16, 12] y) {
    words = Gather(table, ids)
    turned = Transpose<perm = [0, 2, 1]>(words)
    y = Conv(turned, kernel)
}"""
# The same in front of a function that no target has a rule for.
FLOAT = """g (int64[N, 12] ids) => (float[N, 16, 12] y) {
    words = Gather(table, ids)
    turned = Transpose<perm = [0, 2, 1]>(words)
    curved = Celu(turned)
    y = Conv(curved, kernel)
}"""


def _constants():
    rng = np.random.default_rng(8)
    scales = np.float32(10.0 ** np.linspace(-2, 0, WIDTH))
    return {
        "table": (rng.standard_normal((WORDS, WIDTH)) * scales).astype(np.float32),
        "places": (rng.standard_normal((POSITIONS, WIDTH)) * scales).astype(np.float32),
        "kernel": rng.standard_normal((WIDTH, WIDTH, 1)).astype(np.float32),
        "w": rng.standard_normal((WIDTH, WIDTH)).astype(np.float32),
        "gain": (1 / scales).astype(np.float32),
        "start": np.int64([0]), "axis": np.int64([0]),
    }  # fmt: skip


def _model(text=ENCODER, opset=17, **changed):
    arrays = _constants() | changed
    return tiny_model(text, {name: array for name, array in arrays.items() if name in text}, opset)


def _ids(rng, rows=16):
    return {"ids": rng.integers(0, WORDS, (rows, TOKENS))}


def _quantized(rng, model, preset="A8W8", **options):
    return onnx.load_from_string(
        quarkfast.quantize(model, preset=preset, calibration_data=_ids(rng), **options).model_bytes
    )


def _arrays(model):
    return {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}


def _behind(model, op_type):
    """Returns the operator types that read what nodes of `op_type` give."""
    given = {name for node in model.graph.node if node.op_type == op_type for name in node.output}
    return {node.op_type for node in model.graph.node if given & set(node.input)}


@pytest.mark.parametrize("preset", ["A8W8", "U8S8"])
def test_rows_are_codes_until_they_are_looked_up(rng, preset):
    found = _quantized(rng, _model(), preset)
    arrays = _arrays(found)
    for name, rows in (("table", WORDS), ("places", POSITIONS)):
        assert name not in arrays
        assert (arrays[f"{name}_quantized"].dtype, arrays[f"{name}_quantized"].shape) == (np.int8, (rows, WIDTH))
        largest = np.abs(_constants()[name]).max(axis=0)
        np.testing.assert_allclose(arrays[f"{name}_scale"], largest / 127, rtol=1e-6)
        (rows,) = (node.output[0] for node in found.graph.node if f"{name}_quantized" in node.input)
        (reader,) = (node for node in found.graph.node if rows in node.input)
        assert reader.op_type == "DequantizeLinear"
        assert onnx.helper.get_node_attr_value(reader, "axis") == -1


def test_the_report_has_what_tables_lose(rng):
    found = quarkfast.quantize(_model(), preset="U8S8", calibration_data=_ids(rng)).summary.records.tensors
    for name in ("table", "places"):
        assert (found[name].kind, found[name].scales) == ("weight", WIDTH)
        # Columns of normal numbers below 4: each has a power of one beside a noise of at most (4 / 127)^2 / 12.
        assert found[name].sqnr > 10 * np.log10(12 * (127 / 4) ** 2)


@pytest.mark.parametrize("preset", ["A8W8", "U8S8"])
def test_small_columns_keep_their_digits(rng, preset):
    """One scale for a table gives a column of a hundredth of the largest one a code or two on each side of zero."""
    model, data = _model("""g (int64[N, 12] ids) => (float[N, 12, 16] y) {
        words = Gather(table, ids)
        y = LayerNormalization(words, gain)
    }"""), _ids(rng, 64)  # fmt: skip
    options = {"calibration_data": _ids(rng), "op_types": ["Gather"]}
    result = quarkfast.quantize(model, preset=preset, **options)
    expected, got = run_exact(model, data)[0], run_exact(result.model_bytes, data)[0]
    # The gain makes columns alike: each has a noise of (largest / 127)^2 / 12 beside a power of one, and the largest of
    # 64 normal numbers is below 4. The mean and deviation that rows are normalized by add no more than that.
    most = 2 * (4 / 127) ** 2 / 12
    assert np.square(got - expected).sum() < most * np.square(expected).sum()


def test_a_table_takes_a_quarter_of_its_bytes(rng):
    table = rng.standard_normal((4096, WIDTH)).astype(np.float32)
    assert _quantized(rng, _model(table=table), "U8S8").ByteSize() < table.nbytes / 4 + 8192


def test_codes_that_a_layer_goes_on_with_keep_one_scale(rng):
    found = _quantized(rng, _model(LAYER))
    assert _arrays(found)["table_scale"].shape == ()
    assert _behind(found, "Gather") == {"QuantizeLinear"}


def test_what_moves_rows_on_to_floats_moves_floats(rng):
    result = quarkfast.quantize(_model(FLOAT), preset="A8W8", calibration_data=_ids(rng))
    found = onnx.load_from_string(result.model_bytes)
    assert _arrays(found)["table_scale"].shape == (WIDTH,)
    assert _behind(found, "Transpose") == {"Celu"}
    assert [each.reason for each in result.summary.left_float if each.op_type == "Transpose"] == ["its input is float"]


@pytest.mark.filterwarnings("ignore:quantize. expected a float model")
@pytest.mark.parametrize("text", [ENCODER, FLOAT], ids=["encoder", "moved"])
def test_a_table_of_codes_stays_as_it_is(rng, text):
    once = _quantized(rng, _model(text), equalize=False)
    twice = _quantized(rng, once, equalize=False)
    assert [node.op_type for node in twice.graph.node] == [node.op_type for node in once.graph.node]
    np.testing.assert_equal(_arrays(twice), _arrays(once))


@pytest.mark.parametrize("preset", ["A8W8", "INT8_WO"])
def test_inspect_counts_tables(rng, tmp_path, preset):
    path = tmp_path / "model.onnx"
    model = _model("""g (int64[N, 12] ids) => (float[N, 12, 16] y) {
        words = Gather(table, ids)
        y = Celu(words)
    }""")
    quarkfast.quantize(model, path, preset, _ids(rng))
    constants = [each for each in quarkfast.inspect_model(path).quantized if each.what == "constants"]
    assert [(each.dtype, each.granularity, each.count) for each in constants] == [("int8", "channel", 1)]


def test_rows_that_a_layer_reads_have_a_pair_behind_their_codes(rng):
    found = _quantized(rng, _model(LAYER), "U8S8")
    assert _arrays(found)["table_scale"].shape == (WIDTH,)
    assert {"DequantizeLinear"} == _behind(found, "Gather")
    assert "QuantizeLinear" in {node.op_type for node in found.graph.node}


@pytest.mark.parametrize(
    ("options", "opset"),
    [({"strict": True}, 17), ({"exclude": ["gather_0"]}, 17), ({"tensors": {"table": {"method": "minmse"}}}, 17)],
    ids=["strict", "excluded", "own"],
)
def test_what_the_user_says_comes_first(rng, options, opset):
    found = _arrays(_quantized(rng, _model(opset=opset), **options))
    assert "table" in found or found["table_scale"].shape == ()


def test_an_older_operator_set_has_no_axis(rng):
    text = FLOAT.replace("Celu", "Selu")
    found = _quantized(rng, _model(text, 12))
    assert _arrays(found)["table_scale"].shape == ()
    assert found.opset_import[0].version == 12


def test_powers_of_two_and_sixteen_bits_keep_one_scale(rng):
    for preset in ("XINT8", "A16W8"):
        assert _arrays(_quantized(rng, _model(), preset))["table_scale"].shape == ()


def test_a_table_with_a_row_far_above_all_others_stays_float_where_it_did(rng):
    table = _constants()["table"]
    table[3] *= 1000
    assert "table" in _arrays(_quantized(rng, _model(table=table), "U8S8"))
    # In A8W8 it had one scale before.
    assert _arrays(_quantized(rng, _model(table=table)))["table_scale"].shape == (WIDTH,)


def test_a_table_that_a_layer_multiplies_keeps_its_form(rng):
    tied = ENCODER.replace("y = MatMul(h, w)", "y = MatMul(h, table)").replace("16] y", "64] y")
    table = _constants()["table"][:WIDTH]
    ids = {"ids": rng.integers(0, WIDTH, (16, TOKENS))}
    model = _model(tied.replace("64] y", "16] y"), table=table)
    result = quarkfast.quantize(model, preset="U8S8", calibration_data=ids)
    assert "table" in _arrays(onnx.load_from_string(result.model_bytes))


def test_rows_that_are_an_output_stay_as_they_are(rng):
    model = _model("""g (int64[N, 12] ids) => (float[N, 12, 16] y, float[N, 12, 16] words) {
        words = Gather(table, ids)
        y = MatMul(words, w)
    }""")
    assert "table" in _arrays(_quantized(rng, model, "U8S8"))


def test_rows_across_columns_are_no_rows(rng):
    model = _model("""g (int64[K] columns) => (float[32, K] y) {
        picked = Gather<axis = 1>(places, columns)
        y = Celu(picked)
    }""")
    data = {"columns": rng.integers(0, WIDTH, 5)}
    found = onnx.load_from_string(quarkfast.quantize(model, preset="A8W8", calibration_data=[data]).model_bytes)
    assert _arrays(found)["places_scale"].shape == ()


@pytest.mark.parametrize("option", ["contrib_pairs", "keep_float_weights"])
def test_other_spellings_run(rng, option):
    model, data = _model(), _ids(rng, 4)
    found = _quantized(rng, model, **{option: True})
    expected, got = run_exact(model, data)[0], run_exact(found, data)[0]
    assert np.square(got - expected).sum() < 0.01 * np.square(expected).sum()
