"""Random calls of every kernel, right and wrong: ``python -m tests.fuzz --seconds 600``."""
