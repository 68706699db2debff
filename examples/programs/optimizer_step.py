"""A compiled optimizer step: Adam with a learning rate in a tensor and clipped gradients, twelve parameters.

warmgraph run examples/programs/optimizer_step.py
"""

import first_call
import torch
from torch import nn


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(6)])
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01))
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=5)

    @torch.compile(fullgraph=False)
    def step() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    x = torch.randn(8, 32)
    first_call.begin()
    for _ in range(4):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        step()
        first_call.done()
    first_call.report(model.parameters())


if __name__ == "__main__":
    main()
