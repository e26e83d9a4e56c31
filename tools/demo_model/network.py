"""The demo model's layers in order."""

from collections.abc import Iterator

import numpy as np

from .layers import BatchNorm, Conv, DepthwiseConv, Gemm, GlobalAveragePool, Layer, Relu, Residual, Sequential

NARROW, WIDE = 16, 48
CLASSES = 10


def build(rng: np.random.Generator) -> Sequential:
    """The network: [N, 1, 8, 8] pixels in 0..1 to [N, 10] logits.

    Its parts are those of the CNNs that people quantize: a stem, a residual block, a strided depthwise separable
    convolution, a second residual block, global average pooling and a fully connected layer.
    """
    return Sequential(
        *conv_bn_relu(Conv(rng, 1, NARROW, 3), NARROW),
        residual(rng, NARROW),
        *conv_bn_relu(DepthwiseConv(rng, NARROW, 3, stride=2), NARROW),
        *conv_bn_relu(Conv(rng, NARROW, WIDE, 1), WIDE),
        residual(rng, WIDE),
        GlobalAveragePool(),
        Gemm(rng, WIDE, CLASSES),
    )


def conv_bn_relu(conv: Conv | DepthwiseConv, channels: int) -> tuple[Layer, BatchNorm, Relu]:
    return conv, BatchNorm(channels), Relu()


def residual(rng: np.random.Generator, channels: int) -> Residual:
    first, second = Conv(rng, channels, channels, 3), Conv(rng, channels, channels, 3)
    return Residual(*conv_bn_relu(first, channels), second, BatchNorm(channels))


def leaves(layer: Layer) -> Iterator[Layer]:
    """The layers that compute something, in the order of the forward pass."""
    if isinstance(layer, Sequential):
        for child in layer.layers:
            yield from leaves(child)
    elif isinstance(layer, Residual):
        yield from leaves(layer.body)
        yield layer.relu
    else:
        yield layer
