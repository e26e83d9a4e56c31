"""Float-to-float rewrites of a model, one a file."""
