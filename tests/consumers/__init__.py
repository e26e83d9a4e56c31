"""What runtimes make of quantized checkpoints: `nox -s checkpoints` and `nox -s checkpoints_vllm`."""
