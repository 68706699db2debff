"""One process that calls one compiled function several times: sizes that vary, training, frames switched off."""

from __future__ import annotations

import warnings
from typing import Any

import steps
import torch

SOURCE = """
import torch
from torch import nn
def scale(x): return x * x.shape[0] + 1
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(4, 4); self.norm = nn.BatchNorm1d(4)
    def forward(self, x): return torch.tanh(self.norm(self.a(x)))
def net(): return Net()
"""


def sizes(module: Any, task: dict[str, Any]) -> Any:
    compiled = torch.compile(module.scale, backend=task["backend"])
    return [steps.plain(compiled(torch.arange(float(n)))) for n in task["sizes"]]


def limited(module: Any, task: dict[str, Any]) -> Any:
    """Raises where more than three graphs are compiled."""
    compiled = torch.compile(module.scale, backend=task["backend"], fullgraph=True)
    with torch._dynamo.config.patch(recompile_limit=3):
        return [steps.plain(compiled(torch.arange(float(n)))) for n in task["sizes"]]


def settled(module: Any, task: dict[str, Any]) -> Any:
    """Calls, and one of another size while nothing may be compiled: raises where no graph for all sizes is there."""
    if task["way"] == "dynamic_sources":
        torch.compiler.config.dynamic_sources = "L['x']"
    compiled = torch.compile(module.scale, backend=task["backend"])
    with torch.compiler.set_stance("eager_then_compile" if task["way"] == "eager_then_compile" else "default"):
        for n in task["sizes"]:
            x = torch.arange(float(n))
            if task["way"] == "propagated":  # as AOTAutograd marks what a graph with dynamic sizes returns
                x._dynamo_propagated_dynamic_indices = {0}
            compiled(x)
    with torch.compiler.set_stance("fail_on_recompile"):
        return steps.plain(compiled(torch.arange(9.0)))


def training(module: Any, task: dict[str, Any]) -> Any:
    model = module.net()
    compiled = torch.compile(model, backend="warmgraph")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for step in range(3):
        optimizer.zero_grad()
        torch.manual_seed(step)
        loss = compiled(torch.randn(6, 4)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(steps.plain([loss, *model.state_dict().values()]))
    return losses


def main(task: dict[str, Any]) -> dict[str, Any]:
    from warmgraph.backend.torch_api import patches

    torch.set_num_threads(1)
    torch._inductor.config.fallback_by_default = True
    torch.compiler.config.job_id = task["job"]
    warnings.simplefilter("ignore")
    patches.uninstall()  # the server's own first compile
    torch._dynamo.utils.counters.clear()
    steps_of = {"sizes": sizes, "training": training, "limited": limited, "settled": settled}
    import warmgraph.backend.backend as backend

    backend.warmgraph.prepare()
    result = steps_of[task["what"]](steps.load(task["home"], SOURCE, "called"), task)
    traced = torch._dynamo.utils.counters["stats"].get("calls_captured", 0)
    return {"result": result, "events": steps.events(), "traced": traced, "patches": patches.installed()}
