"""Words, scales and zero points in Quark's layout are the bytes that AMD Quark exported (tests/golden)."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from golden.record_quark_checkpoint import SCHEMES, weights
from golden.vectors import FOLDER
from quarkfast.checkpoint.layouts import layout_of
from quarkfast.checkpoint.rounding import Rounding, quantize_weight
from quarkfast.checkpoint.safetensors_files import kind_of
from quarkfast.checkpoint.schemes import scheme_of
from support.made_checkpoints import float_weight

RECORDED = json.loads((FOLDER / "checkpoint_quark.json").read_text(encoding="ascii"))["schemes"]


@pytest.mark.parametrize("preset", SCHEMES)
def test_what_is_written_is_what_quark_exported(preset):
    scheme, found = scheme_of(preset), {}
    layout = layout_of("quark", scheme)
    for name, x in weights().items():
        if "_proj.weight" in name:
            weight = quantize_weight(float_weight(x), scheme, Rounding(np.dtype(np.float32), as_quark=True))
            found |= layout.pack(name.removesuffix(".weight"), weight)
    assert set(found) == set(RECORDED[preset])
    for name, row in RECORDED[preset].items():
        array = found[name]
        assert (kind_of(array.dtype), list(array.shape)) == (row["dtype"], row["shape"]), name
        if "bytes" in row:
            assert array.tobytes().hex() == "".join(row["bytes"]), name
        else:
            assert hashlib.sha256(array.tobytes()).hexdigest() == row["sha256"], name
