"""Benchmarks: quarkfast beside its rivals and a plain copy; docs/benchmarks.md says how to run them."""
