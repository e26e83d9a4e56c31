"""What the environment variables say, checked before any work."""

from quarkfast.errors import ConfigError


def check_environment() -> None:
    """Make sure that the environment names an instruction set and a thread count that exist.

    Raises:
        ConfigError: ``QUARKFAST_ISA`` or ``QUARKFAST_NUM_THREADS`` has a value that means nothing here.

    Example:
        >>> check_environment()
    """
    from quarkfast.kernels import isa

    for setting in (isa.active_isa, isa.num_threads):
        try:
            setting()
        except ValueError as error:
            raise ConfigError(str(error)) from error
