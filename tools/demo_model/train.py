"""Splits the digits and trains the network on them: seeded, so the same machine writes the same weights."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.demo.data import normalize

from .layers import Array, Sequential
from .network import CLASSES, build, leaves

SEED = 20
TEST_IMAGES = 500
CALIBRATION_IMAGES = 256
EPOCHS = 60
BATCH = 64
PEAK_RATE = 0.1
MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4
LABEL_SMOOTHING = 0.1

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]


class Digits(NamedTuple):
    """Images [N, 8, 8] and labels [N], split; calibration images are a part of the training images."""

    train_x: Pixels
    train_y: Labels
    test_x: Pixels
    test_y: Labels

    @property
    def calibration_x(self) -> Pixels:
        return self.train_x[:CALIBRATION_IMAGES]


def load() -> Digits:
    """scikit-learn's 1,797 handwritten digits, shuffled once by the seed; the last 500 are the test images."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    digits = load_digits()
    order = np.random.default_rng(SEED).permutation(len(digits.target))
    x, y = digits.images[order].astype(np.uint8), digits.target[order].astype(np.int64)
    return Digits(x[:-TEST_IMAGES], y[:-TEST_IMAGES], x[-TEST_IMAGES:], y[-TEST_IMAGES:])


def shift(x: Array, rng: np.random.Generator) -> Array:
    """Each image moved by -1, 0 or 1 pixel in each direction, with blank paper moving in."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (8, 8), axis=(2, 3))
    down, right = rng.integers(0, 3, (2, len(x)))
    return np.ascontiguousarray(windows[np.arange(len(x)), :, down, right])


def loss_gradient(logits: Array, labels: Labels) -> tuple[float, Array]:
    """Cross entropy with smoothed labels, averaged over the batch, and its gradient."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    target = np.full_like(logits, LABEL_SMOOTHING / CLASSES)
    target[np.arange(len(labels)), labels] += 1 - LABEL_SMOOTHING
    return float(-(target * log_p).sum() / len(labels)), (np.exp(log_p) - target) / np.float32(len(labels))


class Momentum:
    """Stochastic gradient descent with momentum; weight decay on matrices and kernels only."""

    def __init__(self, network: Sequential) -> None:
        self.layers = [layer for layer in leaves(network) if layer.params]
        self.velocity = [{name: np.zeros_like(p) for name, p in layer.params.items()} for layer in self.layers]

    def step(self, rate: float) -> None:
        for layer, velocity in zip(self.layers, self.velocity, strict=True):
            for name, param in layer.params.items():
                decay = np.float32(WEIGHT_DECAY) * param if param.ndim > 1 else np.float32(0)
                velocity[name] *= np.float32(MOMENTUM)
                velocity[name] += layer.grads[name] + decay
                param -= np.float32(rate) * velocity[name]


def train(digits: Digits) -> Sequential:
    """Trains from the seed on the training images alone; the last epoch's weights are the result."""
    rng = np.random.default_rng(SEED)
    network = build(rng)
    optimizer = Momentum(network)
    x, y = normalize(digits.train_x), digits.train_y
    steps = len(x) // BATCH
    for epoch in range(EPOCHS):
        order = rng.permutation(len(x))
        total = 0.0
        for step in range(steps):
            batch = order[step * BATCH : (step + 1) * BATCH]
            loss, gradient = loss_gradient(network.forward(shift(x[batch], rng), training=True), y[batch])
            network.backward(gradient)
            progress = (epoch + step / steps) / EPOCHS
            optimizer.step(PEAK_RATE * 0.5 * (1 + np.cos(np.pi * progress)))
            total += loss
        print(f"epoch {epoch + 1:2d}/{EPOCHS}  loss {total / steps:.4f}", flush=True)
    return network


def accuracy(network: Sequential, pixels: Pixels, labels: Labels) -> float:
    """The share of images whose largest logit is the label's."""
    return float((network.forward(normalize(pixels), training=False).argmax(axis=1) == labels).mean())
