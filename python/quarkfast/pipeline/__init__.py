"""The pipeline: what quantize, calibrate and plan do, step by step."""
