"""What benchmarks run on: models with their samples and judges."""
