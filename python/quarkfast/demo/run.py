"""Quantizes the demo's model with the presets of integers and 16-bit floats and measures what that costs.

Models are judged with exact sums (:mod:`quarkfast.evaluate.exact_sums`): the figures are those of the models, and the
same on every processor.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.config import PRESETS
from quarkfast.demo.data import INPUT_NAME, MODEL, Images, load_images
from quarkfast.evaluate import agreement, sqnr, top1
from quarkfast.evaluate.accuracy import differ
from quarkfast.evaluate.exact_sums import exact_session

FLOAT = "float"

#: Block formats pay in larger models: this one's channels do not fill their blocks. Groups of weights lie along the sum
#: of a matrix product, and this one convolves.
DEMO_PRESETS = tuple(
    name for name, scheme in PRESETS.items() if not scheme.weight.is_block and scheme.weight.granularity != "group"
)


class Row(NamedTuple):
    """What one preset made of the model.

    Attributes:
        preset: The preset's name, or "float" for the model as it was.
        size: Bytes of the file.
        top1: Test images whose largest logit is the label's, in percent.
        agreement: Test images on which it decides as the float model does, in percent.
        sqnr: Signal to quantization noise of the logits, in dB; infinite for the float model.
        seconds: How long quantizing took, from the float file to the quantized one, imports apart; None for
            the float model.
        default_top1: As `top1`, in a default session on this processor.
        default_sqnr: As `sqnr`, there.
    """

    preset: str
    size: int
    top1: float
    agreement: float
    sqnr: float
    seconds: float | None
    default_top1: float
    default_sqnr: float

    @property
    def default_is_others(self) -> bool:
        """Whether a default session on this processor is not what exact sums are."""
        return differ(self.sqnr, self.default_sqnr)


def run(report: Callable[[str], None] = lambda preset: None) -> Iterator[Row]:
    """Yield one row for the float model and one for every preset of integers and 16-bit floats.

    Args:
        report: Called with the name of each preset before its work begins.

    Raises:
        DependencyError: onnxruntime is missing or too old.

    Example:
        >>> next(run()).preset
        'float'
    """
    images = load_images()
    report(FLOAT)
    truth = logits_of(MODEL, images)
    yield measure(FLOAT, MODEL, truth, images, None)
    with tempfile.TemporaryDirectory(prefix="quarkfast-demo-") as folder:
        for preset in DEMO_PRESETS:
            report(preset)
            path = Path(folder, f"{preset}.onnx")
            seconds = quantize_model(preset, path, images)
            yield measure(preset, path, truth, images, seconds)


def quantize_model(preset: str, path: Path, images: Images) -> float:
    """Quantize the embedded model to a path and return the seconds that it took, imports apart."""
    from quarkfast.search.quantize import quantize

    result = quantize(MODEL, path, preset=preset, calibration_data={INPUT_NAME: images.calibration})
    # Importing packages is paid once a process, so it is no property of the preset that happens to come first.
    return sum(seconds for stage, seconds in result.summary.seconds.items() if stage != "import")


def logits_of(path: Path, images: Images, *, exact: bool = True) -> NDArray[np.float32]:
    """Run a model on the test images in ONNX Runtime, with exact sums or in a default session."""
    session = exact_session(path) if exact else ort.inference_session(path)
    logits: NDArray[np.float32] = ort.run(session, {INPUT_NAME: images.test})[0]
    return logits


def measure(preset: str, path: Path, truth: NDArray[np.float32], images: Images, seconds: float | None) -> Row:
    """Compare a model's logits with the labels and with the float model's logits."""
    logits, default = (logits_of(path, images, exact=exact) for exact in (True, False))
    return Row(
        preset,
        path.stat().st_size,
        top1(logits, images.labels),
        agreement(truth, logits),
        sqnr(truth, logits),
        seconds,
        top1(default, images.labels),
        sqnr(truth, default),
    )
