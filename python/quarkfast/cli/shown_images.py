"""What the option ``--show`` of several verbs does."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quarkfast.cli import console

__all__ = ["show_first_images"]


def show_first_images(folder: Path, model: Path, data: str, options: Mapping[str, Any]) -> None:
    """Write the first images of the data to a folder, and say so on standard error."""
    from quarkfast.calibration.data import model_inputs, open_data
    from quarkfast.calibration.data.shown_images import show_images
    from quarkfast.graph.load import load_model

    inputs, preprocess = model_inputs(load_model(model)), options.get("preprocess")
    with warnings.catch_warnings():  # which the run itself shows
        warnings.simplefilter("ignore", UserWarning)
        opened = open_data(data, inputs, options.get("samples"), None, preprocess)
        told = show_images(iter(opened), inputs, folder, preprocess)
    console.show_line(f"quarkfast: {told}", error=True)
