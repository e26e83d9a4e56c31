"""The layers of the demo model in plain NumPy: forward, and backward for training.

Images are [N, C, H, W] float32. A layer keeps what its backward pass needs, returns the gradient of its input,
and leaves the gradients of its parameters in `grads` under the names of `params`.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Params = dict[str, Array]

BN_EPSILON = 1e-5
BN_MOMENTUM = 0.9


class Layer(Protocol):
    """What the network asks of a layer."""

    params: Params
    grads: Params

    def forward(self, x: Array, training: bool) -> Array: ...

    def backward(self, dy: Array) -> Array: ...


def patches(x: Array, kernel: int, stride: int, pad: int) -> Array:
    """Every window of x as a view: [N, C, H', W', kernel, kernel]."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(2, 3))
    return windows[:, :, ::stride, ::stride]


def scatter_patches(dp: Array, shape: tuple[int, ...], stride: int, pad: int) -> Array:
    """The transpose of `patches`: adds [N, C, H', W', k, k] back onto an image of the given shape."""
    n, c, h, w = shape
    rows, cols, kernel = dp.shape[2], dp.shape[3], dp.shape[4]
    dx = np.zeros((n, c, h + 2 * pad, w + 2 * pad), np.float32)
    for i in range(kernel):
        for j in range(kernel):
            dx[:, :, i : i + stride * rows : stride, j : j + stride * cols : stride] += dp[..., i, j]
    return dx[:, :, pad : pad + h, pad : pad + w]


def he_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Normal values with variance 2 / fan-in (He et al. 2015, equation 10)."""
    fan_in = int(np.prod(shape[1:]))
    values: Array = (rng.standard_normal(shape) * np.sqrt(2.0 / fan_in)).astype(np.float32)
    return values


class Conv:
    """A convolution without bias (BatchNorm follows), padded to keep the size at stride 1."""

    def __init__(self, rng: np.random.Generator, c_in: int, c_out: int, kernel: int, stride: int = 1) -> None:
        self.kernel, self.stride, self.pad, self.group = kernel, stride, kernel // 2, 1
        self.params: Params = {"W": he_normal(rng, (c_out, c_in, kernel, kernel))}
        self.grads: Params = {}

    def forward(self, x: Array, training: bool) -> Array:
        windows = patches(x, self.kernel, self.stride, self.pad)
        n, _, h, w = windows.shape[:4]
        weight = self.params["W"]
        columns = np.ascontiguousarray(windows.transpose(0, 2, 3, 1, 4, 5)).reshape(n * h * w, -1)
        if training:
            self.saved = (x.shape, columns)
        y = columns @ weight.reshape(len(weight), -1).T
        return np.ascontiguousarray(y.reshape(n, h, w, -1).transpose(0, 3, 1, 2))

    def backward(self, dy: Array) -> Array:
        shape, columns = self.saved
        weight = self.params["W"]
        n, c_out, h, w = dy.shape
        rows = dy.transpose(0, 2, 3, 1).reshape(-1, c_out)
        self.grads["W"] = (rows.T @ columns).reshape(weight.shape)
        dp = (rows @ weight.reshape(c_out, -1)).reshape(n, h, w, -1, self.kernel, self.kernel)
        return scatter_patches(dp.transpose(0, 3, 1, 2, 4, 5), shape, self.stride, self.pad)


class DepthwiseConv:
    """One kernel for each channel, without bias."""

    def __init__(self, rng: np.random.Generator, channels: int, kernel: int, stride: int = 1) -> None:
        self.kernel, self.stride, self.pad, self.group = kernel, stride, kernel // 2, channels
        self.params: Params = {"W": he_normal(rng, (channels, 1, kernel, kernel))}
        self.grads: Params = {}

    def forward(self, x: Array, training: bool) -> Array:
        windows = patches(x, self.kernel, self.stride, self.pad)
        n, c, h, w = windows.shape[:4]
        columns = np.ascontiguousarray(windows.transpose(1, 0, 2, 3, 4, 5)).reshape(c, n * h * w, -1)
        if training:
            self.saved = (x.shape, columns)
        y = columns @ self.params["W"].reshape(c, -1, 1)
        return np.ascontiguousarray(y.reshape(c, n, h, w).transpose(1, 0, 2, 3))

    def backward(self, dy: Array) -> Array:
        shape, columns = self.saved
        weight = self.params["W"]
        n, c, h, w = dy.shape
        rows = dy.transpose(1, 0, 2, 3).reshape(c, -1, 1)
        self.grads["W"] = (columns.transpose(0, 2, 1) @ rows).reshape(weight.shape)
        dp = (rows @ weight.reshape(c, 1, -1)).reshape(c, n, h, w, self.kernel, self.kernel)
        return scatter_patches(dp.transpose(1, 0, 2, 3, 4, 5), shape, self.stride, self.pad)


class BatchNorm:
    """Batch normalization over N, H, W (Ioffe and Szegedy 2015), with running statistics for inference."""

    def __init__(self, channels: int) -> None:
        self.params: Params = {"scale": np.ones(channels, np.float32), "bias": np.zeros(channels, np.float32)}
        self.grads: Params = {}
        self.mean = np.zeros(channels, np.float32)
        self.var = np.ones(channels, np.float32)

    def forward(self, x: Array, training: bool) -> Array:
        mean, var = self.mean, self.var
        if training:
            mean, var = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
            self.mean = BN_MOMENTUM * self.mean + np.float32(1 - BN_MOMENTUM) * mean
            self.var = BN_MOMENTUM * self.var + np.float32(1 - BN_MOMENTUM) * var
        inverse = 1 / np.sqrt(var + np.float32(BN_EPSILON))
        normal = (x - mean[:, None, None]) * inverse[:, None, None]
        if training:
            self.saved = (normal, inverse)
        y: Array = normal * self.params["scale"][:, None, None] + self.params["bias"][:, None, None]
        return y

    def backward(self, dy: Array) -> Array:
        normal, inverse = self.saved
        self.grads["bias"] = dy.sum(axis=(0, 2, 3))
        self.grads["scale"] = (dy * normal).sum(axis=(0, 2, 3))
        count = np.float32(dy.size // dy.shape[1])
        centred: Array = (
            dy - (self.grads["bias"] / count)[:, None, None] - normal * (self.grads["scale"] / count)[:, None, None]
        )
        centred *= (self.params["scale"] * inverse)[:, None, None]
        return centred


class Relu:
    """max(x, 0)."""

    def __init__(self) -> None:
        self.params: Params = {}
        self.grads: Params = {}

    def forward(self, x: Array, training: bool) -> Array:
        if training:
            self.saved = x > 0
        return np.maximum(x, np.float32(0))

    def backward(self, dy: Array) -> Array:
        return dy * self.saved


class GlobalAveragePool:
    """The mean of each channel: [N, C, H, W] to [N, C]."""

    def __init__(self) -> None:
        self.params: Params = {}
        self.grads: Params = {}

    def forward(self, x: Array, training: bool) -> Array:
        if training:
            self.saved = x.shape
        mean: Array = x.mean(axis=(2, 3))
        return mean

    def backward(self, dy: Array) -> Array:
        n, c, h, w = self.saved
        return np.broadcast_to(dy[:, :, None, None] / np.float32(h * w), (n, c, h, w))


class Gemm:
    """x W^T + b."""

    def __init__(self, rng: np.random.Generator, c_in: int, c_out: int) -> None:
        self.params: Params = {"W": he_normal(rng, (c_out, c_in)), "b": np.zeros(c_out, np.float32)}
        self.grads: Params = {}

    def forward(self, x: Array, training: bool) -> Array:
        if training:
            self.saved = x
        return x @ self.params["W"].T + self.params["b"]

    def backward(self, dy: Array) -> Array:
        self.grads["W"] = dy.T @ self.saved
        self.grads["b"] = dy.sum(axis=0)
        return dy @ self.params["W"]


class Sequential:
    """Layers one after another."""

    def __init__(self, *layers: Layer) -> None:
        self.layers = layers
        self.params: Params = {}
        self.grads: Params = {}

    def forward(self, x: Array, training: bool) -> Array:
        for layer in self.layers:
            x = layer.forward(x, training)
        return x

    def backward(self, dy: Array) -> Array:
        for layer in reversed(self.layers):
            dy = layer.backward(dy)
        return dy


class Residual:
    """relu(body(x) + x)."""

    def __init__(self, *body: Layer) -> None:
        self.body = Sequential(*body)
        self.relu = Relu()
        self.params: Params = {}
        self.grads: Params = {}

    def forward(self, x: Array, training: bool) -> Array:
        return self.relu.forward(self.body.forward(x, training) + x, training)

    def backward(self, dy: Array) -> Array:
        dy = self.relu.backward(dy)
        return self.body.backward(dy) + dy
