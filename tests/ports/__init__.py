"""Checks of the library on Windows and on arm64, from Linux on x86-64: `nox -s windows` and `nox -s arm64`."""
