"""Code that asks for its rank while it is traced: each rank gets what was compiled for it, in one run and the next."""

import json
import subprocess
import sys

PROGRAM = """
import json, os, sys, torch, torch.distributed as dist
import warmgraph
from warmgraph.cache import journal_dir, read, settings

@torch.library.custom_op("wgranks::gather", mutates_args=())
def gather(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x] * dist.get_world_size())

@gather.register_fake
def _(x):
    return x.new_empty(x.shape[0] * dist.get_world_size(), *x.shape[1:])

def backward(ctx, g):  # sequence parallelism by hand: a rank keeps its own slice of the gradient
    return g.chunk(dist.get_world_size())[dist.get_rank()].clone()

gather.register_autograd(backward)

@torch.library.custom_op("wgranks::halve", mutates_args=())
def halve(x: torch.Tensor) -> torch.Tensor:
    return x / dist.get_world_size()

halve.register_fake(lambda x: torch.empty_like(x))
halve.register_autograd(lambda ctx, g: g / dist.get_world_size())

def gradient(function):
    x = torch.arange(6.0).reshape(3, 2).requires_grad_()
    out = function(x)
    (out * torch.arange(float(out.numel())).reshape(out.shape)).sum().backward()
    return x.grad

dist.init_process_group("gloo")
found = {}
for name, function in {"slices": lambda x: gather(x) * 2, "divides": lambda x: halve(x) * 2}.items():
    before = len(list(read(journal_dir(settings()))))
    right = torch.equal(gradient(torch.compile(function, backend="warmgraph")), gradient(function))
    events = [e["outcome"] for e in list(read(journal_dir(settings())))[before:] if e["pid"] == os.getpid()]
    found[name] = {"right": right, "outcomes": events}
warmgraph.flush()
with open(f"{sys.argv[1]}.{dist.get_rank()}.json", "w") as file:
    json.dump(found, file)
dist.destroy_process_group()
"""


def run_ranks(environment, folder, name):
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "program.py", name]
    process = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=400)
    assert process.returncode == 0, process.stderr[-4000:]
    return [json.loads((folder / f"{name}.{rank}.json").read_text()) for rank in (0, 1)]


def test_a_backward_that_slices_by_its_rank_is_compiled_for_each_rank(environment, tmp_path):
    """torchrun with two ranks on one store, cold and then warm: eager's gradients on both.

    What asks for the size of the world alone is shared by the ranks.
    """
    settings = environment(WARMGRAPH_PGO="0")
    cold = run_ranks(settings, tmp_path, "cold")
    warm = run_ranks(settings, tmp_path, "warm")
    assert all(one[name]["right"] for run in (cold, warm) for one in run for name in one)
    assert [one["slices"]["outcomes"] for one in cold] == [["miss"], ["miss"]]
    assert sorted(one["divides"]["outcomes"] for one in cold) == [["hit"], ["miss"]]
    assert [one[name]["outcomes"] for one in warm for name in one] == [["hit"]] * 4
