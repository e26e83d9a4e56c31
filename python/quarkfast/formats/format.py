"""What every number format says of itself, scalar or block, so that nobody outside this package compares names."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Format"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Format:
    """A number format and its capabilities.

    Attributes:
        name: As in a `TensorSpec`, e.g. ``"int8"``, ``"bfloat16"`` or ``"mx9"``.
        bits: Width of one value in bits, its share of a block's exponents included.
        activation: Whether activations may have it.
        weight: Whether weights may have it.
        is_integer: Whether codes are integers, which have a scale and a zero point.
        is_block: Whether values along an axis share an exponent.
        signed: Whether it holds numbers below zero.
        needs_scale: Whether values are divided by a scale, which a range has to be found for: integers, 8-bit floats.
        may_be_scaled: Whether a scale is a choice: 16-bit floats.
        float32_range: Whether it holds infinities, and numbers as large as float32.
        integer_operators: Whether ConvInteger, MatMulInteger and onnxruntime's kernels on integers take its codes.
        operands_only: Whether it is defined for the operands of products alone.
        is_evenly_spaced: Whether numbers of one scale or one exponent are equally far apart: integers, blocks of them.
        is_narrow_block: Whether it is a block format whose elements have fewer significant bits than int8.
        linear_opset: The oldest operator set whose QuantizeLinear and DequantizeLinear it is written with, or None.
        dequantize_opset: The oldest operator set whose DequantizeLinear takes its codes, or None.
        custom_opset: The oldest operator set beside which Quark's operators carry it, or None.
        cast_opset: The oldest operator set whose Cast turns float32 into it and back, or None.
        quant_type: The member of ONNX Runtime's ``QuantType`` or Quark's ``ExtendedQuantType``, empty if none is.
    """

    name: str
    bits: float
    activation: bool = False
    weight: bool = False
    is_integer: bool = False
    is_block: bool = False
    signed: bool = True
    needs_scale: bool = False
    may_be_scaled: bool = False
    float32_range: bool = False
    integer_operators: bool = False
    operands_only: bool = False
    is_evenly_spaced: bool = False
    is_narrow_block: bool = False
    linear_opset: int | None = None
    dequantize_opset: int | None = None
    custom_opset: int | None = None
    cast_opset: int | None = None
    quant_type: str = ""
