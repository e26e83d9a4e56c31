"""Contestants: one file each, with a function for every task that it can do."""
