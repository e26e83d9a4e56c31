"""Runs a command as on Windows: ``python -m tools.as_windows python -m quarkfast demo``."""
