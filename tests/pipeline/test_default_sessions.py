"""Every preset on every model at hand: a default session agrees with exact sums, or the summary says why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

import onnx
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.config import Scheme
from quarkfast.config.quark import get_default_config, scheme_of
from quarkfast.config.quark.legacy import LEGACY_NAMES
from support.agreement import agrees, losses, run_samples
from support.models_at_hand import SHARED, SMALL, AtHand, Feed


def _schemes() -> Mapping[str, Scheme]:
    """Every preset, and those of Quark's that are none of ours under another name."""
    found = dict(quarkfast.PRESETS)
    known = {replace(scheme, name="") for scheme in found.values()}
    for name in LEGACY_NAMES:
        scheme = scheme_of(get_default_config(name))
        if replace(scheme, name="") not in known:
            known.add(replace(scheme, name=""))
            found[f"quark {name}"] = scheme
    return MappingProxyType(found)


SCHEMES = _schemes()

# Models of which a cell takes about a second: they leave out formats that differ from one that they keep in the bits of
# their elements alone, and of Quark's schemes keep four that differ from a preset in more than a method or a symmetry.
LARGE = ("minilm", "ppocr_rec", "resnet56", "text_yolox")
OTHERS = tuple(name for name in SHARED if name not in LARGE)
LEFT_OUT = {"MX4", "MX6", "MXFP8E4M3", "MXFP8E5M2", "MXFP6E3M2", "MXFP6E2M3", "MXFP4E2M1"}
KEPT = ("quark INT16_CNN_DEFAULT", "quark INT16_TRANSFORMER_DEFAULT", "quark U16S8_AAWS", "quark BF16_BFP16")


def _cells() -> list[tuple[str, str]]:
    """Models and schemes: presets on every model; Quark's schemes on the small ones, each on two of the others in turn.

    So are formats that large models leave out. Schemes of Quark's that fit how weights are rounded have the form of one
    that does not: each is tried on one model.
    """
    quarks = [scheme for scheme in SCHEMES if scheme not in quarkfast.PRESETS]
    plain = [scheme for scheme in quarks if SCHEMES[scheme].rounding == "nearest"]
    fitted = [scheme for scheme in quarks if scheme not in plain]
    cells = [(model, scheme) for model in OTHERS for scheme in quarkfast.PRESETS if scheme not in LEFT_OUT]
    cells += [(model, scheme) for model in SMALL for scheme in (*quarkfast.PRESETS, *plain)]
    cells += [(model, scheme) for model in LARGE for scheme in (*quarkfast.PRESETS, *KEPT) if scheme not in LEFT_OUT]
    in_turn = enumerate((*sorted(LEFT_OUT), *plain))
    cells += [(OTHERS[(2 * i + k) % len(OTHERS)], scheme) for i, scheme in in_turn for k in range(2)]
    models = (*SMALL, *OTHERS)
    cells += [(models[i % len(models)], scheme) for i, scheme in enumerate(fitted)]
    return sorted(cells, key=lambda cell: [*SMALL, *SHARED].index(cell[0]))


CELLS = _cells()


@pytest.fixture(scope="module", autouse=True)
def _schemas():
    quarkfast.register_schemas()


@cache
def _loaded(name: str, shared: Path | None) -> tuple[AtHand, list[object]]:
    """A model, and the outputs of its float form."""
    found = SMALL[name]() if shared is None else SHARED[name](shared)
    return found, _outputs(found.model, found.feed)


def _outputs(model: Path | onnx.ModelProto, feed: Feed) -> list[object]:
    """The outputs of a float model."""
    stored = model if isinstance(model, Path) else model.SerializeToString()
    return run_samples(ort.inference_session(stored, ort.session_options(threads=1)), feed)


@pytest.fixture
def at_hand(request, model):
    return _loaded(model, None if model in SMALL else request.getfixturevalue("shared"))


# What is said of some models is true: a detector that reads 0 to 255, and models without a matrix product.
@pytest.mark.filterwarnings("ignore:calibration data. input 'images'. all values are whole numbers:UserWarning")
@pytest.mark.filterwarnings("ignore:quantize. the model has no weight that can be stored so:UserWarning")
@pytest.mark.filterwarnings("ignore:quantize. nothing in the model can be quantized:UserWarning")
@pytest.mark.parametrize(("model", "scheme"), CELLS, ids=lambda each: each)
def test_a_default_session_is_close_to_exact_sums_or_the_summary_says_why_not(at_hand, scheme):
    found, reference = at_hand
    data = {} if SCHEMES[scheme].weights_only else {"calibration_data": found.feed}
    result = quarkfast.quantize(found.model, preset=SCHEMES[scheme], **data)
    lost = losses(result, found.feed, reference)
    if not agrees(result, lost) and found.more:
        lost = losses(result, found.more, _outputs(found.model, found.more), beyond_chance=True)
    assert agrees(result, lost), f"{lost} dB; the summary says {list(result.summary.notes)}"


def test_every_preset_of_quarkfast_and_quark_is_tried():
    """Quark's 65 names all run, 12 of them as presets or as one another by another name."""
    assert {scheme for _, scheme in CELLS} == set(SCHEMES)
    assert set(quarkfast.PRESETS) < set(SCHEMES)
    assert len(SCHEMES) - len(quarkfast.PRESETS) == len(LEGACY_NAMES) - 12


def test_every_shared_model_is_at_hand(shared):
    loaded = [load(shared).model for name, load in SHARED.items() if name != "minilm"]
    assert sorted(loaded) == sorted((shared / "models").glob("*.onnx"))
