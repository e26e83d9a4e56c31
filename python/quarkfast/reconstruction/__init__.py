"""Reconstruction: what each layer with weights sees and should give, and how far from it a choice of weights is."""

from quarkfast.reconstruction.gram import GramMatrices
from quarkfast.reconstruction.input_means import InputMeans
from quarkfast.reconstruction.linear_layer import LinearLayer, linear_layers
from quarkfast.reconstruction.output_error import output_error
from quarkfast.reconstruction.reconstruct import LayerStatistics, Models, reconstruct

__all__ = [
    "GramMatrices",
    "InputMeans",
    "LayerStatistics",
    "LinearLayer",
    "Models",
    "linear_layers",
    "output_error",
    "reconstruct",
]
