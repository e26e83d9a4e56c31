"""Hypothesis draws the same examples on every run and every machine, and measures no time."""

from hypothesis import settings

settings.register_profile("quarkfast", derandomize=True, deadline=None, database=None)
settings.load_profile("quarkfast")
