"""A training loop in one process. Run it twice: the second run compiles nothing.

python examples/train.py
"""

import time

import torch
from torch import nn

import warmgraph  # only to count


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def main() -> None:
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = torch.compile(model, backend="warmgraph")  # the one line that changes

    begin = time.perf_counter()
    for number in range(20):
        loss = compiled(torch.randn(16, 32)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number == 0:
            print(f"first step: {time.perf_counter() - begin:.2f} s")

    counts = warmgraph.stats()
    print(f"loss {loss.item():.4f};", ", ".join(f"{counts[name]} {name}" for name in ("hits", "misses", "bypasses")))


if __name__ == "__main__":
    main()
