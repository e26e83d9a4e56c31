"""Quark's AdaRound and AdaQuant: each preset and each setting has its meaning here, or is refused in a sentence."""

from __future__ import annotations

from dataclasses import fields

import onnx
import pytest

import quarkfast
import quarkfast.compat.quark.onnx
from quarkfast.config.quark import get_default_config, scheme_of
from quarkfast.config.quark.algorithm import FinetuningConfig
from quarkfast.config.quark.finetuning import FINETUNING_KEYS
from quarkfast.config.quark.legacy import LEGACY_NAMES
from quarkfast.demo.data import MODEL, load_images

SUFFIXES = ("_ADAROUND", "_ADAQUANT", "_ACCURATE")
INTEGERS = ("XINT8", "S8S8_AAWS", "U8S8_AAWS", "S16S8_ASWS", "A8W8", "A16W8", "U16S8_AAWS")
PRESETS = (
    {f"{name}_{algorithm.upper()}": algorithm for name in INTEGERS for algorithm in ("adaround", "adaquant")}
    | {f"INT{bits}_{kind}_ACCURATE": "descent" for bits in (8, 16) for kind in ("CNN", "TRANSFORMER")}
    | {name: "adaquant" for name in LEGACY_NAMES if name.endswith("_ADAQUANT")}
)

# Field of the classes, key of FastFinetune, a value that is honoured, the setting that it becomes, one that is refused.
SETTINGS = [
    ("num_iterations", "NumIterations", 20, None, 0),
    ("learning_rate", "LearningRate", 0.02, None, -1.0),
    ("data_size", "DataSize", 1e9, "samples", float("inf")),
    ("early_stop", "EarlyStop", True, None, "yes"),
    ("update_bias", "UpdateBias", False, "update_bias", "no"),
    ("target_op_type", "TargetOpType", ["Conv"], "op_types", []),
    ("reg_param", "RegParam", 0.1, None, 0),
    ("beta_range", "BetaRange", (10, 3), None, (20, 0.5)),
    ("warm_start", "WarmStart", 0.3, None, 1.0),
    ("batch_size", "BatchSize", 8, None, 0),
    ("num_batches", "NumBatches", 4, None, 0),
    ("dynamic_batch", "DynamicBatch", True, None, 2),
    ("fixed_seed", "FixedSeed", 7, None, 0.5),
    ("selective_update", "SelectiveUpdate", True, None, "no"),
    ("log_period", "LogPeriod", 50, None, 0),
    ("mem_opt_level", "MemOptLevel", 2, None, 3),
    ("num_workers", "NumWorkers", 4, None, "many"),
    ("pin_memory", "PinMemory", True, None, 1.5),
    ("optim_device", "OptimDevice", "cuda:0", None, 0),
    ("infer_device", "InferDevice", "hip:0", None, 1.5),
    ("lr_adjust", "LRAdjust", (), None, (1.0, 0.2)),
    ("output_index", "OutputIndex", 0, None, 1),
    ("output_qdq", "OutputQDQ", False, None, True),
    ("drop_ratio", "DropRatio", 1.0, None, 0.5),
    ("cache_dir", "CacheDir", None, None, "/tmp"),
    ("ref_model_path", "RefModelPath", None, None, "teacher.onnx"),
    ("parallel", "Parallel", False, None, True),
    ("select_max_mem_layer", "SelectMaxMemLayer", False, None, True),
    ("use_gds", "UseGDS", False, None, True),
]
ADAROUND_ONLY = ("reg_param", "beta_range", "warm_start")


def with_algorithms(*algorithms, layer=quarkfast.Int8Spec, **options):
    specs = quarkfast.QLayerConfig(input_tensors=layer(), weight=layer())
    return quarkfast.QConfig(specs, algo_config=list(algorithms), **options)


def older(**finetune):
    config = get_default_config("A8W8")
    config.include_fast_ft, config.extra_options["FastFinetune"] = True, finetune
    return config


def rounding_of(config):
    scheme = scheme_of(config)
    return scheme.rounding, dict(scheme.rounding_options)


def test_every_field_and_every_key_has_a_row():
    names = {each.name for kind in (quarkfast.AdaRoundConfig, quarkfast.AdaQuantConfig) for each in fields(kind)}
    assert {row[0] for row in SETTINGS} == names - {"name", "options"}
    assert {row[1] for row in SETTINGS} == set(FINETUNING_KEYS) - {"OptimAlgorithm"}
    shared = {each.name for each in fields(FinetuningConfig)}
    assert {row[0] for row in SETTINGS if row[0] not in shared} == set(ADAROUND_ONLY)


@pytest.mark.parametrize(("field", "key", "value", "option", "refused"), SETTINGS, ids=[row[0] for row in SETTINGS])
@pytest.mark.parametrize("kind", [quarkfast.AdaRoundConfig, quarkfast.AdaQuantConfig])
def test_a_setting_is_honoured_or_refused(kind, field, key, value, option, refused):
    if field in ADAROUND_ONLY and kind is quarkfast.AdaQuantConfig:
        with pytest.raises(quarkfast.ConfigError, match=field):
            kind(**{field: value})
        return
    algorithm = kind().name.lower()
    given = rounding_of(with_algorithms(kind(**{field: value})))
    without = rounding_of(with_algorithms(kind()))
    expected = {} if option is None else {option: tuple(value) if isinstance(value, list) else value}
    assert given == (algorithm, without[1] | expected)
    assert rounding_of(older(OptimAlgorithm=algorithm, **{key: value})) == (algorithm, expected)
    sentence = f"FastFinetune: {key}: expected .* in this version, got "
    with pytest.raises(quarkfast.UnsupportedError, match=sentence):
        scheme_of(with_algorithms(kind(**{field: refused})))
    with pytest.raises(quarkfast.UnsupportedError, match=sentence):
        scheme_of(older(OptimAlgorithm=algorithm, **{key: refused}))


def test_the_older_dictionary_ignores_no_key_of_the_other_algorithm():
    with pytest.raises(quarkfast.UnsupportedError, match="RegParam: expected it left out with AdaQuant, got"):
        scheme_of(older(OptimAlgorithm="adaquant", RegParam=0.1))
    with pytest.raises(quarkfast.UnsupportedError, match="NumIterations: expected it left out with descent, got 9"):
        scheme_of(older(OptimAlgorithm="descent", NumIterations=9))


def test_the_older_configuration_takes_adaround_by_default():
    config = get_default_config("A8W8")
    config.include_fast_ft = True
    assert rounding_of(config) == ("adaround", {})


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: older(NumIteration=9), quarkfast.ConfigError, "got 'NumIteration'; did you mean 'NumIterations'"),
        (lambda: older(OptimAlgorithm="gptq"), quarkfast.UnsupportedError, "adaround, adaquant or descent in this"),
        (
            lambda: with_algorithms(quarkfast.AdaRoundConfig(), quarkfast.AdaQuantConfig()),
            quarkfast.ConfigError,
            "expected one of AdaRound and AdaQuant, got AdaRound and AdaQuant",
        ),
        (
            lambda: with_algorithms(quarkfast.AdaRoundConfig(), UseMatMulNBits=True),
            quarkfast.UnsupportedError,
            "activations that are quantized beforehand for AdaRound, got float32 and int4",
        ),
    ],
)
def test_what_makes_no_sense_meets_a_sentence(make, error, message):
    with pytest.raises(error, match=message):
        scheme_of(make())


def test_matmul_nbits_is_not_finetuned_in_the_older_configuration_either():
    config = get_default_config("MATMUL_NBITS")
    config.include_fast_ft = True
    with pytest.raises(quarkfast.UnsupportedError, match="for AdaRound, got float32 and int4"):
        scheme_of(config)


def test_another_way_of_rounding_has_settings_of_its_own():
    assert rounding_of(with_algorithms(quarkfast.AdaRoundConfig(), rounding="descent")) == ("descent", {})


@pytest.mark.parametrize("name", [name for name in LEGACY_NAMES if name.endswith(SUFFIXES)])
def test_a_finetuned_preset_is_its_base_with_a_solver(name):
    config = get_default_config(name)
    scheme = scheme_of(config)
    assert scheme.rounding == PRESETS[name]
    config.include_fast_ft = False
    del config.extra_options["FastFinetune"]
    base = scheme_of(config)
    assert (scheme.activation, scheme.weight, scheme.target) == (base.activation, base.weight, base.target)
    if not name.endswith("_ACCURATE"):
        assert base == scheme_of(get_default_config(name.rpartition("_")[0]))
    else:
        assert (base.activation.method, base.activation.percentile) == ("percentile", 99.9999)


def quantized(quantizer, path, **options):
    samples = [{"image": image[None]} for image in load_images().calibration[:10]]
    quantizer.quantize_model(str(MODEL), str(path), samples, **options)
    onnx.checker.check_model(str(path))
    return path.read_bytes()


@pytest.mark.parametrize("name", PRESETS)
def test_a_finetuned_preset_runs(name, tmp_path):
    config = get_default_config(name)
    finetune = config.extra_options["FastFinetune"]
    finetune |= {"NumIterations": 10} if "NumIterations" in finetune else {}
    quantized(quarkfast.ModelQuantizer(quarkfast.Config(config)), tmp_path / "out.onnx")


@pytest.mark.parametrize("name", ["XINT8_ADAROUND_CONFIG", "A8W8_ADAROUND_CONFIG", "A16W8_ADAQUANT_CONFIG"])
def test_a_ready_made_configuration_has_its_solver(name):
    config = getattr(quarkfast.compat.quark.onnx, name)
    (algorithm,) = config.algo_config
    expected = ("AdaRound", 1000) if "ADAROUND" in name else ("AdaQuant", 3000)
    assert (algorithm.name, algorithm.num_iterations) == expected
    assert rounding_of(config)[0] == expected[0].lower()


def test_algorithms_beside_the_configuration_do_what_those_in_it_do(tmp_path):
    algorithms = [quarkfast.CLEConfig(), quarkfast.AdaRoundConfig(num_iterations=10)]
    plain, given = quarkfast.ModelQuantizer(with_algorithms()), quarkfast.ModelQuantizer(with_algorithms(*algorithms))
    beside = quantized(plain, tmp_path / "beside.onnx", algorithms=algorithms)
    assert beside == quantized(given, tmp_path / "given.onnx")
    assert beside != quantized(plain, tmp_path / "plain.onnx")
