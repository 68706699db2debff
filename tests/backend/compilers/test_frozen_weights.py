"""Inductor's freezing: code that is made for what its weights hold. Each process compiles or loads for itself."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from warmgraph.backend.compilers.frozen_weights import constants_of
from warmgraph.backend.compilers.graph_codec import BadGraph, dump_graph
from warmgraph.backend.torch_api.generated_code.frozen import kind_of

PROGRAM = """
import json, sys, torch, warmgraph
torch.manual_seed(int(sys.argv[1]))
torch._inductor.config.freezing = True

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)
        self.wide, self.last = torch.nn.Linear(8, 1 << 15), torch.nn.Linear(1 << 15, 4)
        self.scale = torch.nn.Parameter(torch.randn(4))
    def forward(self, x):
        y = self.norm(self.conv(x)).relu().mean((2, 3))
        return self.last(self.wide(y)) * self.scale.exp() + self.scale.sum()

net = Net().eval()
net.norm.running_mean.normal_()
x = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
with torch.no_grad():
    plain = net(x)
    run = torch.compile(net, backend="warmgraph")
    found = run(x)
    torch.testing.assert_close(found, plain, rtol=1e-3, atol=1e-3)
    net.scale.add_(1)  # frozen is frozen
    assert torch.equal(run(x), found)
warmgraph.flush()
counts = {name: warmgraph.stats()[name] for name in ("hits", "misses", "bypasses", "failures")}
print(json.dumps([counts, [value.hex() for value in found.flatten().tolist()]]))
"""
HIT, MISS = ({"hits": 0, "misses": 0, "bypasses": 0, "failures": 0} | {name: 1} for name in ("hits", "misses"))


@pytest.mark.timeout(600)
def test_frozen_code_is_kept_without_its_weights(run_python, tmp_path):
    """And made anew of the weights that the process has, which are the same: to the bit. Other weights, other code."""
    (cold, result), (warm, again), (others, different) = (run_python(PROGRAM, seed) for seed in (0, 0, 1))
    assert (cold, warm, others) == (MISS, HIT, MISS)
    assert again == result != different
    kept = sum(file.stat().st_size for file in (tmp_path / "store").rglob("*") if file.is_file())
    assert kept < 1 << 20  # each network has 1.7 MB of weights


def test_what_weights_hold_is_told(run_python, environment, tmp_path):
    for seed in (0, 1):
        run_python(PROGRAM, seed)
    command = [sys.executable, "-m", "warmgraph", "explain", "--json"]
    told = subprocess.run(command, env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert "frozen weights" in told.stdout and "holds" in json.dumps(json.loads(told.stdout)), told.stdout + told.stderr


LAYER = """
import json, sys, torch, warmgraph
torch.manual_seed(0)
torch._inductor.config.freezing = True
with torch.no_grad():
    torch.compile(torch.nn.Linear(8, 8), backend="warmgraph")(torch.ones(2, 8))
warmgraph.flush()
print(json.dumps([warmgraph.stats()["hits"], "torch._inductor.freezing" in sys.modules]))
"""


def test_a_hit_freezes_nothing(run_python):
    assert [run_python(LAYER) for _ in range(2)] == [[0, True], [1, False]]


def test_constants_of_another_kind_are_refused():
    """Code reads as much memory as it was made for."""
    layer = torch.nn.Linear(4, 4, bias=False)
    graph = torch.fx.Graph()
    graph.output((graph.call_function(torch.ops.aten.t.default, (graph.placeholder("input_0"),)),))
    made = torch.fx.GraphModule(layer, graph)
    kind = kind_of(layer.weight.t())
    for dtype, fits in (("torch.float32", True), ("torch.bfloat16", False)):
        facts = {"names": ["a"], "kinds": [[dtype, *kind[1:]]], "read": [0], "kept": []}
        data = dump_graph(made, facts, {})
        if fits:
            assert constants_of(data, layer).constants._made["a"].data_ptr() == layer.weight.data_ptr()
        else:
            with pytest.raises(BadGraph, match="bfloat16"):
                constants_of(data, layer)
