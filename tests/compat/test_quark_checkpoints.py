"""Quark's script for checkpoints runs after the change of imports, and its 28 schemes answer."""

from __future__ import annotations

import json

import pytest

from quarkfast.compat.quark.torch import CheckpointConfig, LLMTemplate, ModelQuantizer
from quarkfast.compat.quark.torch.file_to_file import SCHEMES
from quarkfast.errors import ConfigError, UnsupportedError
from support.made_checkpoints import write_checkpoint


@pytest.mark.parametrize("scheme", LLMTemplate.get_supported_schemes())
def test_a_script_for_checkpoints_runs_with_every_scheme_that_works_file_to_file(tmp_path, scheme):
    source, output = write_checkpoint(tmp_path / "m"), tmp_path / "out"
    config = LLMTemplate.get("llama").get_config(scheme, exclude_layers=["lm_head", "*layers.1*"])
    result = ModelQuantizer(config).direct_quantize_checkpoint(str(source), str(output), device="cuda")
    assert result.layers == 7
    found = json.loads((output / "config.json").read_text())["quantization_config"]
    assert found["quant_method"] == "quark"
    assert "lm_head" in found["exclude"]
    assert found["global_quant_config"]["weight"]["is_dynamic"] is False


def test_quarks_twenty_eight_schemes_work_or_say_why_not():
    assert len(SCHEMES) == 28
    for scheme, missing in SCHEMES.items():
        if missing:
            with pytest.raises(
                UnsupportedError, match=f"expected one that works file to file, got {scheme}, which has"
            ):
                LLMTemplate.get("llama").get_config(scheme)


def test_a_scheme_and_an_architecture_that_do_not_exist_are_told():
    with pytest.raises(ConfigError, match=r"got 'int4_wo_256'; did you mean 'int4_wo_\w+'"):
        LLMTemplate.get("llama").get_config("int4_wo_256")
    with pytest.raises(ConfigError, match=r"LLMTemplate.get: expected one of .*, got 'lama'; did you mean 'llama'"):
        LLMTemplate.get("lama")


@pytest.mark.parametrize("name", ["algorithm", "kv_cache_scheme", "layer_config"])
def test_what_needs_samples_is_refused_by_its_name(name):
    with pytest.raises(UnsupportedError, match=f"{name}: expected None"):
        LLMTemplate.get("llama").get_config("int4_wo_64", **{name: "gptq"})
    assert LLMTemplate.get("llama").get_config("int8", **{name: None}, min_kv_scale=0.0) == CheckpointConfig("int8")


def test_arguments_that_ask_for_more_are_refused(tmp_path):
    quantizer = ModelQuantizer(CheckpointConfig("int8"))
    with pytest.raises(UnsupportedError, match="weight_converters: expected None or False"):
        quantizer.direct_quantize_checkpoint(tmp_path, tmp_path / "out", weight_converters=[object()])
    with pytest.raises(ConfigError, match=r"expected what LLMTemplate.get_config gives, got dict"):
        ModelQuantizer({})
