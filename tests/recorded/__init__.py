"""Recorded hashes of quantized models: ``python -m tests.recorded`` records them anew."""
