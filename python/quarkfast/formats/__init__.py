"""Number formats as data: `quarkfast.formats.scalar` and `quarkfast.formats.block`, one row each."""
