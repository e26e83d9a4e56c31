"""Reconstruction: what each layer with weights sees and should give, and how far from it a choice of weights is.

`gram` and `reconstruct` are modules of their own, which a job loads that rounds by the output.
"""

from quarkfast.reconstruction.input_means import InputMeans
from quarkfast.reconstruction.linear_layer import LinearLayer, linear_layers
from quarkfast.reconstruction.walk import Models

__all__ = ["InputMeans", "LinearLayer", "Models", "linear_layers"]
