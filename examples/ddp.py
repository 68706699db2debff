"""Data-parallel training, on two CPU processes. On a cold start one rank compiles while the other waits for its result.

torchrun --nproc-per-node=2 examples/ddp.py
"""

import gc

import torch
import torch.distributed as dist

# Before there is a group: its functions keep the group of that moment as their default argument, which would then
# outlive `destroy_process_group`, with threads of gloo that now and then abort the process at its exit.
import torch.distributed.nn
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import warmgraph  # only to count


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def train() -> None:
    torch.manual_seed(0)
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = torch.compile(model, backend="warmgraph")
    for _ in range(20):
        loss = compiled(torch.randn(16, 32)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    counts = warmgraph.stats()
    said = ", ".join(f"{counts[name]} {name}" for name in ("hits", "misses", "bypasses"))
    print(f"rank {dist.get_rank()}: loss {loss.item():.4f}; {said}", flush=True)


def main() -> None:
    dist.init_process_group("gloo")
    train()
    gc.collect()  # the model, which holds the group as well
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
