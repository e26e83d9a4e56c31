"""Trains the model that `quarkfast demo` quantizes: `python -m tools.demo_model` from the repository's root."""
