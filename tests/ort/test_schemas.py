"""register_schemas: the checker of onnx accepts our models and refuses wrong ones."""

from typing import Any

import onnx
import pytest

import quarkfast

from .models import Array, one_node
from .test_concurrency import OPERATORS, X

MODELS: dict[str, tuple[str, list[Array], dict[str, Any]]] = {
    **OPERATORS,
    "observe": ("Observe", [X], {"domain": "quarkfast", "collector": 0, "slot": 0}),
    "compare": ("Compare", [X, X], {"domain": "quarkfast", "output": "float64", "limit": 0.5, "axis": 1}),
}


def stated(op: str, inputs: list[Array], **options: Any) -> onnx.ModelProto:
    """Model of one node whose output states a shape, as the checker wants."""
    model = one_node(op, inputs, **options)
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_param = "n"
    return model


@pytest.mark.parametrize("name", MODELS)
def test_the_checker_accepts_every_operator(name: str) -> None:
    op, inputs, options = MODELS[name]
    quarkfast.register_schemas()
    quarkfast.register_schemas()
    onnx.checker.check_model(stated(op, inputs, **options), full_check=True, check_custom_domain=True)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("MXQuantizeDequantize", [X], {"blocksize": 32}),
        ("MXQuantizeDequantize", [X], {"block_size": 32.0}),
        ("MXQuantizeDequantize", [X, X], {}),
        ("ExtendedLSTM", [X, X, X, X], {"hidden_size": 3}),
        ("ExtendedQuantizeLinear", [X, X], {}),
    ],
    ids=["unknown attribute", "attribute of another type", "an input too many", "attributes missing", "input missing"],
)
def test_the_checker_refuses_what_no_operator_takes(op: str, inputs: list[Array], attributes: dict[str, Any]) -> None:
    quarkfast.register_schemas()
    with pytest.raises(onnx.checker.ValidationError, match=op):
        onnx.checker.check_model(stated(op, inputs, **attributes), check_custom_domain=True)
