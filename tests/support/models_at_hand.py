"""Every model at hand with a few of its samples: the demo's, small ones of every kind of layer, the shared ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from quarkfast.demo.data import MODEL, load_images
from support.tiny_models import samples, tiny_model

Feed = Mapping[str, NDArray[Any]]

MEAN = np.float32([0.485, 0.456, 0.406])[:, None, None]
STD = np.float32([0.229, 0.224, 0.225])[:, None, None]
_RNG = np.random.default_rng(17)


@dataclass(frozen=True)
class AtHand:
    """A model and samples, the same for calibration and for a run.

    `more` are samples that take no part in calibration, for a second look. In an unstable model one code that is
    rounded to its neighbour spreads over most of the codes behind, so that two runs that round alike but for sums
    between two codes differ by as much as quantization takes. Which is the better one on a few samples is chance, and
    in favour of the run by which biases were corrected on these.
    """

    model: Path | onnx.ModelProto
    feed: Feed
    more: Feed | None = None


def _normal(*shape: int, scale: float = 0.3) -> NDArray[np.float32]:
    return (_RNG.standard_normal(shape) * scale).astype(np.float32)


def _layers() -> AtHand:
    """Every layer with a weight, with and without a bias and an activation, and what stands between layers."""
    text = """g (float[N, 4, 8, 8] x) => (float[N, 10] y, float[N, 8] z) {
        a = Conv<pads = [1, 1, 1, 1]>(x, w1, b1)
        b = Relu(a)
        c = Conv<pads = [1, 1, 1, 1], group = 8>(b, w2, b2)
        d = Clip(c, low, high)
        e = Conv(d, w3)
        p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(e)
        q = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(e)
        s = Add(p, q)
        t = Concat<axis = 1>(s, p)
        u = Sigmoid(t)
        v = Mul(u, t)
        h = HardSwish(v)
        f = ConvTranspose<strides = [2, 2]>(h, w4, b4)
        i = LeakyRelu<alpha = 0.1>(f)
        j, k = Split<axis = 1>(i, parts)
        l = Resize<mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric">(k, , scales)
        m = GlobalAveragePool(l)
        n = Flatten(m)
        o = GlobalAveragePool(j)
        r = Flatten(o)
        g1 = Gemm(n, w5, b5)
        g2 = Relu(g1)
        g3 = Gemm<transB = 1>(g2, w6, b6)
        m1 = MatMul(g3, w7)
        m2 = Add(m1, b7)
        m3 = Tanh(m2)
        y = Gemm(m3, w8, b8)
        z = Sub(r, n)
    }"""
    arrays = {
        "w1": _normal(8, 4, 3, 3), "b1": _normal(8), "w2": _normal(8, 1, 3, 3), "b2": _normal(8),
        "low": np.float32(0), "high": np.float32(6), "w3": _normal(8, 8, 1, 1), "w4": _normal(16, 16, 2, 2),
        "b4": _normal(16), "parts": np.int64([8, 8]), "scales": np.float32([1, 1, 2, 2]), "w5": _normal(8, 32),
        "b5": _normal(32), "w6": _normal(24, 32), "b6": _normal(24), "w7": _normal(24, 16), "b7": _normal(16),
        "w8": _normal(16, 10), "b8": _normal(10),
    }  # fmt: skip
    return AtHand(tiny_model(text, arrays), {"x": samples(16, (4, 8, 8))})


def _attention() -> AtHand:
    """A block of a transformer over embedded tokens, as exporters write it."""
    text = """g (int64[N, 8] tokens) => (float[N, 8, 12] y) {
        e = Gather(table, tokens)
        n = LayerNormalization(e, gain, shift)
        q = MatMul(n, wq)
        qb = Add(q, bq)
        k = MatMul(n, wk)
        kb = Add(k, bk)
        v = MatMul(n, wv)
        vb = Add(bv, v)
        qr = Reshape(qb, heads)
        qt = Transpose<perm = [0, 2, 1, 3]>(qr)
        kr = Reshape(kb, heads)
        kt = Transpose<perm = [0, 2, 3, 1]>(kr)
        vr = Reshape(vb, heads)
        vt = Transpose<perm = [0, 2, 1, 3]>(vr)
        s = MatMul(qt, kt)
        d = Div(s, root)
        p = Softmax(d)
        c = MatMul(p, vt)
        ct = Transpose<perm = [0, 2, 1, 3]>(c)
        cr = Reshape(ct, joined)
        o = MatMul(cr, wo)
        r = Add(o, e)
        m = LayerNormalization(r, gain, shift)
        f = MatMul(m, w1)
        fb = Add(f, b1)
        g = Gelu(fb)
        h = MatMul(g, w2)
        hb = Add(h, b2)
        z = Add(hb, r)
        y = MatMul(z, w3)
    }"""
    width = 32
    arrays = {
        "table": _normal(50, width, scale=1), "gain": np.ones(width, np.float32), "shift": np.zeros(width, np.float32),
        "heads": np.int64([0, 8, 4, 8]), "joined": np.int64([0, 8, width]), "root": np.float32(8**0.5),
        "w1": _normal(width, 64), "b1": _normal(64), "w2": _normal(64, width), "b2": _normal(width),
        "w3": _normal(width, 12),
    }  # fmt: skip
    arrays |= {f"w{name}": _normal(width, width) for name in "qkvo"} | {f"b{name}": _normal(width) for name in "qkv"}
    proto = tiny_model(text, arrays, opset=20, ir_version=9)
    return AtHand(proto, {"tokens": np.random.default_rng(2).integers(0, 50, (8, 8))})


def _digits() -> AtHand:
    return AtHand(MODEL, {"image": load_images().calibration[:16]})


def _cifar(name: str, count: int) -> Callable[[Path], AtHand]:
    def load(shared: Path) -> AtHand:
        with np.load(shared / "data" / "cifar10_calib.npz") as data:
            images = data["x"][: 12 * count].astype(np.float32) / 255
        normal = ((images - MEAN) / STD).astype(np.float32)
        return AtHand(shared / "models" / f"{name}.onnx", {"input": normal[:count]}, {"input": normal[count:]})

    return load


def _superres(shared: Path) -> AtHand:
    with np.load(shared / "data" / "cifar10_calib.npz") as data:
        tiles = data["x"][:49].astype(np.float32).mean(axis=1).reshape(7, 7, 32, 32) / 255
    image = np.ascontiguousarray(tiles.swapaxes(1, 2).reshape(1, 1, 224, 224))  # a mosaic of 49 photographs
    return AtHand(shared / "models" / "superres.onnx", {"input": image})


def _magika(shared: Path) -> AtHand:
    files = ("data/sts2016_headlines.tsv", "data/cifar10_calib.npz", "models/mnist.onnx", "models/superres.onnx")
    rows = np.stack([np.fromfile(shared / name, np.uint8, 2048) for name in files]).astype(np.int32)
    return AtHand(shared / "models" / "magika.onnx", {"bytes": rows})


# An image has ten outputs, which few codes between two sums decide.
def _mnist(shared: Path) -> AtHand:
    small = load_images().calibration[:25]
    grey = np.stack([np.resize(image, (1, 28, 28)) for image in small]).astype(np.float32) * np.float32(255)
    return AtHand(shared / "models" / "mnist.onnx", {"Input3": grey[:1]}, {"Input3": grey[1:]})


# Of the classifier more: its output is a pair of numbers, and on a few images one that is in doubt decides the ratio.
def _text(name: str, width: int, count: int) -> Callable[[Path], AtHand]:
    def load(shared: Path) -> AtHand:
        with np.load(shared / "data" / "text_lines.npz") as data:
            images = data["images"][: 12 * count, :, :, :width]
        lines = (images / np.float32(127.5) - np.float32(1)).astype(np.float32)
        return AtHand(shared / "models" / f"{name}.onnx", {"x": lines[:count]}, {"x": lines[count:]})

    return load


def _scenes(shared: Path) -> AtHand:
    with np.load(shared / "data" / "text_scenes.npz") as data:
        feed = {"images": data["images"][:1].astype(np.float32)}
    return AtHand(shared / "models" / "text_yolox.onnx", feed)


def _chords(shared: Path) -> AtHand:
    with np.load(shared / "data" / "chords.npz") as data:
        audio = (data["audio"][:1] / np.float32(20000)).astype(np.float32)
    return AtHand(shared / "models" / "basic_pitch.onnx", {"serving_default_input_2:0": audio})


def _minilm(shared: Path) -> AtHand:
    if "QUARKFAST_MINILM" not in os.environ:
        pytest.skip("no sentence encoder: set QUARKFAST_MINILM")
    path = Path(os.environ["QUARKFAST_MINILM"])
    tokens = np.random.default_rng(4).integers(1000, 20000, (2, 16))
    return AtHand(path, {"input_ids": tokens, "attention_mask": np.ones_like(tokens)})


SMALL: Mapping[str, Callable[[], AtHand]] = {"digits": _digits, "layers": _layers, "attention": _attention}
"""Name -> what loads a model that is always there."""

SHARED: Mapping[str, Callable[[Path], AtHand]] = {
    "resnet20": _cifar("resnet20_cifar10", 4),
    "resnet56": _cifar("resnet56_cifar10", 4),
    "mobilenetv2": _cifar("mobilenetv2_cifar10", 4),
    "superres": _superres,
    "magika": _magika,
    "mnist": _mnist,
    "ppocr_rec": _text("ppocr_rec", 320, 4),
    "ppocr_cls": _text("ppocr_cls", 192, 16),
    "text_yolox": _scenes,
    "basic_pitch": _chords,
    "minilm": _minilm,
}
"""Name -> what loads a model of the folder of real ones."""
