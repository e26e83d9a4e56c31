"""``ModelQuantizer``: Quark's way to start a quantization."""

from __future__ import annotations

import copy
import os
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quarkfast.calibration.data import RandomDataReader
from quarkfast.config import Scheme, find_preset
from quarkfast.config.quark import Config, QConfig, QuantizationConfig, scheme_of, with_algorithms
from quarkfast.config.quark.notes import in_quarks_words, notes_of, notes_of_algorithms
from quarkfast.config.quark.plain import DataSource, data_source_of, plain_config
from quarkfast.errors import QuarkfastError
from quarkfast.pipeline.calibrate import calibrate
from quarkfast.pipeline.resolve import resolve
from quarkfast.search.quantize import quantize
from quarkfast.tools import to_channels_last
from quarkfast.tools.in_memory import as_float32, with_channels_last

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx

    from quarkfast.config.quark.algorithm import AlgoConfig

__all__ = ["ModelQuantizer"]


class ModelQuantizer:
    """Quantizes models by one configuration.

    A setting of Quark's that is accepted without effect, such as a GPU to round weights on, is a ``UserWarning``.

    Args:
        config: Quark's ``Config`` or ``QConfig``, whose weights have no other type and no other scales than it says
            (``strict``), a :class:`quarkfast.Scheme`, or the name of a preset. It is read here, once; changing it
            later changes nothing.

    Raises:
        ConfigError: The configuration is of another kind, or one of its options is unknown or does not fit.
        UnsupportedError: It asks for an algorithm, type or option that does not exist here yet.

    Example:
        >>> import numpy as np, onnx, quarkfast
        >>> graph = onnx.parser.parse_graph("g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }")
        >>> proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
        >>> quantizer = ModelQuantizer(quarkfast.QConfig.get_default_config("BF16"))
        >>> [node.op_type for node in quantizer.quantize_model(proto).graph.node][:2]
        ['ExtendedQuantizeLinear', 'ExtendedDequantizeLinear']
    """

    def __init__(self, config: Config | QConfig | Scheme | str) -> None:
        if isinstance(config, str):
            self.scheme = find_preset(config)
        elif isinstance(config, Scheme):
            self.scheme = config
        else:
            self.scheme = _scheme_of_quark(config)
            _warn(notes_of(config, self.scheme))
        self._source = DataSource() if isinstance(config, str | Scheme) else data_source_of(config)

    def quantize_model(
        self,
        model_input: Any,
        model_output: str | os.PathLike[str] | None = None,
        calibration_data_reader: Any = None,
        calibration_data_path: str | os.PathLike[str] | None = None,
        algorithms: list[AlgoConfig] | None = None,
    ) -> onnx.ModelProto | None:
        """Quantize a model.

        Args:
            model_input: Path of an ONNX file or an ``onnx.ModelProto``; it is not changed.
            model_output: Where to write the result; None returns it instead.
            calibration_data_reader: Anything that :func:`quarkfast.quantize` takes as calibration data. Where the
                configuration names a file (``SaveAndRestore``), it is read in place of samples, or written.
            calibration_data_path: A file or folder of calibration data, read when there is no reader.
            algorithms: Algorithms to run besides those of the configuration: CLEConfig, BiasCorrectionConfig,
                AdaRoundConfig, AdaQuantConfig, AutoMixprecisionConfig.

        Returns:
            The quantized model when `model_output` is None.

        Raises:
            QuarkfastError: As :func:`quarkfast.quantize`.
            UnsupportedError: An algorithm does not exist here yet, or does not go with the configuration.
        """
        scheme = with_algorithms(self.scheme, algorithms)
        _warn(notes_of_algorithms(algorithms))
        if self._source.float32:
            model_input = as_float32(model_input)
        data = calibration_data_path if calibration_data_reader is None else calibration_data_reader
        if data is None and self._source.random:
            data = RandomDataReader(1, shapes=self._source.shapes or {}, ranges=self._source.ranges or {})
        saved = self._source.saved if scheme.activation.needs_range or scheme.smoothed else None
        if saved is not None and data is not None and not Path(saved).exists():
            calibrate(model_input, data, saved, preset=scheme)
        if saved is not None and Path(saved).exists():
            result = quantize(model_input, model_output, scheme, calibration=saved)
        else:
            result = quantize(model_input, model_output, scheme, data)
        if model_output is not None:
            if self._source.channels_last:
                to_channels_last(model_output, model_output)
            return None
        return with_channels_last(result.proto) if self._source.channels_last else result.proto


def _scheme_of_quark(config: Config | QConfig) -> Scheme:
    """Returns the scheme of a configuration of Quark's, which its target has seen.

    Raises:
        QuarkfastError: It does not fit; the message has Quark's names.
    """
    plain = plain_config(config)
    try:
        return _checked(plain)
    except QuarkfastError as error:
        keys = list(plain.extra_options)
        words = in_quarks_words(str(error), keys)
        if not any(key in words for key in keys):
            words = ": ".join([*_guilty(plain, keys)[:1], words])
        raise type(error)(words) from error


def _checked(config: QConfig | QuantizationConfig) -> Scheme:
    scheme = replace(scheme_of(config), strict=True)
    resolve(scheme, {})
    return scheme


def _guilty(config: QConfig | QuantizationConfig, keys: Sequence[str]) -> list[str]:
    """Returns the keys without any one of which a configuration fits."""
    found = []
    for key in keys:
        less = copy.copy(config)
        less.extra_options = {each: value for each, value in config.extra_options.items() if each != key}
        with suppress(QuarkfastError):
            _checked(less)
            found.append(key)
    return found


def _warn(notes: Sequence[str]) -> None:
    for note in notes:
        warnings.warn(note, stacklevel=3)
