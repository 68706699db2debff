"""A training loop with warmgraph: run it twice, and the second run compiles nothing.

python examples/train.py
torchrun --nproc-per-node=2 examples/train.py      # DDP on gloo, one store for both ranks
"""

import os
import time

import torch
from torch import nn

import warmgraph


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mix(self.norm(x))


def train(distributed: bool) -> None:
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(nn.Linear(32, 64), Block(64), Block(64), nn.Linear(64, 8))
    if distributed:
        # DDP's graph splitting hands the compiler no real inputs, so neither torch nor warmgraph can cache it.
        torch._dynamo.config.optimize_ddp = False
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = torch.compile(model, backend="warmgraph")  # the one line that changes

    begin = time.perf_counter()
    for number in range(20):
        loss = step(torch.randn(16, 32)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number == 0:
            first = time.perf_counter() - begin

    counts = warmgraph.stats()
    outcome = ", ".join(f"{counts[name]} {name}" for name in ("hits", "misses", "bypasses"))
    print(f"rank {os.environ.get('RANK', 0)}: first step {first:.2f} s, loss {loss.item():.4f}, {outcome}", flush=True)


def main() -> None:
    distributed = "RANK" in os.environ
    if distributed:
        torch.distributed.init_process_group("gloo")
    train(distributed)
    if distributed:
        # Together, and after the model is gone: gloo's threads abort a process that they outlive now and then.
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
