"""Read the recorded answers of AMD Quark's operators in this folder (`record_quark.py` tells what the files hold)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """One run of one operator: compare `output` by its bits, NaN payloads and signed zeros included."""

    name: str
    operator: str
    attributes: dict[str, Any]
    inputs: tuple[NDArray[Any], ...]
    output: NDArray[Any]

    def __repr__(self) -> str:
        return f"{self.operator}-{self.name}"


def formats() -> list[str]:
    """Return the names of the recorded formats: `bfp_mx9`, `mx_int8`, `quantize_bfloat16`, `lstm`, ..."""
    names = (path.stem.removeprefix("quark_") for path in sorted(FOLDER.glob("quark_*.json")))
    return [name for name in names if name != "block_inputs"]


def cases(name: str) -> Iterator[Case]:
    """Yield the cases of one format; bfloat16 arrays have the dtype of ml_dtypes, all arrays are read-only.

    Example:
        >>> next(cases("bfp_mx9")).output.shape
        (36, 32)
    """
    document = _document(name)
    arrays = {key: _array(text) for key, text in (_document("block_inputs")["tensors"] | document["tensors"]).items()}
    for case in document["cases"]:
        inputs = tuple(arrays[key] for key in case["inputs"])
        operator = document["provenance"]["operator"]
        yield Case(case["name"], operator, case["attributes"], inputs, arrays[case["output"]])


def bits(array: NDArray[Any]) -> NDArray[Any]:
    """Return the bit patterns of an array as unsigned integers of the same width."""
    return array.view(f"u{array.dtype.itemsize}")


@cache
def _document(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / f"quark_{name}.json").read_text(encoding="ascii"))
    return document


def _array(tensor: dict[str, Any]) -> NDArray[Any]:
    dtype = np.dtype(getattr(ml_dtypes, tensor["dtype"], tensor["dtype"]))
    big_endian = bytes.fromhex("".join(tensor["bits"]))
    patterns = np.frombuffer(big_endian, f">u{dtype.itemsize}").astype(f"=u{dtype.itemsize}")
    array: NDArray[Any] = patterns.view(dtype).reshape(tensor["shape"])
    array.flags.writeable = False
    return array
