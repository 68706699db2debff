"""What a program sees of a compile beside its results: with warmgraph, cold and warm, as with Inductor."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, sys, torch
from torch._inductor.utils import run_and_get_code
from warmgraph.cache import journal_dir, read, settings

def code_of(backend):
    return run_and_get_code(torch.compile(lambda x: x.sin() + x.cos(), backend=backend), torch.arange(4.0))[1]

def gathers(x, places):  # Inductor cannot compile its backward, which nobody runs here
    return torch.gather(x, 1, places, sparse_grad=True) * 2

def gathered(backend, function=gathers):
    given = torch.arange(6.0).reshape(2, 3).requires_grad_(), torch.zeros(2, 1, dtype=torch.int64)
    return torch.compile(function, backend=backend)(*given).tolist()

def gathers_within(x, places):
    with torch.enable_grad(): return gathers(x, places)

def gathered_without(backend):
    with torch.no_grad(): return gathered(backend, gathers_within)

def does_not_compile(backend):
    compiled = torch.compile(lambda x: torch.ops.aten.mm(x, x), backend=backend)
    try:
        return compiled(torch.ones(2, 3, requires_grad=True)).tolist()
    except Exception as error:
        return type(error).__name__

def all_of(backend):
    torch._dynamo.reset()
    return [len(code_of(backend)), gathered(backend), gathered_without(backend), does_not_compile(backend)]

found = all_of("warmgraph")
events = [event for event in read(journal_dir(settings())) if event["pid"] == os.getpid()]
kinds = ("hit", "miss", "bypass", "failed")
told = [[event["outcome"], event["detail"]] for event in events if event["outcome"] in kinds]
print(json.dumps({"found": found, "right": all_of("inductor"), "told": told}))
"""


@pytest.fixture
def run(environment, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    held = environment() | {"WARMGRAPH_STRICT": "0", "TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}

    def once():
        command = [sys.executable, "program.py"]
        done = subprocess.run(command, env=held, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return once


def test_code_of_hits_and_backwards_that_nobody_runs(run):
    cold, warm = run(), run()
    assert cold["found"] == cold["right"] == warm["found"] == warm["right"]
    assert cold["found"][0] == 1
    assert [one for one, _ in cold["told"]] == ["miss", "bypass", "bypass"]
    assert [one for one, _ in warm["told"]] == ["hit", "bypass", "bypass"]
    assert "its backward does not compile" in warm["told"][1][1]


COPIED = """
import copy, pickle, sys, torch
class Average(torch.nn.Module):
    def __init__(self, model): super().__init__(); self.model = copy.deepcopy(model)
    def forward(self, x): return self.model(x)
model = torch.compile(torch.nn.Linear(4, 2), backend=sys.argv[1])
x = torch.ones(3, 4)
before = copy.deepcopy(model)
right = model(x)
copies = [before, copy.deepcopy(model), Average(model), pickle.loads(pickle.dumps(model))]
assert all(torch.equal(one(x), right) for one in copies)
assert all(type(one) is type(model) for one in (before, copies[1], copies[3]))
torch.save([model, right], "model.pt")
"""
LOADED = """
import sys, torch
model, right = torch.load("model.pt", weights_only=False)
assert torch.equal(model(torch.ones(3, 4)), right) and "warmgraph" in sys.modules
"""


@pytest.mark.parametrize("name", ["warmgraph", "warmgraph_cudagraphs"])
def test_compiled_models_are_copied_and_saved(environment, tmp_path, name):
    """As with Inductor: for an average of weights, a target network, another process."""
    for program in (COPIED, LOADED):
        command = [sys.executable, "-c", program, name]
        done = subprocess.run(command, env=environment(), cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


OF_DATA = """
import json, sys, torch, torch.distributed as dist, warmgraph
from torch.distributed.tensor import DTensor, Replicate, init_device_mesh
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
def spread(x): return DTensor.from_local(x, mesh, [Replicate()], run_check=False)
def marked():
    made = spread(torch.ones(4, 3))
    torch._dynamo.decorators.mark_unbacked(made, 0)
    return made
def chosen(x, mask): return spread(x[mask]) * 2
def doubled(x): return x * 2 + 1
right = {}
for backend in ("warmgraph", "inductor"):
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        one = torch.compile(chosen, backend=backend)(torch.ones(4, 3), torch.arange(4) > 1)
        other = torch.compile(doubled, backend=backend)(marked())
    right[backend] = [one.shape, one.to_local().tolist(), other.to_local().tolist()]
assert right["warmgraph"] == right["inductor"], right
dist.destroy_process_group()
print(json.dumps(warmgraph.stats()))
"""


def test_dtensors_with_sizes_that_only_data_says(environment, tmp_path):
    """They are not kept, and nothing fails."""
    for number in range(2):
        command = [sys.executable, "-c", OF_DATA, str(tmp_path / f"met {number}")]
        done = subprocess.run(command, env=environment(), cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        counts = json.loads(done.stdout.splitlines()[-1])
        assert (counts["hits"], counts["misses"], counts["failures"]) == (0, 0, 0)
        assert counts["bypasses"] == 2
