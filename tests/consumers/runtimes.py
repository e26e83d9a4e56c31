"""A checkpoint in a runtime: what it goes on with, and the perplexity of rows of tokens."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

PROMPT = "The capital of France is"
NEW_TOKENS = 16


def rows_of_text(folder: Path, text: str, rows: int, length: int) -> np.ndarray:
    """The first rows of tokens of a text."""
    from tokenizers import Tokenizer

    tokens = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text, add_special_tokens=False).ids
    return np.array(tokens[: rows * length], np.int64).reshape(rows, length)


def in_transformers(folder: Path, rows: np.ndarray) -> tuple[str, float]:
    """What transformers makes of a folder, in float32 on one thread."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        ids = tokenizer(PROMPT, return_tensors="pt").input_ids
        told = model.generate(ids, max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=2)
        losses = []
        for row in torch.from_numpy(rows):
            logits = model(row[None]).logits[0, :-1].float()
            losses.append(torch.nn.functional.cross_entropy(logits, row[1:]).item())
    return tokenizer.decode(told[0, ids.shape[1] :]), float(np.exp(np.mean(losses)))


def in_vllm(folder: Path, rows: np.ndarray) -> tuple[str, float]:
    """What vLLM makes of a folder on the CPU, in bfloat16, as its quantized kernels want."""
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    from vllm import LLM, SamplingParams

    model = LLM(str(folder), dtype="bfloat16", max_model_len=rows.shape[1] + 64, enforce_eager=True, max_num_seqs=2)
    greedy = SamplingParams(temperature=0, max_tokens=NEW_TOKENS)
    told = model.generate(PROMPT, greedy, use_tqdm=False)[0].outputs[0].text
    prompts: Any = [{"prompt_token_ids": row.tolist()} for row in rows]
    found = model.generate(prompts, SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0), use_tqdm=False)
    losses = [
        -step[token].logprob
        for row, each in zip(rows, found, strict=True)
        for token, step in zip(row[1:].tolist(), each.prompt_logprobs[1:], strict=True)
    ]
    return told, float(np.exp(np.mean(losses)))


def in_llama_cpp(file: Path) -> str:
    """What llama.cpp goes on with."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(file)
    settings.n_ctx, settings.n_predict, settings.cpuparams.n_threads, settings.warmup = 512, NEW_TOKENS, 1, False
    request = {"prompt": PROMPT, "max_tokens": NEW_TOKENS, "temperature": 0, "seed": 1}
    answer = xllamacpp.Server(settings).handle_completions(request)
    found = json.loads(answer) if isinstance(answer, str | bytes) else answer
    return str(found["choices"][0]["text"])
