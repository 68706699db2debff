"""The CUDA-graph runtime: what it records, why it was skipped, what is recorded ahead."""
