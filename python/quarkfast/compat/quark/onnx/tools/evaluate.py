"""``quark.onnx.tools.evaluate``: two folders of results, with Quark's arguments and figures."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from quarkfast.compat.quark.onnx.tools.command import Parser
from quarkfast.errors import QuarkfastError
from quarkfast.pipeline.evaluate_folders import evaluate_folders

__all__ = ["main"]

_ROWS = {
    "cosine similarity": ("mean", "cosine_mean", "min", "cosine_min"),
    "L2 loss": ("mean", "l2_mean", "max", "l2_max"),
    "PSNR": ("mean", "psnr_mean", "min", "psnr_min"),
    "SSIM": ("mean", "ssim_mean", "min", "ssim_min"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares two folders and prints what Quark's tool prints: one line a metric.

    Args:
        arguments: The words after the command's name; the process's own by default.

    Returns:
        0, or 1 where the folders cannot be compared.
    """
    parser = Parser(prog="evaluate", description="Compare two folders of .npy, .png and .jpg files.")
    parser.add_argument("--baseline_results_folder", required=True, help="results of the float model")
    parser.add_argument("--quantized_results_folder", required=True, help="results of the quantized model")
    given = parser.parse_args(arguments)
    try:
        found = evaluate_folders(given.baseline_results_folder, given.quantized_results_folder)
    except QuarkfastError as error:
        sys.stderr.write(f"evaluate: error: {error}\n")
        return 1
    for scores in found.scores:
        sys.stdout.write(f"{scores.output}: {scores.samples} files\n")
        for title, (first, one, second, two) in _ROWS.items():
            figures = getattr(scores, one), getattr(scores, two)
            if None not in figures:
                sys.stdout.write(f"{title}: {first} {figures[0]:.9g}, {second} {figures[1]:.9g}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
