"""Recorded answers of other implementations, as text, and their reader."""
