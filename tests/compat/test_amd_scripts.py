"""The calls of AMD's tutorials and examples, with the imports that they have behind ``quarkfast.compat.``.

Of the repository RyzenAI-SW: yolov8m, yolov8s-worldv2, DistilBERT and gte-large, ResNet, image classification, hello
world and the Quark tutorial with its advanced part. Of the repository Quark: the examples of its ONNX side.
"""

from __future__ import annotations

import copy
import importlib
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest

from quarkfast.compat.quark.onnx import (
    AdaQuantConfig,
    AdaRoundConfig,
    CalibMethod,
    CalibrationMethod,
    CLEConfig,
    Int8Spec,
    Int16Spec,
    ModelQuantizer,
    PowerOfTwoMethod,
    QLayerConfig,
    QuantType,
    XInt8Spec,
    get_library_path,
)
from quarkfast.compat.quark.onnx.quantization.config import Config, get_default_config
from quarkfast.compat.quark.onnx.quantization.config.config import QConfig, QuantizationConfig
from quarkfast.compat.quark.onnx.quantization.quant_utils import ExtendedQuantFormat
from quarkfast.config.quark.legacy import LEGACY_NAMES
from quarkfast.errors import ConfigError, QuarkfastError
from quarkfast.pipeline.resolve import resolve
from support.quark_values import HONOURED
from support.tiny_models import conv_relu_model, samples, tiny_model

PRESETS = ("XINT8", "A8W8", "A16W8", "BF16")
# What every script hands to fast finetuning.
FINETUNING = {
    "DataSize": 1000, "FixedSeed": 1705472343, "BatchSize": 2, "NumIterations": 1000, "LearningRate": 0.1,
    "OptimAlgorithm": "adaround", "OptimDevice": "cpu", "InferDevice": "cpu", "EarlyStop": True,
}  # fmt: skip
NO_EFFECT = "ignore:.* has no effect:UserWarning"
# A detector whose head joins boxes and scores behind two nodes.
DETECTOR = """g (float[1, 3, 8, 8] images) => (float[1, 6, 8, 8] y) {
    c = Conv(images, w)
    r = Relu(c)
    boxes = Conv(r, wb)
    scores = Conv(r, ws)
    large = Exp(boxes)
    small = Sigmoid(scores)
    y = Concat<axis = 1>(large, small)
}"""
HEAD = {
    "w": np.random.default_rng(1).normal(size=(4, 3, 1, 1)).astype(np.float32),
    "wb": np.random.default_rng(2).normal(size=(4, 4, 1, 1)).astype(np.float32),
    "ws": np.random.default_rng(3).normal(size=(2, 4, 1, 1)).astype(np.float32),
}
# A transformer's ends: ids of any number and length.
TEXT = """g (int64[B, S] input_ids, int64[B, S] attention_mask) => (float[B, S, 8] y) {
    e = Gather(table, input_ids)
    m = Cast<to = 1>(attention_mask)
    u = Unsqueeze(m, last)
    f = Mul(e, u)
    h = MatMul(f, up)
    r = Relu(h)
    y = MatMul(r, down)
}"""
LAYERS = {
    "table": np.random.default_rng(4).normal(size=(50, 8)).astype(np.float32),
    "up": np.random.default_rng(5).normal(size=(8, 128)).astype(np.float32),
    "down": np.random.default_rng(6).normal(size=(128, 8)).astype(np.float32),
    "last": np.array([-1]),
}


class Reader:
    """A reader as the scripts have it: an iterator over dictionaries that ends with None."""

    def __init__(self, feeds):
        self.feeds, self.left = feeds, None

    def get_next(self):
        self.left = iter(self.feeds) if self.left is None else self.left
        return next(self.left, None)

    def rewind(self):
        self.left = None


def images(name="x"):
    return Reader([{name: each[None]} for each in samples()])


def sentences():
    ids = np.random.default_rng(7).integers(0, 50, (4, 1, 6))
    return Reader([{"input_ids": each, "attention_mask": np.ones_like(each)} for each in ids])


def saved(folder, model):
    path = folder / "model.onnx"
    onnx.save(model, path)
    return str(path)


def operators(path) -> set[str]:
    onnx.checker.check_model(str(path))
    return {node.op_type for node in onnx.load(path).graph.node}


def quantized(folder, config, model=None, reader=None) -> set[str]:
    """The operators of what a quantizer writes, by the configuration that a script prints first."""
    assert str(config)
    quantizer = ModelQuantizer(config)
    given = saved(folder, conv_relu_model() if model is None else model)
    quantizer.quantize_model(
        model_input=given, model_output=str(folder / "out.onnx"), calibration_data_reader=reader or images()
    )
    return operators(folder / "out.onnx")


@pytest.mark.filterwarnings(NO_EFFECT)
@pytest.mark.parametrize("preset", PRESETS)
def test_the_quark_tutorial_turns_the_npu_on_beside_every_preset(tmp_path, preset):
    config = get_default_config(preset)
    if preset == "BF16":
        config.extra_options["BF16QDQToCast"] = True
    config.enable_npu_cnn = True
    found = quantized(tmp_path, Config(global_quant_config=config))
    assert ("Cast" if preset == "BF16" else "QuantizeLinear") in found


@pytest.mark.filterwarnings(NO_EFFECT)
@pytest.mark.parametrize("preset", PRESETS)
def test_yolov8m_asks_for_casts_beside_every_preset(tmp_path, preset):
    config = get_default_config(preset)
    config.extra_options["BF16QDQToCast"] = True
    config = copy.deepcopy(config)
    config.use_external_data_format = False
    config.subgraphs_to_exclude = [(["exp_4", "sigmoid_5"], ["concat_6"])]
    config.nodes_to_exclude = ["relu_1"]
    config.include_cle = True
    quantized(tmp_path, Config(global_quant_config=config), tiny_model(DETECTOR, HEAD, opset=17), images("images"))
    (head,) = [node for node in onnx.load(tmp_path / "out.onnx").graph.node if node.op_type == "Concat"]
    assert all(name in ("large", "small") for name in head.input)


@pytest.mark.parametrize(("algorithm", "rate"), [("adaround", 0.1), ("adaquant", 0.00001)])
def test_yolov8m_finetunes_with_a_dictionary_of_its_own(tmp_path, algorithm, rate):
    config = copy.deepcopy(get_default_config("XINT8"))
    config.include_fast_ft = True
    config.extra_options["FastFinetune"] = {**FINETUNING, "OptimAlgorithm": algorithm}
    config.extra_options["FastFinetune"]["LearningRate"] = rate
    assert "QuantizeLinear" in quantized(tmp_path, Config(global_quant_config=config))


def test_yolov8s_worldv2_rounds_a16w8_and_leaves_its_end_out(tmp_path):
    config = get_default_config("A16W8_ADAROUND")
    config.subgraphs_to_exclude = [(["exp_4", "sigmoid_5"], ["concat_6"])]
    quantized(tmp_path, Config(global_quant_config=config), tiny_model(DETECTOR, HEAD, opset=17), images("images"))
    kinds = {each.data_type for each in onnx.load(tmp_path / "out.onnx").graph.initializer}
    assert onnx.TensorProto.INT16 in kinds


def test_distilbert_and_gte_need_no_data(tmp_path):
    config = get_default_config("BF16")
    config.extra_options["BF16QDQToCast"] = True
    config = Config(global_quant_config=config)
    config.global_quant_config.extra_options["UseRandomData"] = True
    given = saved(tmp_path, tiny_model(TEXT, LAYERS, opset=17))
    ModelQuantizer(config).quantize_model(
        model_input=given, model_output=str(tmp_path / "out.onnx"), calibration_data_path=None
    )
    assert "Cast" in operators(tmp_path / "out.onnx")


def test_hello_world_needs_no_data_for_the_npu(tmp_path):
    config = get_default_config("XINT8")
    config.extra_options["UseRandomData"] = True
    given = saved(tmp_path, conv_relu_model())
    quantizer = ModelQuantizer(Config(global_quant_config=config))
    assert quantizer.quantize_model(given, str(tmp_path / "out.onnx"), calibration_data_path=None) is None
    assert "QuantizeLinear" in operators(tmp_path / "out.onnx")


@pytest.mark.parametrize("chosen", [{"include_fast_ft": True}, {"include_cle": True}])
def test_the_advanced_tutorial_writes_xint8_out(tmp_path, chosen):
    config = QuantizationConfig(
        calibrate_method=PowerOfTwoMethod.MinMSE, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
        enable_npu_cnn=True, extra_options={"ActivationSymmetric": True}, **chosen,
    )  # fmt: skip
    assert "QuantizeLinear" in quantized(tmp_path, Config(global_quant_config=config))


@pytest.mark.filterwarnings(NO_EFFECT)
@pytest.mark.parametrize("algorithm", [None, "adaround", "adaquant"])
def test_the_advanced_tutorial_writes_a8w8_out_and_turns_the_npu_on(tmp_path, algorithm):
    options = {"ActivationSymmetric": True, "AlignSlice": False, "FoldRelu": True, "AlignConcat": True}
    finetuning = {} if algorithm is None else {"FastFinetune": {**FINETUNING, "OptimAlgorithm": algorithm}}
    config = QuantizationConfig(
        calibrate_method=CalibrationMethod.MinMax, quant_format=ExtendedQuantFormat.QDQ,
        activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, include_fast_ft=algorithm is not None,
        extra_options={**options, **finetuning},
    )  # fmt: skip
    config.enable_npu_cnn = True
    config.include_cle = True
    assert "QuantizeLinear" in quantized(tmp_path, Config(global_quant_config=config))


# Of Quark's own examples: types of activations and weights, and the options beside them.
EXAMPLES = {
    "XINT8": (XInt8Spec, XInt8Spec, {"EnableNPUCnn": True}),
    "A8W8": (Int8Spec, Int8Spec, {"EnableNPUCnn": False, "AlignSlice": False, "FoldRelu": True, "AlignConcat": True}),
    "A16W8": (Int16Spec, Int8Spec, {"EnableNPUCnn": False, "AlignSlice": False, "AlignEltwiseQuantType": True}),
}


@pytest.mark.parametrize("algorithm", [None, AdaRoundConfig, AdaQuantConfig])
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_for_ryzen_ai_take_both_ways_to_exclude(tmp_path, name, algorithm):
    activation, weight, options = EXAMPLES[name]
    specs = activation(), weight()
    for spec in specs if name != "XINT8" else ():
        spec.set_calibration_method(CalibMethod.MinMax)
    settings = {"data_size": 1000, "batch_size": 2, "num_iterations": 1000, "learning_rate": 0.1, "early_stop": True}
    config = QConfig(
        global_config=QLayerConfig(activation=specs[0], weight=specs[1]),
        algo_config=[CLEConfig(), *([] if algorithm is None else [algorithm(**settings)])],
        use_external_data_format=False, exclude=["relu_1", (["exp_4", "sigmoid_5"], ["concat_6"])], **options,
    )  # fmt: skip
    model = tiny_model(DETECTOR, HEAD, opset=17)
    assert "QuantizeLinear" in quantized(tmp_path, config, model, images("images"))


def test_the_example_of_models_that_stay_secret_gets_a_proto_back():
    layer = QLayerConfig(activation=XInt8Spec(), weight=XInt8Spec())
    quantizer = ModelQuantizer(QConfig(global_config=layer, CryptoMode=True, EnableNPUCnn=True))
    assert isinstance(quantizer.quantize_model(conv_relu_model(), calibration_data_reader=images()), onnx.ModelProto)


def language_model(folder, config, reader=None) -> set[str]:
    config.include_cle, config.use_external_data_format = False, True
    return quantized(
        folder, Config(global_quant_config=config), tiny_model(TEXT, LAYERS, opset=17), reader or sentences()
    )


@pytest.mark.parametrize("preset", ["INT8_TRANSFORMER_DEFAULT", "MATMUL_NBITS"])
def test_the_examples_of_gptq_leave_out_types_that_a_model_has_not(tmp_path, preset):
    config = copy.deepcopy(get_default_config(preset))
    config.extra_options["OpTypesToExcludeOutputQuantization"] = ["MatMul", "Gemm"]
    config.extra_options["GPTQParams"] = {"MSE": False, "GroupSize": 128, "ActOrder": False, "PerChannel": True}
    if preset == "MATMUL_NBITS":
        config.extra_options["MatMulNBitsParams"] |= {"AccuracyLevel": 0, "Algorithm": "GPTQ"}
    else:
        config.extra_options["UseGPTQ"] = True
    language_model(tmp_path, config)


@pytest.mark.filterwarnings(NO_EFFECT)
def test_the_example_of_rotation_keeps_the_graph_as_it_is(tmp_path):
    config = copy.deepcopy(get_default_config("INT8_TRANSFORMER_DEFAULT"))
    config.optimize_model, config.include_rotation = False, True
    config.calibrate_method = CalibrationMethod.Percentile
    config.extra_options |= {
        "RemoveInputInit": False, "SimplifyModel": False, "CopySharedInit": None, "CalibMovingAverage": False,
        "OpTypesToExcludeOutputQuantization": ["MatMul", "Gemm"], "RMatrixDim": 4096, "RConfigPath": "pairs.json",
        "UseRandomHad": True, "ActivationSymmetric": True, "MatMulConstBOnly": True, "TmpDir": ".",
        "Percentile": 99.9,
    }  # fmt: skip
    language_model(tmp_path, config)


RANDOM = {
    "UseRandomData": True, "RandomDataReaderInputDataRange": {"input_ids": [1, 49], "attention_mask": [1, 1]},
    "RandomDataReaderInputShape": {"input_ids": [1, 6], "attention_mask": [1, 6]}, "QuantizeFP16": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("preset", "options"),
    [
        ("MATMUL_NBITS", {"UseFP32Scale": False}),
        ("INT8_TRANSFORMER_DEFAULT", {"UseFP32Scale": True, "WeightsOnly": True, "SimplifyModel": True, "TmpDir": "."}),
    ],
)
def test_the_examples_of_weights_alone_make_their_data(tmp_path, preset, options):
    config = copy.deepcopy(get_default_config(preset))
    config.op_types_to_quantize = ["MatMul"]
    config.extra_options |= {**RANDOM, **options}
    found = language_model(tmp_path, config)
    assert ("MatMulNBits" if preset == "MATMUL_NBITS" else "DequantizeLinear") in found


def test_a_gpu_is_not_used_and_a_warning_says_so():
    config = get_default_config("XINT8_ADAQUANT")
    config.extra_options["FastFinetune"]["OptimDevice"] = "cuda:0"
    config.execution_providers = ["CUDAExecutionProvider"]
    with pytest.warns(UserWarning, match="no effect") as told:
        quantizer = ModelQuantizer(Config(config))
    assert [str(each.message) for each in told] == [
        "ExecutionProviders: ['CUDAExecutionProvider'] has no effect: calibration runs on the CPU",
        "FastFinetune: OptimDevice: 'cuda:0' has no effect: the CPU does it",
    ]
    assert quantizer.scheme == ModelQuantizer(Config(get_default_config("XINT8_ADAQUANT"))).scheme
    algorithm = AdaRoundConfig(optim_device="hip:0", infer_device="hip:0")
    layer = QLayerConfig(activation=Int8Spec(), weight=Int8Spec())
    with pytest.warns(UserWarning, match="no effect") as newer:
        ModelQuantizer(QConfig(layer, algo_config=[algorithm]))
    with pytest.warns(UserWarning, match="no effect") as given:
        quantizer.quantize_model(conv_relu_model(), None, images(), algorithms=[algorithm])
    for told in (newer, given):
        assert [str(each.message)[:34] for each in told] == [
            "FastFinetune: OptimDevice: 'hip:0'",
            "FastFinetune: InferDevice: 'hip:0'",
        ]


@pytest.mark.parametrize("preset", [name for name in LEGACY_NAMES if not name.startswith(("BF16", "FP16"))])
def test_casts_beside_other_types_are_noted(preset):
    config = get_default_config(preset)
    config.extra_options["BF16QDQToCast"] = True
    with pytest.warns(UserWarning, match="BF16QDQToCast: True has no effect: activations are"):
        found = ModelQuantizer(Config(config)).scheme
    assert found == ModelQuantizer(Config(get_default_config(preset))).scheme


def refusal(config) -> str | None:
    """What is wrong with a configuration; nothing of what the target says is left for later."""
    try:
        quantizer = ModelQuantizer(Config(config))
    except QuarkfastError as error:
        return str(error)
    resolve(quantizer.scheme, {})
    return None


@pytest.mark.filterwarnings(NO_EFFECT)
@pytest.mark.parametrize(
    "preset", ["XINT8", "A8W8", "BF16", "BFP16", "MX9_INT8", "UINT8_DYNAMIC_QUANT", "MATMUL_NBITS"]
)
def test_a_refusal_comes_with_the_quantizer_and_names_a_key_of_quarks(preset):
    for key, (_, value, beside) in HONOURED.items():
        config = get_default_config(preset)
        config.extra_options |= beside | {key: value}
        said = refusal(config)
        words = *config.extra_options, "AdaRound", "AdaQuant"
        assert said is None or any(re.search(rf"\b{word}\b", said) for word in words), (key, said)


def test_a_refusal_has_quarks_names_in_place_of_ours():
    config = get_default_config("BF16")
    config.extra_options["ConvertClipToRelu"] = True
    with pytest.raises(ConfigError, match=r"^constraints: expected .*, got 'ConvertClipToRelu'"):
        ModelQuantizer(Config(config))
    config = get_default_config("MATMUL_NBITS")
    config.extra_options["ActivationScaled"] = True
    with pytest.raises(ConfigError, match=r"^ActivationScaled: MATMUL_NBITS: expected no options of activations"):
        ModelQuantizer(Config(config))


MODULES = {
    "quant_utils": ["PowerOfTwoMethod", "VitisQuantType", "VitisQuantFormat"],
    "quantization.quant_utils": ["ExtendedQuantFormat", "ExtendedQuantType"],
    "quantization.api": ["ModelQuantizer"],
    "quantization.config.legacy": ["QuantizationConfig"],
    "operators.custom_ops": ["get_library_path"],
    "quantization.config.custom_config": [
        *("DefaultConfigMapping", "QuantizationConfig", "get_default_config", "A16W8_CONFIG", "U8S8_AAWS_CONFIG"),
        *("DEFAULT_ADAROUND_PARAMS", "DEFAULT_ADAQUANT_PARAMS", "XINT8_QCONFIG"),
    ],
}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in MODULES.items() for name in names])
def test_a_name_is_where_scripts_import_it(module, name):
    assert getattr(importlib.import_module(f"quarkfast.compat.quark.onnx.{module}"), name) is not None


def test_ready_made_configurations_are_those_of_their_name():
    custom = importlib.import_module("quarkfast.compat.quark.onnx.quantization.config.custom_config")
    assert get_default_config("A16W8") == custom.A16W8_CONFIG
    assert custom.A16W8_CONFIG is not custom.A16W8_CONFIG
    assert (custom.DEFAULT_ADAROUND_PARAMS["LearningRate"], custom.DEFAULT_ADAQUANT_PARAMS["LearningRate"]) == (
        0.1,
        1e-5,
    )
    assert set(custom.DefaultConfigMapping) == set(LEGACY_NAMES)
    with pytest.raises(AttributeError, match="A17W8_CONFIG"):
        custom.A17W8_CONFIG  # noqa: B018


def test_the_library_has_the_device_in_any_case():
    assert get_library_path(device="cpu") == get_library_path("CPU")


def test_evaluate_runs_under_the_name_that_amd_prints(tmp_path):
    for folder in ("float", "quantized"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "0.npy", np.linspace(0, 1, 12, dtype=np.float32))
    command = [sys.executable, "-m", "quarkfast.compat.quark.onnx.tools.evaluate.py"]
    folders = ["--baseline_results_folder", tmp_path / "float", "--quantized_results_folder", tmp_path / "quantized"]
    result = subprocess.run([*command, *folders], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert "Mean cos similarity: 1.0" in result.stdout
