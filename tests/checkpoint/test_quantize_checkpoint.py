"""A checkpoint in, a smaller one out: whole or not at all, shard by shard, and read back."""

from __future__ import annotations

import json
from collections import namedtuple
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from quarkfast.checkpoint import quantize_checkpoint
from quarkfast.checkpoint.folder import read_folder
from quarkfast.errors import ConfigError, ModelError, OutputError, UnsupportedError
from support.made_checkpoints import CONFIG, KINDS, llama_tensors, write_checkpoint

FIRST = "model.layers.0.self_attn.q_proj"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "source")


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_layers_are_quantized_and_the_rest_is_kept_to_the_byte(tmp_path, kind, shards):
    tensors = llama_tensors(kind)
    source, output = write_checkpoint(tmp_path / "source", tensors, shards=shards), tmp_path / "out"
    result = quantize_checkpoint(source, output, "int4_wo_32", verify=True)
    assert names_in(output) == names_in(source)
    assert names_in(tmp_path) == {"source", "out"}
    found = read_folder(output).tensors
    for name, array in tensors.items():
        module = name.removesuffix(".weight")
        if "_proj" in name:
            assert {f"{module}.weight_packed", f"{module}.weight_scale", f"{module}.weight_shape"} <= set(found)
            assert found[f"{module}.weight_scale"].kind == kind
            assert name not in found
        else:
            np.testing.assert_array_equal(found[name].data, array.reshape(-1).view(np.uint8))
    assert result.layers == len(result.verification.layers) == 14
    written = sum((output / name).stat().st_size for name in names_in(output) if name.endswith(".safetensors"))
    assert result.output_bytes == written
    config = json.loads((output / "config.json").read_text())
    assert {name: value for name, value in config.items() if name != "quantization_config"} == CONFIG
    assert config["quantization_config"]["ignore"] == ["lm_head"]


def test_the_same_shards_hold_the_same_tensors_as_the_index_says(tmp_path):
    source = write_checkpoint(tmp_path / "source", shards=3)
    quantize_checkpoint(source, tmp_path / "out", "int8")
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    size = 0
    for file in set(index["weight_map"].values()):
        with safe_open(tmp_path / "out" / file, framework="numpy") as shard:
            assert {name for name, where in index["weight_map"].items() if where == file} == set(shard.keys())
            assert shard.metadata() == {"format": "pt"}
        size += sum(tensor.nbytes for tensor in read_folder(tmp_path / "out").shards[file])
    assert index["metadata"]["total_size"] == size


def test_one_file_and_shards_give_the_same_tensors(tmp_path):
    for shards in (1, 3):
        quantize_checkpoint(write_checkpoint(tmp_path / f"m{shards}", shards=shards), tmp_path / f"out{shards}", "fp8")
    one, three = (read_folder(tmp_path / f"out{shards}").tensors for shards in (1, 3))
    assert set(one) == set(three)
    for name, tensor in one.items():
        np.testing.assert_array_equal(tensor.data, three[name].data)


def test_what_runtimes_join_has_one_scale_per_tensor(tmp_path, source):
    quantize_checkpoint(source, tmp_path / "out", "fp8", "fp8")
    tensors = read_folder(tmp_path / "out").tensors
    scale = {name: float(each.array()) for name, each in tensors.items() if name.endswith("weight_scale")}
    block = "model.layers.1"
    assert len({scale[f"{block}.self_attn.{part}_proj.weight_scale"] for part in "qkv"}) == 1
    assert len({scale[f"{block}.mlp.{part}_proj.weight_scale"] for part in ("gate", "up")}) == 1
    assert len({scale[f"{block}.mlp.{part}_proj.weight_scale"] for part in ("gate", "down")}) == 2
    largest = max(np.abs(llama_tensors()[f"{block}.self_attn.{part}_proj.weight"]).max() for part in "qkv")
    assert scale[f"{block}.self_attn.q_proj.weight_scale"] == largest / np.float32(448)


def test_fp8_of_the_source_becomes_float_where_it_is_left_and_codes_elsewhere(tmp_path, rng):
    tensors = llama_tensors("BF16")
    for name in (FIRST, "lm_head"):
        tensors[f"{name}.weight"] = rng.standard_normal((128, 128), np.float32).astype(KINDS["F8_E4M3"])
        tensors[f"{name}.weight_scale_inv"] = np.full((1, 1), 0.03, np.float32)
    config = CONFIG | {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    quantize_checkpoint(write_checkpoint(tmp_path / "m", tensors, config), tmp_path / "out", "int4_wo_64", verify=True)
    found = read_folder(tmp_path / "out")
    head = tensors["lm_head.weight"].astype(np.float32) * np.float32(0.03)
    np.testing.assert_array_equal(found.tensors["lm_head.weight"].array(), head.astype(ml_dtypes.bfloat16))
    assert not [name for name in found.tensors if name.endswith("weight_scale_inv")]
    assert found.config["quantization_config"]["quant_method"] == "compressed-tensors"
    assert found.tensors[f"{FIRST}.weight_scale"].kind == "BF16"


@pytest.mark.parametrize("preset", ["bfloat16", "float16"])
def test_plain_floats_take_every_tensor(tmp_path, source, preset):
    quantize_checkpoint(source, tmp_path / "out", preset, "safetensors", verify=True)
    found = read_folder(tmp_path / "out")
    for name, array in llama_tensors().items():
        expected = array.astype(getattr(ml_dtypes, preset, preset))
        np.testing.assert_array_equal(found.tensors[name].array(), expected)
    assert found.config == CONFIG | {"torch_dtype": preset}


def test_the_file_is_one_that_the_package_safetensors_reads(tmp_path, source):
    quantize_checkpoint(source, tmp_path / "out", "int4_wo_64")
    codes = load_file(tmp_path / "out" / "model.safetensors")[f"{FIRST}.weight_packed"]
    np.testing.assert_array_equal(codes, read_folder(tmp_path / "out").tensors[f"{FIRST}.weight_packed"].array())


def test_a_dry_run_tells_the_bytes_and_writes_nothing(tmp_path, source):
    dry = quantize_checkpoint(source, tmp_path / "out", "int4_wo_32", dry_run=True)
    assert names_in(tmp_path) == {"source"}
    done = quantize_checkpoint(source, tmp_path / "out", "int4_wo_32")
    assert (dry.output_bytes, dry.layers, dry.notes) == (done.output_bytes, done.layers, done.notes)
    assert dry.verification is None


def test_an_output_that_exists_is_replaced_only_when_asked_and_only_a_checkpoint(tmp_path, source):
    output = tmp_path / "out"
    quantize_checkpoint(source, output, "int8")
    with pytest.raises(OutputError, match=r"expected a new folder, got .* which exists; --force replaces it"):
        quantize_checkpoint(source, output, "fp8")
    quantize_checkpoint(source, output, "fp8", force=True)
    assert json.loads((output / "config.json").read_text())["quantization_config"]["format"] == "float-quantized"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(OutputError, match="expected a checkpoint or nothing to replace"):
        quantize_checkpoint(source, tmp_path / "mine", "fp8", force=True)
    assert names_in(tmp_path) == {"source", "out", "mine"}


@pytest.mark.parametrize("where", ["source", "source/inside", "."])
def test_the_source_is_never_overwritten(tmp_path, source, where):
    before = (source / "model.safetensors").read_bytes()
    with pytest.raises(OutputError, match="expected a folder apart from the source"):
        quantize_checkpoint(source, tmp_path / where, "int8", force=True)
    assert (source / "model.safetensors").read_bytes() == before


def test_no_room_on_the_disk_is_told_before_a_weight_is_read(tmp_path, source, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(10, 9, 1))
    with pytest.raises(OutputError, match=r"expected \d+ free bytes in .*, got 1"):
        quantize_checkpoint(source, tmp_path / "out", "int8")
    assert names_in(tmp_path) == {"source"}


def test_a_disk_that_fills_up_leaves_nothing(tmp_path, source, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("quarkfast.checkpoint.quantize.write_shard", full)
    with pytest.raises(OutputError, match=r"expected to write .*, got No space left on device"):
        quantize_checkpoint(source, tmp_path / "out", "int8")
    assert names_in(tmp_path) == {"source"}


class Cut:
    """Interrupts a run when so many shards are done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
        from quarkfast.checkpoint import quantize

        self.written = 0
        write = quantize.write_shard

        def counted(*arguments: object) -> None:
            if self.written == after:
                raise KeyboardInterrupt
            self.written += 1
            write(*arguments)

        monkeypatch.setattr(quantize, "write_shard", counted)


def test_an_interrupted_run_leaves_nothing_half_written(tmp_path, monkeypatch):
    source = write_checkpoint(tmp_path / "source", shards=3)
    Cut(monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt):
        quantize_checkpoint(source, tmp_path / "out", "int4_wo_32")
    assert names_in(tmp_path) == {"source"}


def test_a_resumed_run_keeps_finished_shards_and_gives_the_same_bytes(tmp_path, monkeypatch):
    source = write_checkpoint(tmp_path / "source", shards=3)
    quantize_checkpoint(source, tmp_path / "whole", "int4_wo_32")
    with monkeypatch.context() as patch:
        Cut(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            quantize_checkpoint(source, tmp_path / "out", "int4_wo_32", resume=True)
    assert names_in(tmp_path) == {"source", "whole", ".out.partial"}
    with monkeypatch.context() as patch:
        rest = Cut(patch, 99)
        quantize_checkpoint(source, tmp_path / "out", "int4_wo_32", resume=True)
    assert rest.written == 1
    assert names_in(tmp_path) == {"source", "whole", "out"}
    for name in names_in(tmp_path / "whole"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_run_with_other_options_does_not_go_on_with_old_shards(tmp_path, monkeypatch):
    source = write_checkpoint(tmp_path / "source", shards=3)
    with monkeypatch.context() as patch:
        Cut(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            quantize_checkpoint(source, tmp_path / "out", "int4_wo_32", resume=True)
    with monkeypatch.context() as patch:
        rest = Cut(patch, 99)
        quantize_checkpoint(source, tmp_path / "out", "int4_wo_32", method="mse", resume=True)
    assert rest.written == 3


def test_a_value_that_reads_back_differently_is_an_error_and_leaves_nothing(tmp_path, source, monkeypatch):
    from quarkfast.checkpoint.layouts.compressed_tensors import CompressedTensors

    pack = CompressedTensors.pack

    def wrong(self, module, weight):
        found = pack(self, module, weight)
        found[f"{module}.weight_packed"][0, 0] ^= 1
        return found

    monkeypatch.setattr(CompressedTensors, "pack", wrong)
    with pytest.raises(ModelError, match=r"expected the values that were meant, got 1 others"):
        quantize_checkpoint(source, tmp_path / "out", "int4_wo_32")
    assert names_in(tmp_path) == {"source"}


def test_without_asking_one_layer_of_each_kind_is_read_back(tmp_path, source):
    result = quantize_checkpoint(source, tmp_path / "out", "int4_wo_32")
    assert [each.name.rpartition(".")[2] for each in result.verification.layers] == [
        *("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    ]
    assert result.verification.of == 14
    assert all(15 < each.sqnr < 30 for each in result.verification.layers)
    assert result.verification.worst[0].sqnr == min(each.sqnr for each in result.verification.layers)


def test_what_should_be_known_is_said(tmp_path):
    tensors = {"tower.one.weight": np.ones((8, 32), np.float32), "tower.gate.weight": np.ones((8, 32), np.float32)}
    source = write_checkpoint(tmp_path / "m", tensors, {"model_type": "tower"})
    notes = quantize_checkpoint(source, tmp_path / "out", "int4_wo_128", group_size="auto", dry_run=True).notes
    assert notes == (
        "architecture 'tower' is unknown: 1 layer by pattern, every matrix but heads, embeddings and routers",
        "left float: tower.gate",
        "groups of 32",
    )
    assert (
        "activations are quantized as they come (dynamic): static scales would need samples"
        in quantize_checkpoint(source, tmp_path / "out", "int8", dry_run=True).notes
    )


def test_weights_of_inputs_by_outputs_are_refused_where_no_runtime_reads_them(tmp_path):
    tensors = {"h.0.attn.c_attn.weight": np.ones((32, 96), np.float32)}
    source = write_checkpoint(tmp_path / "m", tensors, {"model_type": "gpt2"})
    with pytest.raises(UnsupportedError, match=r"gpt2: expected weights \[outputs, inputs\], got Conv1D's"):
        quantize_checkpoint(source, tmp_path / "out", "int4_wo_32")
    quantize_checkpoint(source, tmp_path / "out", "bfloat16", "safetensors")


def test_progress_counts_megabytes_of_the_source(tmp_path, source):
    seen: list[tuple[str, int, int | None]] = []
    quantize_checkpoint(source, tmp_path / "out", "int8", progress=lambda *each: seen.append(each))
    total = (source / "model.safetensors").stat().st_size // 1_000_000
    assert ("weights", total, total) in seen
    assert seen[-1] == ("read back", 7, 7)


def test_a_preset_that_a_format_has_not_is_told(tmp_path, source):
    with pytest.raises(ConfigError, match="preset: expected one that fp8 has, of fp8, fp8_block, got int8"):
        quantize_checkpoint(source, tmp_path / "out", "int8", "fp8")
