"""Parts of outputs that are scored by themselves: those that were asked for, or scores apart from boxes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from numpy.typing import NDArray

from quarkfast.calibration.data import Feed
from quarkfast.deferred import ir
from quarkfast.errors import ConfigError, ModelError, UnsupportedError
from quarkfast.evaluate.output_parts import OutputParts
from quarkfast.graph.external_constants import proto_and_folder

__all__ = ["OutputCutter", "Part", "read_part"]

Cut = Callable[[NDArray[Any]], NDArray[Any]]


class Part(NamedTuple):
    """A part of an output: its name, the output, and an index behind the samples."""

    name: str
    output: str
    place: tuple[Any, ...]


def read_part(text: str) -> Part:
    """Returns what ``name=output[index]`` asks for.

    Raises:
        ConfigError: If it has another form.

    Example:
        >>> read_part("boxes=output[:, :4]").place
        (slice(None, None, None), slice(None, 4, None))
    """
    found = re.fullmatch(r"([^=]+)=(.+)\[([-\d:,. ]+)\]", text)
    try:
        if found is None:
            raise ValueError("no brackets")
        return Part(found[1], found[2], tuple(map(_index, found[3].split(","))))
    except ValueError as error:
        raise ConfigError(f"part: expected NAME=OUTPUT[INDEX] such as boxes=output[:, :4], got {text!r}") from error


def _index(text: str) -> Any:
    text = text.strip()
    if text == "...":
        return Ellipsis
    if ":" in text:
        return slice(*(int(each) if each.strip() else None for each in text.split(":")))
    return slice(int(text), int(text) + 1 or None)


class OutputCutter:
    """Cuts outputs into parts."""

    def __init__(self, model: ir.Model, asked: Sequence[Part]) -> None:
        """Takes the float model, whose graph says what an output joins.

        Raises:
            ConfigError: If an output is asked for that there is not.
        """
        names = [value.name for value in model.graph.outputs]
        for part in asked:
            if part.output not in names:
                raise ConfigError(f"part: expected an output of {', '.join(map(repr, names))}, got {part.output!r}")
        self._asked = asked
        self._known: dict[Any, OutputParts] = {}
        self._model: onnx.ModelProto | None = None
        self._folder: Path | None = None
        with suppress(UnsupportedError):  # of a model that is too large to be cut
            self._model, self._folder = proto_and_folder(model)

    def parts(self, name: str, feed: Feed, outputs: Mapping[str, Any]) -> Iterator[tuple[str, Cut]]:
        """Yields names of parts of an output, and what cuts each out of it, samples first."""
        asked = [part for part in self._asked if part.output == name]
        for part in asked:
            yield part.name, lambda array, part=part: _indexed(array, part)  # type: ignore[misc]
        if not asked and self._model is not None:
            known = self._parts_of(feed, outputs)
            if len(known.split(0, name, outputs[name])) == 2:
                for index, label in ((1, "scores"), (0, "the rest")):

                    def cut(array: NDArray[Any], index: int = index) -> NDArray[Any]:
                        return known.split(0, name, array)[index].reshape(len(array), -1)[:, None]

                    yield f"{name}: {label}", cut

    def _parts_of(self, feed: Feed, outputs: Mapping[str, Any]) -> OutputParts:
        assert self._model is not None
        shapes = tuple(array.shape for array in feed.values())
        if shapes not in self._known:
            self._known[shapes] = OutputParts(self._model, [feed], list(outputs), self._folder)
        return self._known[shapes]


def _indexed(array: NDArray[Any], part: Part) -> NDArray[Any]:
    try:
        return array[(slice(None), *part.place)]
    except IndexError as error:
        shape = list(array.shape[1:])
        raise ModelError(
            f"part: expected an index into {shape} behind the samples for {part.name!r}, got another"
        ) from error
