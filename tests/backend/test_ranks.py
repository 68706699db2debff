"""Ranks of one job: each gets what was compiled for it, in one run and the next, and all share what is the same."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from warmgraph.backend import frames_unsupported
from warmgraph.backend.torch_api.ranks.ddp import relaid_output

PROGRAM = """
import json, os, sys, torch, torch.distributed as dist
import torch.distributed.nn  # before there is a group, which it would keep, with threads that abort at exit
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
    found[name] = {"right": right, "outcomes": [one for one in events if one not in ("traced", "restored")]}
warmgraph.flush()
with open(f"{sys.argv[1]}.{dist.get_rank()}.json", "w") as file:
    json.dump(found, file)
dist.destroy_process_group()
"""


def run_ranks(environment, folder, name, program=PROGRAM, *rest):
    (folder / "program.py").write_text(program)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "program.py",
        name,
        *rest,
    ]
    process = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=400)
    assert process.returncode == 0, process.stderr[-4000:]
    return [json.loads((folder / f"{name}.{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.exhaustive
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


BUCKETS = """
import hashlib, json, os, sys, torch, torch.distributed as dist
import torch.distributed.nn
import warmgraph
from warmgraph.cache import journal_dir, read, settings

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(400, 400) for _ in range(6)])
        self.norm = torch.nn.BatchNorm1d(400)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=sys.argv[3] == "bf16"):
            for layer in self.layers:
                x = torch.nn.functional.gelu(layer(x))
            return self.norm(x.float().T.contiguous().T)

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(Model(), bucket_cap_mb=1)
compiled = torch.compile(model, backend=sys.argv[2])
for step in range(2):
    x = torch.randn(8, 400, generator=torch.Generator().manual_seed(step + 10 * dist.get_rank()))
    compiled(x).square().mean().backward()
seen = [*(p.grad for p in model.parameters()), *model.buffers()]
digest = hashlib.sha256(b"".join(t.detach().numpy().tobytes() for t in seen)).hexdigest()
warmgraph.flush()
events = [e["outcome"] for e in read(journal_dir(settings())) if e["pid"] == os.getpid()]
with open(f"{sys.argv[1]}.{dist.get_rank()}.json", "w") as file:
    of_frames = [one for one in events if one in ("traced", "restored")]
    outcomes = [one for one in events if one not in of_frames]
    json.dump({"digest": digest, "outcomes": outcomes, "frames": of_frames}, file)
del compiled, model
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_the_pieces_that_ddp_splits_a_graph_into_are_compiled_once_for_all_ranks(environment, tmp_path, precision):
    """With DDP as it is: several buckets, each a graph that is compiled on fake inputs. Bits are plain Inductor's.

    The second job has no compiler, and traces nothing.
    """
    plain = run_ranks(environment(), tmp_path, "plain", BUCKETS, "inductor", precision)
    cold = run_ranks(environment(), tmp_path, "cold", BUCKETS, "warmgraph", precision)
    (tmp_path / "bin").mkdir()
    hidden = environment(PATH=str(tmp_path / "bin"), TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"))
    warm = run_ranks(hidden, tmp_path, "warm", BUCKETS, "warmgraph", precision)
    for rank in (0, 1):
        assert plain[rank]["digest"] == cold[rank]["digest"] == warm[rank]["digest"]
    pieces = len(cold[0]["outcomes"])
    assert pieces > 2
    assert sorted(cold[0]["outcomes"] + cold[1]["outcomes"]) == ["hit"] * pieces + ["miss"] * pieces
    assert [one["outcomes"] for one in warm] == [["hit"] * pieces] * 2
    if frames_unsupported() is None:
        assert all("traced" in one["frames"] for one in cold)  # some of them a rank restores from the other
        assert [{*one["frames"]} for one in warm] == [{"restored"}] * 2


def test_a_piece_whose_result_does_not_say_how_its_outputs_lie_is_not_kept():
    """Of AOTAutograd's graphs without Inductor, say: the first output that is a tensor."""
    x = torch.ones(2, 3)
    graph = torch.fx.Graph()
    number, node = graph.placeholder("n"), graph.placeholder("x")
    number.meta["example_value"], node.meta["example_value"] = 3, x
    graph.output((number, node))
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    metadata = SimpleNamespace(num_mutated_inp_runtime_indices=0)

    def relaid(**told):
        holder = SimpleNamespace(result=SimpleNamespace(**told))
        return relaid_output(gm, SimpleNamespace(runtime_metadata=metadata, compiled_fw=holder))

    assert relaid() == relaid(output_strides=None) == relaid(output_strides=[None]) == 1
    assert relaid(output_strides=[None, ("3", "1")]) is None
    assert relaid(output_strides=[None, ("1", "2")]) == 1
