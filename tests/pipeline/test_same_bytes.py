"""Same input, same bytes out: twice, on every instruction set, with one thread and two; on a trained network."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast

_PRESETS = [
    ("A8W8", {"per_channel": True}),
    ("U8S8", {"method": "percentile"}),
    ("XINT8", {}),
    ("BF16", {}),
    ("MX9", {}),
    ("INT8_WO", {}),
    ("MATMUL_NBITS", {"group_size": 16}),
    ("FP16_WO", {}),
]


@pytest.fixture
def threads():
    before = quarkfast.num_threads()
    yield quarkfast.set_num_threads
    quarkfast.set_num_threads(before)


@pytest.mark.parametrize(("preset", "options"), _PRESETS, ids=lambda value: value if isinstance(value, str) else "")
def test_every_instruction_set_and_thread_count_gives_the_same_bytes(shared, threads, preset, options):
    with np.load(shared / "data" / "cifar10_calib.npz") as data:
        images = data["x"][:8].astype(np.float32) / 255
    made = {}
    for isa in quarkfast.available_isas():
        for count in (1, 2):
            threads(count)
            with quarkfast.use_isa(isa):
                result = quarkfast.quantize(
                    shared / "models" / "resnet20_cifar10.onnx",
                    preset=preset,
                    calibration_data={"input": images},
                    **options,
                )
            made[isa, count] = result.model_bytes
    repeated = quarkfast.quantize(
        shared / "models" / "resnet20_cifar10.onnx", preset=preset, calibration_data={"input": images}, **options
    )
    assert {key for key, data in made.items() if data != repeated.model_bytes} == set()
