"""Every preset name of Quark's, run, checked, beside Quark's own model: ``python -m bench.quark_presets WORK SHARED``.

Models are quantized by ``ModelQuantizer(Config(get_default_config(name)))``, so strictly as the name says, with the
samples of ``WORK/MODEL.npz``, and held against the rules of their target. The first output on ``WORK/MODEL.judge.npz``
judges, with exact sums; also Quark's own model, where there is a ``WORK/MODEL_NAME.onnx``. ``--models`` and ``--names``
choose some. With ``--samples 4 --iterations 20 --tuned 2`` 4 samples calibrate and fine-tuning takes 20 steps a layer
over 2 of them, and Quark's model is the ``WORK/MODEL_NAME_4_20.onnx`` that ``bench/peers/quark_few_steps.py`` makes;
with ``--key WeightsOnly`` it is the ``WORK/MODEL_NAME_WeightsOnly.onnx`` of ``bench/peers/quark_ends.py``.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import quarkfast
from quarkfast.config.quark import Config, get_default_config
from quarkfast.config.quark.legacy import LEGACY_NAMES
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session

MODELS = ("resnet20_cifar10", "mobilenetv2_cifar10", "text_yolox")


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("shared", type=Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--names", default="")
    parser.add_argument("--iterations", type=int, default=0, help="steps of fine-tuning a layer; 0: the preset's")
    parser.add_argument("--tuned", type=int, default=1000, help="samples of fine-tuning, beside --iterations")
    parser.add_argument("--samples", type=int, default=0, help="samples that calibrate; 0: all")
    parser.add_argument("--key", default="", help="a key of Quark that is True beside the preset")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    models = given.models.split(",")
    sys.stdout.write(f"| preset | {' | '.join(f'{name}, Quark' for name in models)} |\n")
    sys.stdout.write(f"| :-- |{' --: |' * len(models)}\n")
    change = _Change(given.iterations, given.tuned, given.samples, given.key)
    judges = {name: _Judge(given.work, given.shared, name, change) for name in models}
    for name in filter(None, given.names.split(",")) if given.names else LEGACY_NAMES:
        cells = [judges[model].cell(name) for model in models]
        sys.stdout.write(f"| {name} | {' | '.join(cells)} |\n")
        sys.stdout.flush()


class _Change(NamedTuple):
    """What the presets do not say: steps and samples of fine-tuning, samples that calibrate, and a key."""

    iterations: int
    tuned: int
    samples: int
    key: str

    def apply(self, options: dict[str, Any]) -> None:
        """Changes the options of a preset."""
        tuning = options.get("FastFinetune")
        if self.iterations and tuning:
            steps = {} if tuning["OptimAlgorithm"] == "descent" else {"NumIterations": self.iterations}
            options["FastFinetune"] = {**tuning, **steps, "DataSize": self.tuned}
        if self.key:
            options[self.key] = True

    @property
    def ending(self) -> str:
        """How Quark's file ends."""
        return (f"_{self.samples}_{self.iterations}" if self.iterations else "") + (f"_{self.key}" if self.key else "")


class _Judge:
    """A model, what it is calibrated with, and what it gives on other samples."""

    def __init__(self, work: Path, shared: Path, name: str, change: _Change) -> None:
        self._change = change
        self._work, self._name, self._path = work, name, shared / "models" / f"{name}.onnx"
        session = exact_session(str(self._path))
        self._input = session.get_inputs()[0].name
        self._samples = _array(work / f"{name}.npz")[: change.samples or None]
        self._others = _array(work / f"{name}.judge.npz")
        self._wanted = self._run(session)

    def _run(self, session: object) -> np.ndarray:
        rows = [session.run(None, {self._input: row[None]})[0] for row in self._others]  # type: ignore[attr-defined]
        return np.concatenate(rows)

    def _ratio(self, model: bytes) -> str:
        return f"{sqnr(self._wanted, self._run(exact_session(model))):.1f}"

    def cell(self, name: str) -> str:
        """Returns our decibels, Quark's, and how many rules of the target are broken, if any are."""
        config = get_default_config(name)
        self._change.apply(config.extra_options)
        quantizer = quarkfast.ModelQuantizer(Config(config))
        reader = [{self._input: row[None]} for row in self._samples]
        model = quantizer.quantize_model(str(self._path), None, reader)
        assert model is not None
        found = [self._ratio(model.SerializeToString())]
        theirs = self._work / f"{self._name}_{name}{self._change.ending}.onnx"
        found += [self._ratio(theirs.read_bytes())] if theirs.exists() else []
        errors = quarkfast.check_model(model, quantizer.scheme.target).errors
        return ", ".join([*found, *([f"{len(errors)} broken"] if errors else [])])


def _array(path: Path) -> np.ndarray:
    with np.load(path) as data:
        return data[data.files[0]].astype(np.float32)


if __name__ == "__main__":
    main()
