"""Rules of single layers and tensors: what they have otherwise than the rest of a model, as frozen plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any, Literal, get_args

from quarkfast.config.spec import Granularity, ScaleKind, TensorSpec
from quarkfast.errors import ConfigError, did_you_mean

__all__ = ["BiasKind", "Change", "LayerRule", "TensorRule", "read_exclude", "read_layers", "read_tensors"]

_Narrow = Literal["int16"]
BiasKind = Literal["int32", _Narrow, "weight", "float"]
_SPEC_FIELDS = tuple(field.name for field in dataclasses.fields(TensorSpec))
_FLAG = (lambda value: isinstance(value, bool)), "True or False"
# Types and parameters of methods are checked with the scheme.
_VALUES: Mapping[str, tuple[Callable[[Any], bool], str]] = MappingProxyType(
    {
        "symmetric": _FLAG,
        "scaled": _FLAG,
        "reduce_range": _FLAG,
        "range_symmetric": (lambda value: value is None or isinstance(value, bool), "True, False or None"),
        "granularity": (lambda value: value in get_args(Granularity), "tensor, channel or group"),
        "scale": (lambda value: value in get_args(ScaleKind), ", ".join(get_args(ScaleKind))),
        "method": (lambda value: isinstance(value, str), "the name of one"),
        "group_size": (lambda value: _is_whole(value) and value > 0, "a whole number above 0"),
    }
)


@dataclass(frozen=True, slots=True)
class Change:
    """Fields of a `TensorSpec` that are different, as pairs of name and value.

    Example:
        >>> spec = Change.of({"dtype": "int16"}, "layers").apply(TensorSpec("uint8", symmetric=False))
        >>> spec.dtype, spec.symmetric
        ('int16', True)
    """

    values: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, plain: Any, where: str) -> Change:
        """Makes one of plain data.

        Raises:
            ConfigError: If a name is no field of a spec, or a value is of another kind.
        """
        for key, value in _mapping(plain, where).items():
            if key not in _SPEC_FIELDS:
                known = ", ".join(_SPEC_FIELDS)
                raise ConfigError(f"{where}: expected one of {known}, got {key!r}{did_you_mean(key, _SPEC_FIELDS)}")
            accepts, expected = _VALUES.get(key, (None, ""))
            if accepts is not None and not accepts(value):
                raise ConfigError(f"{where}: {key}: expected {expected}, got {value!r}")
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
        return cls(tuple(sorted(values.items())))

    def apply(self, spec: TensorSpec) -> TensorSpec:
        """Returns `spec` with the changes; another type brings its usual symmetry along, unless that is changed too."""
        given = dict(self.values)
        if "dtype" in given:
            spec = spec.with_type(given["dtype"])
        return dataclasses.replace(spec, **given)

    def to_plain(self) -> dict[str, Any]:
        """Returns plain data, for JSON."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in self.values}


@dataclass(frozen=True, slots=True)
class LayerRule:
    """What some layers have of their own; a later rule wins over an earlier one.

    Attributes:
        nodes: Names, globs or regular expressions of nodes.
        op_types: Operator types, all of whose nodes the rule holds for too.
        activation: Of the tensors that they read.
        weight: Of their constants.
        output: Of the tensors that they write.
        bias: What becomes of their biases.
    """

    nodes: tuple[str, ...] = ()
    op_types: tuple[str, ...] = ()
    activation: Change | None = None
    weight: Change | None = None
    output: Change | None = None
    bias: BiasKind | None = None

    def to_plain(self) -> dict[str, Any]:
        """Returns plain data, for JSON, without what is not given."""
        plain: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Change):
                plain[field.name] = value.to_plain()
            elif value not in ((), None):
                plain[field.name] = list(value) if isinstance(value, tuple) else value
        return plain


@dataclass(frozen=True, slots=True)
class TensorRule:
    """What one tensor has of its own; it wins over rules of layers.

    Attributes:
        tensor: Name of an activation or of a constant.
        change: Of its spec.
        range: Least and greatest value, instead of what calibration or the constant say.
        scale: Instead of the one that a range gives; finite and > 0.
        zero_point: Goes with `scale`.
        axis: That of the channels of a weight with a scale for each, which other axes do not have; None leaves it open.
    """

    tensor: str
    change: Change
    range: tuple[float, float] | None = None
    scale: float | None = None
    zero_point: int = 0
    axis: int | None = None

    def to_plain(self) -> dict[str, Any]:
        """Returns plain data, for JSON, without what is not given."""
        plain = self.change.to_plain()
        if self.range is not None:
            plain["range"] = list(self.range)
        if self.scale is not None:
            plain |= {"scale_value": self.scale, "zero_point": self.zero_point}
        if self.axis is not None:
            plain["axis"] = self.axis
        return plain


def read_exclude(plain: Any) -> tuple[str | tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """Returns the names, patterns and pairs of ends of subgraphs that a list holds.

    Raises:
        ConfigError: If it is no such list.

    Example:
        >>> read_exclude(["head*", [["conv1"], ["relu3"]]])
        ('head*', (('conv1',), ('relu3',)))
    """
    if isinstance(plain, str) or not isinstance(plain, list | tuple):
        raise ConfigError(f"exclude: expected a list of strings and of pairs of lists, got {plain!r}")
    found: list[str | tuple[tuple[str, ...], tuple[str, ...]]] = []
    for item in plain:
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, list | tuple) and len(item) == 2:
            found.append((_names(item[0], "exclude: start"), _names(item[1], "exclude: end")))
        else:
            raise ConfigError(f"exclude: expected a string or a pair of lists of strings, got {item!r}")
    return tuple(found)


def read_layers(plain: Any, *, selective: bool = True) -> tuple[LayerRule, ...]:
    """Returns the rules that a list of mappings describes.

    Args:
        plain: The list.
        selective: Whether each rule must say for which layers it is.

    Raises:
        ConfigError: If it is no such list, or a key or value is unknown.

    Example:
        >>> read_layers([{"nodes": ["head*"], "activation": {"dtype": "int16"}}])[0].nodes
        ('head*',)
    """
    if not isinstance(plain, list | tuple):
        raise ConfigError(f"layers: expected a list of mappings, got {type(plain).__name__}")
    return tuple(each if isinstance(each, LayerRule) else _read_layer(each, selective) for each in plain)


def _read_layer(plain: Any, selective: bool) -> LayerRule:
    known = tuple(field.name for field in dataclasses.fields(LayerRule))
    given: dict[str, Any] = {}
    for key, value in _mapping(plain, "layers").items():
        if key not in known:
            raise ConfigError(f"layers: expected one of {', '.join(known)}, got {key!r}{did_you_mean(key, known)}")
        if key in ("nodes", "op_types"):
            given[key] = _names(value, f"layers: {key}")
        elif key == "bias":
            if value not in get_args(BiasKind):
                raise ConfigError(f"layers: bias: expected {' or '.join(get_args(BiasKind))}, got {value!r}")
            given[key] = value
        else:
            given[key] = _change(value, f"layers: {key}", ("tensor", "channel") if key == "weight" else ("tensor",))
    if selective and not given.get("nodes") and not given.get("op_types"):
        raise ConfigError("layers: expected nodes or op_types in each rule, got neither")
    return LayerRule(**given)


def read_tensors(plain: Any) -> tuple[TensorRule, ...]:
    """Returns the rules that a mapping from the names of tensors describes.

    Each value maps fields of a `TensorSpec`, and ``range`` (two numbers) or ``scale_value`` and ``zero_point``;
    ``axis`` may say which one the channels of a weight are along.

    Raises:
        ConfigError: If it is no such mapping, or a key or value is unknown.

    Example:
        >>> read_tensors({"x": {"dtype": "int16", "range": [-1, 1]}})[0].range
        (-1.0, 1.0)
    """
    if isinstance(plain, tuple) and all(isinstance(each, TensorRule) for each in plain):
        return plain
    return tuple(_read_tensor(name, value) for name, value in _mapping(plain, "tensors").items())


def _read_tensor(name: str, plain: Any) -> TensorRule:
    where = f"tensors: {name}"
    given = dict(_mapping(plain, where))
    limits, scale, axis = given.pop("range", None), given.pop("scale_value", None), given.pop("axis", None)
    if limits is not None:
        numbers = isinstance(limits, list | tuple) and len(limits) == 2 and all(map(_is_number, limits))
        if not numbers or not limits[0] <= limits[1]:
            raise ConfigError(f"{where}: range: expected two numbers, the least first, got {limits!r}")
        limits = (float(limits[0]), float(limits[1]))
    if scale is not None and not (_is_number(scale) and 0 < scale < float("inf")):
        raise ConfigError(f"{where}: scale_value: expected a finite number above 0, got {scale!r}")
    if "zero_point" in given and scale is None:
        raise ConfigError(f"{where}: expected scale_value beside zero_point, got none")
    zero_point = given.pop("zero_point", 0)
    for key, value in (("zero_point", zero_point), ("axis", axis)):
        if value is not None and not _is_whole(value):
            raise ConfigError(f"{where}: {key}: expected a whole number, got {value!r}")
    if axis is not None and given.get("granularity") != "channel":
        raise ConfigError(
            f"{where}: expected granularity 'channel' beside axis, got {given.get('granularity', 'none')}"
        )
    return TensorRule(name, _change(given, where, ("tensor", "channel")), limits, scale, int(zero_point), axis)


def _change(plain: Any, where: str, granularities: tuple[str, ...]) -> Change:
    """Returns a change; groups are for weights that are stored alone, where the preset has them."""
    change = Change.of(plain, where)
    found = dict(change.values).get("granularity", "tensor")
    if found not in granularities:
        raise ConfigError(f"{where}: granularity: expected {' or '.join(granularities)}, got {found}")
    return change


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return _is_number(value) and value == int(value)


def _mapping(plain: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(plain, Mapping):
        raise ConfigError(f"{where}: expected a mapping, got {type(plain).__name__}")
    return plain


def _names(plain: Any, where: str) -> tuple[str, ...]:
    if isinstance(plain, str) or not isinstance(plain, Iterable):
        raise ConfigError(f"{where}: expected a list of strings, got {plain!r}")
    names = tuple(plain)
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{where}: expected a list of strings, got {list(names)!r}")
    return names
