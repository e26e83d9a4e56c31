"""What an operator of a quantized model costs beside the float one: ``python -m bench.overhead MODEL INPUTS.npz``.

INPUTS.npz holds an array for each input of MODEL, samples along axis 0; all of them make one batch. The model is
quantized with ``--preset`` (default BF16, whose pairs are custom operators), both run in turn on one thread,
and the least times count. Prints one line.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import quarkfast
from bench.two_libraries import fastest
from quarkfast import ort


def main() -> None:
    """Print the latencies and their ratio."""
    parser = argparse.ArgumentParser(prog="python -m bench.overhead", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("inputs", type=Path)
    parser.add_argument("--preset", default="BF16")
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    with np.load(options.inputs) as file:
        feed = dict(file)
    quantized = quarkfast.quantize(options.model, preset=options.preset, calibration_data=[feed]).model_bytes
    models = {"float": options.model, options.preset: quantized}
    sessions = {name: ort.inference_session(model, ort.session_options(threads=1)) for name, model in models.items()}
    best = fastest({name: lambda s=s: s.run(None, feed) for name, s in sessions.items()}, options.seconds)
    batch = len(next(iter(feed.values())))
    parts = [f"{name} {seconds * 1e3:.1f} ms" for name, seconds in best.items()]
    ratio = best[options.preset] / best["float"]
    print(f"{options.model.stem}, batch {batch}, one thread: {', '.join(parts)}, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
