"""Small checkpoints as Hugging Face publishes them, made for tests, whole and broken."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from quarkfast.checkpoint.safetensors_files import StoredTensor, kind_of
from quarkfast.checkpoint.weights import FloatWeight

KINDS = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn}
NAMES = {np.dtype(dtype): kind for kind, dtype in KINDS.items()}
HIDDEN, INNER, VOCABULARY, HEADS, KEY_HEADS = 128, 256, 96, 4, 2
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEY_HEADS,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
}
LAYERS = {
    "self_attn.q_proj": (HIDDEN, HIDDEN),
    "self_attn.k_proj": (HIDDEN // 2, HIDDEN),
    "self_attn.v_proj": (HIDDEN // 2, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HIDDEN),
    "mlp.gate_proj": (INNER, HIDDEN),
    "mlp.up_proj": (INNER, HIDDEN),
    "mlp.down_proj": (HIDDEN, INNER),
}


def llama_tensors(kind: str = "F32", seed: int = 0) -> dict[str, np.ndarray]:
    """The tensors of a Llama of two blocks, 128 wide."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape, np.float32) * np.float32(0.05)).astype(KINDS[kind])

    found = {"model.embed_tokens.weight": draw(VOCABULARY, HIDDEN)}
    for block in range(2):
        for name, shape in LAYERS.items():
            found[f"model.layers.{block}.{name}.weight"] = draw(*shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"model.layers.{block}.{name}.weight"] = np.ones(HIDDEN, KINDS[kind])
    return found | {"model.norm.weight": np.ones(HIDDEN, KINDS[kind]), "lm_head.weight": draw(VOCABULARY, HIDDEN)}


def drawn_matrix(rng: np.random.Generator, rows: int = 24, columns: int = 256) -> np.ndarray:
    """A matrix with a group of zeros and a row of one sign."""
    x = rng.standard_normal((rows, columns), np.float32) * np.float32(0.1)
    x[3, :128] = 0
    x[5] = np.abs(x[5])
    return x


def float_weight(array: np.ndarray) -> FloatWeight:
    """An array as the tensor of a file."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return FloatWeight(StoredTensor(kind_of(array.dtype), array.shape, "layer.weight", data))


def safetensors_bytes(tensors: Mapping[str, np.ndarray]) -> bytes:
    """A file of safetensors."""
    header, data = {}, b""
    for name, array in tensors.items():
        raw = array.tobytes()
        header[name] = {
            "dtype": NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    return raw_bytes(json.dumps(header), data)


def raw_bytes(header: str, data: bytes = b"") -> bytes:
    """A file of safetensors with any header."""
    text = header.encode()
    return struct.pack("<Q", len(text)) + text + data


def write_checkpoint(
    folder: Path, tensors: Mapping[str, np.ndarray] | None = None, config: Mapping[str, Any] = CONFIG, shards: int = 1
) -> Path:
    """Writes a checkpoint, in one file or in shards with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = llama_tensors() if tensors is None else tensors
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "generation_config.json").write_text('{"eos_token_id": 2}', encoding="utf-8")
    if shards == 1:
        (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors))
        return folder
    names, weight_map = list(tensors), {}
    for shard in range(shards):
        part = names[shard * len(names) // shards : (shard + 1) * len(names) // shards]
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        (folder / file).write_bytes(safetensors_bytes({name: tensors[name] for name in part}))
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder


def _file(data: bytes) -> Callable[[Path], None]:
    return lambda folder: _discard((folder / "model.safetensors").write_bytes(data))


def _header(text: str, data: int = 0) -> Callable[[Path], None]:
    return _file(raw_bytes(text, bytes(data)))


def _config(text: str) -> Callable[[Path], None]:
    return lambda folder: _discard((folder / "config.json").write_text(text, encoding="utf-8"))


def _index(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Changes the index of a checkpoint in shards, or puts another thing in its place."""

    def broken(folder: Path) -> None:
        path = folder / "model.safetensors.index.json"
        index = json.loads(path.read_text(encoding="utf-8"))
        found = change(index)
        path.write_text(json.dumps(index if found is None else found), encoding="utf-8")

    return broken


def _cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def _pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def _folder_of_weights(folder: Path) -> None:
    _no_weights(folder)
    (folder / "model.safetensors").mkdir()


def _two_files(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    _no_weights(folder)
    for name in ("a.safetensors", "b.safetensors"):
        (folder / name).write_bytes(data)


def _missing_shard(folder: Path) -> None:
    (folder / "model-00002-of-00003.safetensors").unlink()


def _same_tensor_twice(folder: Path) -> None:
    first = (folder / "model-00001-of-00003.safetensors").read_bytes()
    (folder / "model-00002-of-00003.safetensors").write_bytes(first)


def _nothing(folder: Path) -> None:
    (folder / "config.json").unlink()


def _with_tensor(name: str, value: np.ndarray) -> Callable[[Path], None]:
    return _file(safetensors_bytes(llama_tensors() | {name: value}))


def _discard(value: object) -> None:
    """The number of bytes that writing returns."""


def _rename(index: dict[str, Any], to: str) -> None:
    index["weight_map"][next(iter(index["weight_map"]))] = to


_FIRST = "model.layers.0.mlp.down_proj.weight"
_ONE = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
#: What is broken -> shards of the checkpoint, what breaks it, and a part of the sentence.
BROKEN: dict[str, tuple[int, Callable[[Path], None], str]] = {
    "no config": (1, _nothing, "expected a JSON file, got none"),
    "config is no JSON": (1, _config("{"), "expected JSON, got"),
    "config is a list": (1, _config("[]"), "expected a JSON object, got list"),
    "config nested too deeply": (1, _config("[" * 200_000), "expected JSON, got"),
    "config without architecture": (1, _config("{}"), "expected model_type or architectures, got neither"),
    "quantized already": (
        1,
        _config(json.dumps(CONFIG | {"quantization_config": {"quant_method": "gptq"}})),
        "got one quantized as 'gptq'",
    ),
    "no weights": (1, _no_weights, "got neither"),
    "pickled weights": (1, _pickled, "got a pickled checkpoint, which runs code when it is read"),
    "a folder for a file": (1, _folder_of_weights, "expected a file of safetensors, got a folder"),
    "two files and no index": (1, _two_files, "got 2 files of safetensors and no index"),
    "empty file": (1, _file(b""), "got one that cannot be read"),
    "cut tensor": (1, _cut, "got one that cannot be read"),
    "huge header": (1, _file(b"\xff" * 64), "got one that cannot be read"),
    "header is no JSON": (1, _header("{nothing"), "got one that cannot be read"),
    "overlapping tensors": (
        1,
        _header('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":' + _ONE.replace("0,4", "2,6") + "}", 6),
        "got one that cannot be read",
    ),
    "a hole between tensors": (
        1,
        _header('{"a":' + _ONE.replace("0,4", "4,8") + "}", 8),
        "got one that cannot be read",
    ),
    "offsets beyond the file": (1, _header('{"a":' + _ONE + "}", 2), "got one that cannot be read"),
    "a shape of more than memory": (
        1,
        _header('{"a":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,4]}}', 4),
        "got one that cannot be read",
    ),
    "a name twice": (1, _header('{"a":' + _ONE + ',"a":' + _ONE + "}", 4), "got 'a' twice"),
    "unknown type": (1, _header('{"a":' + _ONE.replace("F32", "F31") + "}", 4), "got one that cannot be read"),
    "a missing shard": (3, _missing_shard, "expected every shard beside it, got none named 'model-00002-of-00003"),
    "one tensor in two shards": (3, _same_tensor_twice, "expected each tensor in one shard"),
    "an index without a map": (3, _index(lambda index: {"weight_map": 3}), "expected weight_map from tensors to files"),
    "an index to another shard": (
        3,
        _index(lambda index: _rename(index, "model-00003-of-00003.safetensors")),
        "expected 'model.embed_tokens.weight' in 'model-00003-of-00003.safetensors'",
    ),
    "an index that forgets a tensor": (
        3,
        _index(lambda index: _discard(index["weight_map"].popitem())),
        "expected every tensor of the shards, got none named",
    ),
    "a path upwards": (
        3,
        _index(lambda index: _rename(index, "../../etc/x.safetensors")),
        "expected names of safetensors",
    ),
    "NaN in a weight": (1, _with_tensor(_FIRST, np.full((HIDDEN, INNER), np.nan, np.float32)), "got NaN or infinity"),
    "FP8 without scales": (
        1,
        _with_tensor(_FIRST, np.zeros((HIDDEN, INNER), ml_dtypes.float8_e4m3fn)),
        "expected a matrix of FP8 beside its weight_scale_inv",
    ),
    "only vectors": (
        1,
        _file(safetensors_bytes({"a.weight": np.ones(3, np.float32)})),
        "expected linear layers, got none",
    ),
}
