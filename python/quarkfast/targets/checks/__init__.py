"""Checks: what keeps a device from running a model or a part of it, before anything is computed."""
