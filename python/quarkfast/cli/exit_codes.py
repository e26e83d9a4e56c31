"""What the command's exit status means: part of the public interface, kept from release to release."""

import errno
from enum import IntEnum

from quarkfast.errors import CalibrationError, ConfigError, DependencyError, ModelError, OutputError, UnsupportedError


class ExitCode(IntEnum):
    """The exit statuses of `quarkfast`."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    MISSING_DEPENDENCY = 3
    MODEL = 4
    CALIBRATION = 5
    OUTPUT = 6
    BELOW = 7
    BROKEN_RULE = 8
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.FAILURE: "any other failure",
    ExitCode.USAGE: "wrong option, preset or configuration",
    ExitCode.MISSING_DEPENDENCY: "a package is missing or too old, or the native library does not load",
    ExitCode.MODEL: "the model cannot be read or is not supported",
    ExitCode.CALIBRATION: "the calibration data is missing or does not fit the model",
    ExitCode.OUTPUT: "the output cannot be written",
    ExitCode.BELOW: "a figure is below its limit",
    ExitCode.BROKEN_RULE: "a model breaks a rule of its device",
    ExitCode.INTERRUPTED: "interrupted from the keyboard",
    ExitCode.TERMINATED: "ended by a signal",
}


# The first row that fits decides: narrow classes before wide ones.
_CODES: list[tuple[type[BaseException], ExitCode]] = [
    (ImportError, ExitCode.MISSING_DEPENDENCY),
    (DependencyError, ExitCode.MISSING_DEPENDENCY),
    (OutputError, ExitCode.OUTPUT),
    (CalibrationError, ExitCode.CALIBRATION),
    (ModelError, ExitCode.MODEL),
    (UnsupportedError, ExitCode.MODEL),
    (ConfigError, ExitCode.USAGE),
]
_DISK_IS_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit status that belongs to an error.

    Example:
        >>> exit_code_of(ConfigError("preset: expected one of A8W8, got 'A9'"))
        <ExitCode.USAGE: 2>
    """
    if isinstance(error, OSError) and error.errno in _DISK_IS_FULL:
        return ExitCode.OUTPUT
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FAILURE)
