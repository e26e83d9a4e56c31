"""Record what AMD Quark exports of a small language model, as text, for tests/checkpoint/test_vs_quark.py.

    python record_quark_checkpoint.py [FILE]

Runs only where amd-quark 0.13, torch and transformers are installed (in an environment of their own: they are no
dependency of this project) and imports nothing of this project. Quark is used as a black box: it quantizes a Llama of
one block, whose weights follow from a seed, by each scheme, and exports it. FILE (`checkpoint_quark.json` in this
folder by default) holds `provenance` and, for each scheme, the tensors of the layers: type and shape, and of
`k_proj` the bytes as hexadecimal digits, of the others their SHA-256.
"""

import hashlib
import json
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 32,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
}
SHAPES = {
    "self_attn.q_proj": (64, 64),
    "self_attn.k_proj": (32, 64),
    "self_attn.v_proj": (32, 64),
    "self_attn.o_proj": (64, 64),
    "mlp.gate_proj": (128, 64),
    "mlp.up_proj": (128, 64),
    "mlp.down_proj": (64, 128),
}
SCHEMES = ["int4_wo_32", "int4_wo_64", "uint4_wo_32", "uint4_wo_64", "int4_wo_per_channel", "uint4_wo_per_channel"]
SCHEMES += ["int8", "fp8", "ptpc_fp8", "mxfp4", "mxfp6_e3m2", "mxfp6_e2m3"]
LINE = 64  # bytes on one line of the file


def weights():
    """Name -> float32 weights: a row of one sign, a group of zeros, one of tiny values, and an outlier."""
    rng, found = np.random.default_rng(13), {}
    for name, shape in SHAPES.items():
        x = rng.standard_normal(shape, np.float32) * np.float32(0.05)
        x[1] = np.abs(x[1])
        x[2, :32] = 0
        x[4, 32:] *= np.float32(2.0**-24)
        x[3, 5] = 1 + len(found) / 8
        found[f"model.layers.0.{name}.weight"] = x
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        found[name] = rng.standard_normal((32, 64), np.float32)
    for name in ("layers.0.input_layernorm", "layers.0.post_attention_layernorm", "norm"):
        found[f"model.{name}.weight"] = np.ones(64, np.float32)
    return found


def quantizer_config(scheme):
    from quark.torch import LLMTemplate
    from quark.torch.quantization.config.config import Int8PerChannelSpec, QConfig, QLayerConfig

    if scheme != "int8":
        return LLMTemplate.get("llama").get_config(scheme=scheme, exclude_layers=["lm_head"])
    # Quark's scheme of this name has one scale for a tensor, and static activations: this one is per channel.
    spec = Int8PerChannelSpec(ch_axis=0, symmetric=True, scale_type="float", round_method="half_even", is_dynamic=False)
    return QConfig(global_quant_config=QLayerConfig(weight=spec.to_quantization_spec()), exclude=["lm_head"])


def exported(folder, scheme):
    """Name -> type, shape and bytes of what Quark exports."""
    import torch
    from quark.torch import ModelQuantizer, export_safetensors
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    samples = torch.utils.data.DataLoader(torch.arange(64).reshape(2, 32) % 32, batch_size=1)
    quantizer = ModelQuantizer(quantizer_config(scheme))
    model = quantizer.freeze(quantizer.quantize_model(model, samples if scheme == "fp8" else None))
    with torch.no_grad():
        export_safetensors(model, str(folder / scheme))
    raw = (folder / scheme / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + size])
    for name, row in sorted(header.items()):
        if name.startswith("model.layers.0.") and "_proj.weight" in name:
            begin, end = row["data_offsets"]
            yield name, row["dtype"], row["shape"], raw[8 + size + begin : 8 + size + end]


def recorded(name, kind, shape, data):
    row = {"dtype": kind, "shape": shape}
    if "k_proj" not in name:
        return row | {"sha256": hashlib.sha256(data).hexdigest()}
    return row | {"bytes": [data[i : i + LINE].hex() for i in range(0, len(data), LINE)]}


def main():
    import quark
    import torch
    import transformers
    from safetensors.numpy import save_file

    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "checkpoint_quark.json"
    torch.set_num_threads(1)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "numpy": np.__version__}
    provenance = {"tool": f"AMD Quark {quark.__version__}, its PyTorch flow, CPU", **versions}
    provenance["inputs"] = "record_quark_checkpoint.py: weights(), seeded NumPy PCG64"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "config.json").write_text(json.dumps(CONFIG))
        save_file(weights(), folder / "model.safetensors", metadata={"format": "pt"})
        schemes = {scheme: {row[0]: recorded(*row) for row in exported(folder, scheme)} for scheme in SCHEMES}
    target.write_text(json.dumps({"provenance": provenance, "schemes": schemes}, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
