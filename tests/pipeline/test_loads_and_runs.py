"""What is written loads and runs at every optimization level of onnxruntime, with results that are equal.

The product of presets, layers of each rank and operator sets is covered in pairs, each case at all levels;
``-m exhaustive`` takes the rest of it, and every model at hand in the operator set that it has and in 21.

At a level outputs have to be as near to those of the float model as exact sums are, less what `support.agreement`
allows: integer kernels round sums that lie between two codes to the other one. So they may where pairs of products
saturate on this processor, if the summary says that they do.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import onnx
import onnxruntime
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.errors import ModelError
from support.agreement import agrees, losses, run_samples
from support.covering import in_pairs
from support.exported_layers import LAYERS, RANKS, exported_model, exported_samples
from support.models_at_hand import SHARED, SMALL

LEVELS = tuple(onnxruntime.GraphOptimizationLevel.__members__.values())


# onnxruntime before 1.20 has no QLinearMatMul of operator set 21, and before 1.19 no types of 4 bits (docs/types.md).
RELEASE = tuple(map(int, ort.runtime_version().split(".")[:2]))


def _newest() -> int:
    """The newest operator set of which both onnx and onnxruntime have a layer."""
    for opset in range(20 if RELEASE < (1, 20) else onnx.defs.onnx_opset_version(), 13, -1):
        try:
            ort.inference_session(exported_model("linear", 2, opset).SerializeToString())
        except ModelError:
            continue
        return opset
    return 13


OPSETS = range(13, _newest() + 1)
SHAPED = tuple(product(LAYERS, RANKS))
PRESETS = tuple(preset for preset in quarkfast.PRESETS if RELEASE >= (1, 19) or preset != "INT4_WO")
FACTORS = (PRESETS, SHAPED, OPSETS)
PAIRS = in_pairs(*FACTORS)
OTHERS = [case for case in product(*FACTORS) if case not in set(PAIRS)]


@pytest.fixture(scope="module", autouse=True)
def _schemas():
    quarkfast.register_schemas()


@cache
def _float_outputs(layer: str, rank: int, opset: int):
    session = ort.inference_session(exported_model(layer, rank, opset).SerializeToString())
    return run_samples(session, exported_samples(rank))


@pytest.mark.filterwarnings("ignore:quantize. the model has no weight that can be stored so:UserWarning")
@pytest.mark.parametrize(
    ("preset", "shaped", "opset"),
    [*PAIRS, *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in OTHERS)],
    ids=lambda each: f"{each[0]} of rank {each[1]}" if isinstance(each, tuple) else str(each),
)
def test_a_result_loads_and_runs_at_every_level_and_gives_what_exact_sums_give(preset, shaped, opset):
    layer, rank = shaped
    model, feed = exported_model(layer, rank, opset), exported_samples(rank)
    data = {} if quarkfast.PRESETS[preset].weights_only else {"calibration_data": feed}
    result = quarkfast.quantize(model, preset=preset, **data)
    for level in LEVELS:
        lost = losses(result, feed, _float_outputs(layer, rank, opset), level=level)
        assert agrees(result, lost), f"{level}: {lost} dB; the summary says {list(result.summary.notes)}"


# What is said of some models is true: a detector that reads 0 to 255, and models without a matrix product.
@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:calibration data. input 'images'. all values are whole numbers:UserWarning")
@pytest.mark.filterwarnings("ignore:quantize. the model has no weight that can be stored so:UserWarning")
@pytest.mark.filterwarnings("ignore:quantize. nothing in the model can be quantized:UserWarning")
@pytest.mark.parametrize("options", [{}, {"opset": 21}], ids=["as it is", "operator set 21"])
@pytest.mark.parametrize("preset", quarkfast.PRESETS)
@pytest.mark.parametrize("name", [*SMALL, *SHARED])
def test_every_model_at_hand_loads_at_every_level(name, preset, options, request):
    found = SMALL[name]() if name in SMALL else SHARED[name](request.getfixturevalue("shared"))
    data = {} if quarkfast.PRESETS[preset].weights_only else {"calibration_data": found.feed}
    result = quarkfast.quantize(found.model, preset=preset, **data, **options)
    for level in LEVELS:
        chosen = ort.session_options(threads=1)
        chosen.graph_optimization_level = level
        ort.inference_session(result.model_bytes, chosen)
