"""Other tools' import paths, so that a script changes its imports and nothing else."""
