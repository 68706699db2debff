"""Profiles of what compiles for the numbers of a call, and not for numbers that vary."""

import pytest

# Over torch's own step and schedule torch fails where a learning rate varies from the first trace on.
STEP = """
import json, sys
import torch, warmgraph
torch._inductor.config.fallback_by_default = True
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8, bias=False), torch.nn.GELU(), torch.nn.Linear(8, 4, bias=False))
groups = [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters(), "lr": float(sys.argv[2])}]
optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda number: 0.5**number)
def step():
    optimizer.step()
    schedule.step()
step = torch.compile(step, backend=sys.argv[1])
for _ in range(3):
    model(torch.ones(2, 4)).pow(2).mean().backward()
    step()
    optimizer.zero_grad()
print(json.dumps([weight.sum().item() for weight in model.parameters()]))
"""


@pytest.mark.parametrize("frames", ["1", "0"])
def test_a_frame_that_fails_over_a_profile_is_traced_without(frames, run_python):
    found = [run_python(STEP, "warmgraph", rate, WARMGRAPH_FRAMES=frames) for rate in (0.1, 0.1, 0.4, 0.4)]
    wanted = [run_python(STEP, "inductor", rate) for rate in (0.1, 0.4)]
    assert found == [wanted[0], wanted[0], wanted[1], wanted[1]]
