"""Quark's import paths: replace ``quark.`` by ``quarkfast.compat.quark.``."""
