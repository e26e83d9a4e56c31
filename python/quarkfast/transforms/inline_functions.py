"""Calls of local functions become what the functions do."""

from __future__ import annotations

from quarkfast.deferred import ir, passes
from quarkfast.errors import ModelError, UnsupportedError

__all__ = ["inline_functions"]


def inline_functions(model: ir.Model) -> bool:
    """Inlines every call of a local function, in place, and gives every node and value a name of its own.

    Comes first: onnx converts no functions to another operator set. Idempotent; graph inputs and outputs keep names and
    types; error 0. Returns whether there was a function or a name to change.

    Raises:
        ModelError: If functions call each other in a circle.
        UnsupportedError: If a function is of another operator set than the model, or takes a graph as an attribute.
    """
    called = bool(model.functions)
    if called:
        try:
            passes.InlinePass()(model)
        except ir.passes.PreconditionError as error:
            raise ModelError(
                "model: expected local functions without recursion, got some that call each other"
            ) from error
        except ValueError as error:
            cause = " ".join(str(error).split())
            raise UnsupportedError(f"model: expected local functions that can be inlined, got: {cause}") from error
    return passes.NameFixPass()(model).modified or called
