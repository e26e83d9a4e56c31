"""Quark's settings of GPTQ, of both generations."""

import pytest

import quarkfast
from quarkfast import ConfigError, GPTQConfig, UnsupportedError, get_default_config
from quarkfast.config.quark import scheme_of


def legacy(**options):
    config = get_default_config("A8W8")
    config.extra_options |= options
    return scheme_of(config)


def test_the_switch_alone_is_eight_bits_a_tensor_for_products():
    scheme = legacy(UseGPTQ=True)
    assert (scheme.name, scheme.rounding, scheme.op_types) == ("INT8_WO", "gptq", ("MatMul",))
    assert (scheme.weight.dtype, scheme.weight.granularity, scheme.weight.symmetric) == ("int8", "tensor", True)


def test_the_switch_turned_off_changes_nothing():
    assert legacy(UseGPTQ=False) == legacy()
    assert legacy(UseGPTQ=False, GPTQParams={"Bits": 4}) == legacy()


def test_every_parameter_is_honoured():
    parameters = {
        "Bits": 4, "BlockSize": 64, "GroupSize": 32, "PercDamp": 0.05, "ActOrder": True, "PerChannel": True,
        "WeightSymmetric": False, "MSE": False,
    }  # fmt: skip
    scheme = legacy(UseGPTQ=True, GPTQParams=parameters, OpTypesToQuantize=["Gemm"])
    assert scheme.op_types == ("Gemm",)
    assert (scheme.weight.dtype, scheme.weight.group_size, scheme.weight.symmetric) == ("int4", 32, False)
    assert dict(scheme.rounding_options) == {"damping": 0.05, "act_order": True, "block_size": 64}


@pytest.mark.parametrize("per_channel", [False, True])
def test_the_class_means_the_same(per_channel):
    layer = quarkfast.QLayerConfig(activation=quarkfast.Int8Spec(), weight=quarkfast.Int8Spec())
    config = quarkfast.QConfig(layer, algo_config=[GPTQConfig(per_channel=per_channel, act_order=True)], exclude=["n"])
    scheme = scheme_of(config)
    assert scheme.exclude == ("n",)
    assert scheme.weight.granularity == ("channel" if per_channel else "tensor")
    assert dict(scheme.rounding_options) == {"damping": 0.01, "act_order": True, "block_size": 128}


def test_matmul_nbits_takes_the_algorithm():
    given = {"UseMatMulNBits": True, "MatMulNBitsParams": {"Algorithm": "GPTQ", "GroupSize": 32}}
    scheme = legacy(**given, GPTQParams={"PercDamp": 0.1})
    assert (scheme.name, scheme.rounding, scheme.weight.group_size) == ("MATMUL_NBITS", "gptq", 32)
    assert dict(scheme.rounding_options) == {"damping": 0.1}


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"Bits": 3}, UnsupportedError, "GPTQParams: Bits: expected 4 or 8 in this version, got 3"),
        ({"BlockSize": 0}, UnsupportedError, "GPTQParams: BlockSize: expected a count in this version, got 0"),
        ({"GroupSize": 7}, UnsupportedError, "GPTQParams: GroupSize: expected -1, 16, 32, 64, 128 or 256 in"),
        ({"PercDamp": 0}, UnsupportedError, "GPTQParams: PercDamp: expected a number above 0 in this version, got 0"),
        ({"MSE": True}, UnsupportedError, "GPTQParams: MSE: expected False in this version, got True"),
        ({"ActOrder": 1}, UnsupportedError, "GPTQParams: ActOrder: expected True or False in this version, got 1"),
        ({"Actorder": True}, ConfigError, "GPTQParams: expected a known name, got 'Actorder'; did you mean"),
    ],
)
def test_what_cannot_be_honoured_is_refused(parameters, error, message):
    with pytest.raises(error, match=message):
        legacy(UseGPTQ=True, GPTQParams=parameters)


def test_a_switch_is_true_or_false():
    with pytest.raises(ConfigError, match="UseGPTQ: expected True or False, got 'yes'"):
        legacy(UseGPTQ="yes")
