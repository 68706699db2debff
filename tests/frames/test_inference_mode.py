"""Calls under `torch.inference_mode()`: restored as other calls are, each mode by a record of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, sys, torch
from warmgraph.cache import journal_dir, read, settings

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.inner(x).relu()
        return y + (1 if torch.is_inference_mode_enabled() else 0) + (2 if torch.is_grad_enabled() else 0)

@torch.inference_mode()
def within(x):
    return x.cos()

def run(backend):
    torch._dynamo.reset()
    model = torch.compile(Model(), backend=backend)
    entering = torch.compile(lambda x: within(x) + 1, backend=backend)
    x = torch.arange(8.0).reshape(2, 4)
    with torch.inference_mode():
        made = x + 1
    modes = {"inference": torch.inference_mode, "no_grad": torch.no_grad, "grad": torch.enable_grad}
    found = []
    for mode in sys.argv[1].split(","):
        for function in (model, entering):
            for given in (x, made):
                try:
                    with modes[mode]():
                        out = function(given)
                        found.append([out.tolist(), out.is_inference(), out.requires_grad])
                except RuntimeError as error:  # autograd keeps no inference tensor for a backward
                    found.append(str(error)[:60])
    return found

right = run("inductor")
before = len(list(read(journal_dir(settings()))))
found = run("warmgraph")
outcomes = [event["outcome"] for event in list(read(journal_dir(settings())))[before:]]
print(json.dumps({"right": right == found, "found": [right, found], "outcomes": sorted(set(outcomes))}))
"""
OTHERS = ["grad,inference,no_grad", "no_grad,inference"]
ORDERS = ["inference,no_grad,grad", *(pytest.param(order, marks=pytest.mark.exhaustive) for order in OTHERS)]


@pytest.fixture
def run(environment, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    held = environment()

    def run(order):
        command = [sys.executable, "program.py", order]
        done = subprocess.run(command, env=held, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.mark.parametrize("order", ORDERS)
def test_a_warm_process_restores_every_mode(order, run):
    cold, warm = run(order), run(order)
    assert cold["right"], cold["found"]
    assert warm["right"], warm["found"]
    assert warm["outcomes"] == ["hit", "restored"]
