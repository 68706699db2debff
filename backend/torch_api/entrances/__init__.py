"""Where graphs come in that were meant for Inductor: `torch.compile` under `warmgraph run`, pieces made by vLLM."""
