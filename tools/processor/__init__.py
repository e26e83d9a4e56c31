"""Runs a command as on another x86-64 processor: ``python -m tools.processor avx2 pytest``."""
