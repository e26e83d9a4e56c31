"""Residual streams in another basis: the same outputs, and channels of which none stands out."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quarkfast
from quarkfast.algorithms.hadamard import hadamard_rotation, mean_keeping_rotation
from quarkfast.algorithms.hadamard_rotation import HadamardRotationSettings, rotate_streams
from quarkfast.config import PRESETS, scheme_from
from quarkfast.config.quark import QuantizationConfig, get_default_config, scheme_of
from quarkfast.config.quark.translate import with_algorithms
from quarkfast.errors import UnsupportedError
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.graph.load import load_model
from quarkfast.graph.notes import notes_of
from quarkfast.graph.save import serialize
from support.tiny_models import arrays_of, tiny_model

WIDTH, HIDDEN, WORDS = 48, 96, 50


def _norm(source, result):
    return f"""
        {result}2 = Pow (x{source}, two)
        {result}m = ReduceMean <axes = [-1]> ({result}2)
        {result}e = Add ({result}m, epsilon)
        {result}s = Sqrt ({result}e)
        {result}d = Div (x{source}, {result}s)
        {result} = Mul ({result}d, g{result})"""


TEXT = f"""g (int64[N, 8] ids) => (float[N, 8, {WORDS}] y) {{
    x0 = Gather (table, ids)
    {_norm(0, "a")}
    q = MatMul (a, wq)
    k = MatMul (a, wk)
    v = MatMul (a, wv)
    kt = Transpose <perm = [0, 2, 1]> (k)
    scores = MatMul (q, kt)
    weights = Softmax <axis = -1> (scores)
    mixed = MatMul (weights, v)
    o = MatMul (mixed, wo)
    ob = Add (o, bo)
    x1 = Add (x0, ob)
    {_norm(1, "b")}
    h = MatMul (b, w1)
    r = Relu (h)
    f = MatMul (r, w2)
    x2 = Add (x1, f)
    {_norm(2, "c")}
    y = MatMul (c, head)
}}"""
SHAPES = {
    "table": (WORDS, WIDTH), "wq": (WIDTH, 16), "wk": (WIDTH, 16), "wv": (WIDTH, 16), "wo": (16, WIDTH), "bo": (WIDTH,),
    "w1": (WIDTH, HIDDEN), "w2": (HIDDEN, WIDTH), "head": (WIDTH, WORDS),
    "ga": (WIDTH,), "gb": (WIDTH,), "gc": (WIDTH,),
}  # fmt: skip


def _transformer(text=TEXT, **changed):
    """A layer of a transformer; two channels of its stream reach thirty times as far as the others."""
    rng = np.random.default_rng(5)
    arrays = {name: rng.normal(0, shape[0] ** -0.5, shape) for name, shape in SHAPES.items()}
    arrays["table"] = rng.normal(size=SHAPES["table"])
    arrays |= {name: rng.uniform(0.5, 1.5, WIDTH) for name in ("ga", "gb", "gc")}
    for name in ("table", "wo", "w2"):
        arrays[name][:, [3, 20]] *= 30
    arrays |= {"two": np.array(2.0), "epsilon": np.array(1e-6)} | changed
    return tiny_model(text, {name: array.astype(np.float32) for name, array in arrays.items() if name in text})


def _ids(count, seed=1):
    return np.random.default_rng(seed).integers(0, WORDS, (count, 8))


def _outputs(model, ids):
    return exact_session(model).run(None, {"ids": ids})[0]


@pytest.mark.parametrize("size", [1, 2, 8, 12, 20, 24, 28, 40, 56, 384, 1536])
def test_a_hadamard_matrix_has_elements_of_one_magnitude(size):
    for signs in (False, True):
        matrix = hadamard_rotation(size, random_signs=signs) * np.sqrt(size)
        np.testing.assert_allclose(np.abs(matrix), 1, rtol=1e-12)
        np.testing.assert_array_equal(np.rint(matrix) @ np.rint(matrix).T, size * np.eye(size))


@pytest.mark.parametrize(("size", "block"), [(3, 1), (6, 2), (36, 12), (72, 24), (100, 20), (1152, 384)])
def test_other_sizes_have_blocks(size, block):
    matrix = hadamard_rotation(size)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(size), atol=1e-12)
    assert (matrix != 0).sum(axis=1).tolist() == [block] * size


def test_signs_are_those_of_every_run():
    assert np.array_equal(hadamard_rotation(24, random_signs=True), hadamard_rotation(24, random_signs=True))
    assert not np.array_equal(hadamard_rotation(24, random_signs=True), hadamard_rotation(24))


@pytest.mark.parametrize("signs", [False, True])
def test_a_rotated_transformer_computes_what_it_did(signs):
    proto = _transformer()
    model = load_model(proto)
    assert rotate_streams(model, HadamardRotationSettings(signs)) == 1
    found = serialize(model)
    ids = _ids(16)
    expected, got = _outputs(proto, ids), _outputs(found, ids)
    # Each constant is rounded to float32 once more, 2^-24 of what it holds and as often as layers follow each other:
    # 120 dB leaves 24 dB for the sums of the nine products, which have other orders.
    assert sqnr(expected, got) > 120
    before, after = arrays_of(load_model(proto)), arrays_of(model)
    assert np.abs(after["table"]).max() < np.abs(before["table"]).max() / 3
    assert all((after[name] == 1).all() for name in ("ga", "gb", "gc"))
    assert rotate_streams(model, HadamardRotationSettings(signs)) == 0
    assert serialize(model) == found
    assert notes_of(model) == ("Hadamard rotation: 1 residual streams turned",)


def test_activations_of_eight_bits_cost_less_with_it():
    ids = _ids(32, 2)
    expected = _outputs(_transformer(), ids)
    plain, turned = (
        sqnr(
            expected,
            _outputs(
                quarkfast.quantize(
                    _transformer(), None, "A8W8", {"ids": _ids(32)}, rotation=rotation, equalize=False
                ).model_bytes,
                ids,
            ),
        )
        for rotation in ("none", "hadamard")
    )
    assert turned > plain + 3


BLOCKED = {
    "a mean that is subtracted": (
        TEXT.replace("c2 = Pow (x2, two)", "xm = ReduceMean <axes = [-1]> (x2) x3 = Sub (x2, xm) c2 = Pow (x3, two)")
        .replace("cd = Div (x2, cs)", "cd = Div (x3, cs)"),
        "reads or writes it",
    ),
    "a gain that a sum reads": (TEXT.replace("x1 = Add (x0, ob)", "x1 = Add (a, ob)"), "others than products"),
    "a table that is read twice": (
        TEXT.replace("y = MatMul (c, head)", "t = Transpose (table)\n y = MatMul (c, t)"), "has "),
    "a function": (TEXT.replace("x2 = Add (x1, f)", "xf = Add (x1, f)\n x2 = Tanh (xf)"), "Tanh .* reads or writes it"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), BLOCKED.values(), ids=BLOCKED)
def test_what_no_rotation_passes_through_is_left_with_a_note(text, reason):
    proto = _transformer(text)
    model = load_model(proto)
    rotate_streams(model, HadamardRotationSettings())
    expected = _outputs(proto, _ids(4))
    assert sqnr(expected, _outputs(serialize(model), _ids(4))) > 120
    first, last = notes_of(model)[0], notes_of(model)[-1]
    assert re.search(f"Hadamard rotation left a residual stream as it is: .*{reason}", first)
    assert last.startswith("Hadamard rotation: ")


def test_a_stream_in_which_no_channel_stands_out_stays():
    rng = np.random.default_rng(8)
    names = ("table", "wo", "w2", "wq", "wk", "wv", "w1", "head")
    plain = {name: rng.choice((-1.0, 1.0), SHAPES[name]) for name in names}
    proto = _transformer(**plain, **{name: np.ones(WIDTH) for name in ("ga", "gb", "gc")})
    model = load_model(proto)
    assert rotate_streams(model, HadamardRotationSettings()) == 0
    before, after = arrays_of(load_model(proto)), arrays_of(model)
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert "no channel stands out, by its weights" in notes_of(model)[0]


def test_a_norm_that_is_one_operator_is_turned_too():
    text = f"""g (int64[N, 8] ids) => (float[N, 8, {WORDS}] y) {{
        x0 = Gather (table, ids)
        a = RMSNormalization (x0, ga)
        y = MatMul (a, head)
    }}"""
    model = load_model(_transformer(text))
    assert rotate_streams(model, HadamardRotationSettings()) == 1
    assert (arrays_of(model)["ga"] == 1).all()


LAYER_NORMS = re.sub(
    r"(\w)2 = Pow \(x(\d), two\).*?\1 = Mul \(\1d, g\1\)", r"\1 = LayerNormalization (x\2, g\1, o\1)", TEXT, flags=re.S
)


def _centred(seed=5, spread=30.0, **changed):
    """The transformer with layer normalizations, which have offsets."""
    rng = np.random.default_rng(seed)
    arrays = {name: rng.normal(0, shape[0] ** -0.5, shape) for name, shape in SHAPES.items()}
    arrays["table"] = rng.normal(0.3, 1, SHAPES["table"])
    arrays |= {name: rng.uniform(0.5, 1.5, WIDTH) * rng.choice((-1, 1), WIDTH) for name in ("ga", "gb", "gc")}
    arrays |= {name: rng.normal(0, 0.2, WIDTH) for name in ("oa", "ob", "oc")}
    for name in ("table", "wo", "w2"):
        arrays[name][:, [3, 20]] *= spread
    text = LAYER_NORMS.replace("ob = Add (o, bo)", "oo = Add (o, bo)").replace("Add (x0, ob)", "Add (x0, oo)")
    return tiny_model(text, {name: each.astype(np.float32) for name, each in (arrays | changed).items()}, 17)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**16), signs=st.booleans())
def test_layer_normalizations_are_turned_by_what_keeps_their_mean(seed, signs):
    proto = _centred(seed)
    model = load_model(proto)
    assert rotate_streams(model, HadamardRotationSettings(signs)) == 1
    assert sqnr(_outputs(proto, _ids(8)), _outputs(serialize(model), _ids(8))) > 110
    before, after = arrays_of(load_model(proto)), arrays_of(model)
    assert np.abs(after["table"]).max() < np.abs(before["table"]).max() / 1.5
    np.testing.assert_allclose(after["table"].mean(axis=1), before["table"].mean(axis=1), atol=1e-5)
    assert all((after[name] == 1).all() for name in ("ga", "gb", "gc"))


@pytest.mark.parametrize("size", [1, 2, 8, 12, 24, 36, 100, 384])
def test_a_rotation_may_keep_means(size):
    for signs in (False, True):
        matrix = mean_keeping_rotation(size, random_signs=signs)
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(size), atol=1e-12)
        np.testing.assert_allclose(matrix.sum(axis=0), np.ones(size), atol=1e-12)
        np.testing.assert_allclose(matrix.sum(axis=1), np.ones(size), atol=1e-12)
    assert np.array_equal(mean_keeping_rotation(size), mean_keeping_rotation(size))


def test_eight_bits_cost_less_with_layer_normalizations_turned():
    """With one scale for each tensor, the table too: where that has one for each column, less is left to gain."""
    ids, data = _ids(32, 2), {"ids": _ids(32)}
    expected = _outputs(_centred(), ids)
    plain, turned = (
        sqnr(expected, _outputs(quarkfast.quantize(_centred(), None, "A8W8", data, **options).model_bytes, ids))
        for options in (
            {"equalize": False, "strict": True},
            {"equalize": False, "strict": True, "rotation": "hadamard"},
        )
    )
    assert turned > plain + 3


def test_a_gain_of_zero_beside_an_offset_keeps_a_stream_as_it_is():
    gain = np.ones(WIDTH)
    gain[4] = 0
    proto = _centred(ga=gain)
    model = load_model(proto)
    assert rotate_streams(model, HadamardRotationSettings()) == 0
    assert "has a gain of zero beside an offset" in notes_of(model)[0]


def test_quarks_configuration_asks_for_it():
    layer = quarkfast.QLayerConfig(activation=quarkfast.Int8Spec(), weight=quarkfast.Int8Spec())
    for config, expected in (
        (quarkfast.QuarotConfig(), "hadamard"),
        (quarkfast.QuarotConfig(use_random_had=True), "random"),
    ):
        assert scheme_of(quarkfast.QConfig(layer, algo_config=[config])).rotation == expected
        assert with_algorithms(PRESETS["A8W8"], [config]).rotation == expected


def test_quarks_older_configuration_asks_for_it():
    def written(wanted=True, **options):
        config = get_default_config("S8S8_AAWS")
        config.include_rotation, config.extra_options = wanted, config.extra_options | options
        feed = [{"ids": _ids(2)}]
        return quarkfast.ModelQuantizer(quarkfast.Config(config)).quantize_model(_transformer(), None, feed)

    rotated = written().graph
    assert rotated != written(wanted=False).graph
    assert written(RMatrixDim=WIDTH).graph == rotated
    assert written(UseRandomHad=True).graph != rotated
    with pytest.raises(quarkfast.ConfigError, match="option UseRandomHad: expected QuaRot beside it, got none"):
        written(wanted=False, UseRandomHad=True)
    with pytest.warns(UserWarning, match="RConfigPath: 'pairs.json' has no effect: streams are found in the graph"):
        assert written(RConfigPath="pairs.json").graph == rotated


@pytest.mark.parametrize("alone", ["WeightsOnly", "UseGPTQ", "UseMatMulNBits"])
def test_no_configuration_of_quarks_rotates_weights_alone(alone):
    layer = quarkfast.QLayerConfig(activation=quarkfast.Int8Spec(), weight=quarkfast.Int8Spec())
    config = quarkfast.QConfig(layer, algo_config=[quarkfast.QuarotConfig()], extra_options={alone: True})
    with pytest.raises((quarkfast.ConfigError, UnsupportedError), match=r"got (INT8_WO|QuaRot); leave it out"):
        scheme_of(config)
    older = QuantizationConfig(include_rotation=True, extra_options={alone: True})
    with pytest.raises(quarkfast.ConfigError, match="rotation: expected a preset that quantizes activations"):
        scheme_of(older)


def test_a_file_of_pairs_is_not_read():
    found = with_algorithms(PRESETS["A8W8"], [quarkfast.QuarotConfig(r_config_path="pairs.json")])
    assert found == with_algorithms(PRESETS["A8W8"], [quarkfast.QuarotConfig()])
    with pytest.raises(quarkfast.ConfigError, match="QuarotConfig: r_config_path: expected a path or None, got 3"):
        with_algorithms(PRESETS["A8W8"], [quarkfast.QuarotConfig(r_config_path=3)])


def test_weights_alone_are_not_rotated():
    with pytest.raises(
        quarkfast.ConfigError, match="rotation: expected a preset that quantizes activations, got INT8_WO"
    ):
        scheme_from("INT8_WO", {"rotation": "hadamard"})
