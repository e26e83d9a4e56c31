"""Benchmarks: quarkfast beside its rivals and a plain copy; docs/results has what they found, and the commands."""
