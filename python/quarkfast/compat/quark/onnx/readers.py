"""Quark's readers of calibration data, and ONNX Runtime's base class of readers."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from quarkfast.calibration.data import RandomDataReader as RandomSamples
from quarkfast.calibration.data import model_inputs, open_data
from quarkfast.config.options.kinds import COUNT
from quarkfast.errors import CalibrationError, ConfigError, UnsupportedError
from quarkfast.graph.load import ModelSource, load_model

__all__ = ["CachedDataReader", "CalibrationDataReader", "PathDataReader", "RandomDataReader"]

Feed = dict[str, Any]


class CalibrationDataReader(ABC):
    """A source of samples: ``get_next`` gives one after the other, as arrays by the names of inputs, and then None.

    ONNX Runtime's class of that name, without ONNX Runtime.

    Example:
        >>> class Two(CalibrationDataReader):
        ...     def __init__(self):
        ...         self._left = iter([{"x": 1}, {"x": 2}])
        ...     def get_next(self):
        ...         return next(self._left, None)
        >>> list(Two())
        [{'x': 1}, {'x': 2}]
    """

    @abstractmethod
    def get_next(self) -> Feed | None:
        """Returns the next sample, or None at the end."""

    def __iter__(self) -> Iterator[Feed]:
        """Goes through the samples that are left."""
        while (feed := self.get_next()) is not None:
            yield feed


class _Rereadable(CalibrationDataReader):
    """Samples that can be read again from the first."""

    def __init__(self) -> None:
        self._left = iter(self.feeds())

    def feeds(self) -> Iterator[Feed]:
        """Yields all samples."""
        raise NotImplementedError

    def get_next(self) -> Feed | None:
        """Returns the next sample, or None at the end."""
        return next(self._left, None)

    def reset_iter(self) -> None:
        """Begins again."""
        self._left = iter(self.feeds())


class CachedDataReader(_Rereadable):
    """The samples of another reader, kept in memory.

    Args:
        dr: A reader, or anything that gives samples one by one.
        data_size: How many to keep; all by default.
        convert_nchw_to_nhwc: Must be False: `quarkfast.tools.to_channels_last` turns the model, not the data.
        quantize_fp16: Whether float32 arrays become float16.

    Raises:
        CalibrationError: There is no sample.
        UnsupportedError: Layouts are to be changed.
        ConfigError: The number of samples is no count.

    Example:
        >>> import numpy as np
        >>> reader = CachedDataReader([{"x": np.ones(2, np.float32)}] * 3, data_size=2)
        >>> len(reader), len(list(reader)), reader.get_next()
        (2, 2, None)
    """

    def __init__(
        self, dr: Any, data_size: int | None = None, convert_nchw_to_nhwc: bool = False, quantize_fp16: bool = False
    ) -> None:
        if convert_nchw_to_nhwc:
            raise UnsupportedError(
                "CachedDataReader: convert_nchw_to_nhwc: expected False, got True; give samples as the model takes them"
            )
        if data_size is not None and not COUNT.accepts(data_size):
            raise ConfigError(f"CachedDataReader: data_size: expected {COUNT.expects} or None, got {data_size!r}")
        found = iter(dr) if hasattr(dr, "__iter__") else iter(dr.get_next, None)
        self._feeds = [_narrowed(feed) if quantize_fp16 else feed for feed in islice(found, data_size)]
        if not self._feeds:
            raise CalibrationError("CachedDataReader: expected a sample, got none")
        super().__init__()

    def feeds(self) -> Iterator[Feed]:
        """Yields all samples."""
        return iter(self._feeds)

    def __len__(self) -> int:
        """Returns how many there are."""
        return len(self._feeds)


def _narrowed(feed: Feed) -> Feed:
    return {name: each.astype(np.float16) if each.dtype == np.float32 else each for name, each in feed.items()}


class PathDataReader(_Rereadable):
    """Samples of a folder: ``.npy`` files, one folder for each input where there are several.

    Args:
        model_input: The model, which says what the arrays must look like.
        data_path: A folder or file, as :func:`quarkfast.quantize` takes it.
        input_shape: Must be empty: arrays have the shapes that the model takes, with or without a batch of one.

    Raises:
        CalibrationError: There is no such folder, or a file does not fit the model.
        UnsupportedError: A shape is given.
    """

    def __init__(
        self, model_input: ModelSource, data_path: str | os.PathLike[str], input_shape: Sequence[Any] = ()
    ) -> None:
        if input_shape:
            raise UnsupportedError(
                f"PathDataReader: input_shape: expected none, got {list(input_shape)!r}; leave it out"
            )
        self._samples = open_data(data_path, model_inputs(load_model(model_input)))
        super().__init__()

    def feeds(self) -> Iterator[Feed]:
        """Yields all samples."""
        return (dict(feed) for feed in self._samples)


class RandomDataReader(_Rereadable):
    """One random sample, the same every time.

    Args:
        model_input: The model, which says what the arrays must look like.
        input_shape: Sizes by input, where the model leaves them open.
        input_data_range: Least and largest number by input; 0 and 1 by default.
    """

    def __init__(
        self,
        model_input: ModelSource,
        input_shape: Mapping[str, Sequence[int]] | None = None,
        input_data_range: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        ranges = {name: (ends[0], ends[1]) for name, ends in (input_data_range or {}).items()}
        wanted = RandomSamples(1, shapes=dict(input_shape or {}), ranges=ranges)
        self._samples = open_data(wanted, model_inputs(load_model(model_input)))
        super().__init__()

    def feeds(self) -> Iterator[Feed]:
        """Yields all samples."""
        return (dict(feed) for feed in self._samples)
