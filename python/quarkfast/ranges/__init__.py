"""Range estimation: the methods as rows of `quarkfast.ranges.registry`, a family a file, from statistics to a range."""
