"""Frames in a job of ranks: a restart restores what each rank traced, and what says another job is never restored."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from warmgraph.backend.torch_api import versions

PROGRAM = """
import functools, json, os, sys, torch, torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import warmgraph
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from warmgraph.cache import journal_dir, read, settings

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))

def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(Block(), Block(), Block())

def plain(wrap):
    return wrap(model())

def of_rank(wrap):  # numbers of this rank, which Dynamo folds in
    return wrap(lambda x: x * dist.get_rank() + dist.get_world_size(HELD.get("group")))

def group_in_a_table(wrap):
    def f(x):
        y = x + 1
        dist.all_reduce(y, group=HELD["group"])
        return y * HELD["group"].size(), funcol.all_reduce(x, "sum", dist.group.WORLD)
    return wrap(f)

def group_of_a_class(wrap):  # reached through a metaclass
    class Holder(type):
        group = HELD["group"]
    class Held(metaclass=Holder):
        pass
    return wrap(lambda x: x * Held.group.rank() + Held.group.size())

def group_by_its_tag(wrap):  # found by torch in tables of its own
    return wrap(lambda x: funcol.all_reduce(x, "sum", list(range(world)), "tag") * 2)

def mesh_of_a_global(wrap):
    return wrap(lambda x: x * MESH.size() + MESH.get_local_rank())

def around(wrap):
    return DistributedDataParallel(wrap(model()))

def within(wrap):
    return wrap(DistributedDataParallel(model()))

def buckets(wrap):  # several graphs to a frame
    return DistributedDataParallel(wrap(model()), bucket_cap_mb=float(given.get("bucket", 0.002)))

def sharded(wrap):
    blocks = model()
    for block in blocks:
        if wrap is not eager:
            block.compile(backend="warmgraph")
        fully_shard(block)
    return fully_shard(blocks)

def recomputed(wrap):  # as torchtitan trains: the wrapper answers for any name, and FSDP's on it hold a random number
    blocks = model()
    for number, block in enumerate(blocks):
        blocks[number] = checkpoint_wrapper(block, preserve_rng_state=False)
        if wrap is not eager:
            blocks[number].compile(backend="warmgraph")
        fully_shard(blocks[number])
    return fully_shard(blocks)

@functools.cache  # of two that are alike torch mixes one into the code of the other, and cannot keep that
def line():
    return init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))

def parallel(wrap):  # by hooks, which hold the mesh and how tensors are spread over it
    blocks, mesh = model(), line()
    before, after = ({"input_layouts": Shard(0)}, {"output_layouts": Shard(0)}) if given.get("rows") else ({}, {})
    for block in blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(**before), "down": RowwiseParallel(**after)})
    return wrap(blocks)

class Spread(torch.nn.Module):  # parameters and inputs are tensors of the mesh, and code asks how they lie
    def __init__(self, mesh):
        super().__init__()
        torch.manual_seed(0)
        weight = torch.rand(32, 16).T if given.get("strides") else torch.rand(16, 32)
        if given.get("strides"):
            weight = DTensor.from_local(weight.chunk(world, 1)[rank], mesh, [Shard(1)])
        else:
            weight = distribute_tensor(weight, mesh, [Shard(given.get("dim", 1))])
        self.weight = torch.nn.Parameter(weight, requires_grad=not given.get("frozen"))
        self.mesh = mesh

    def forward(self, x):
        x = DTensor.from_local(x, self.mesh, [Replicate()])
        y = x @ self.weight * (2 if self.weight.placements[0].is_shard(1) else 3)
        return y.full_tensor(), y.redistribute(placements=[Shard(0)]).to_local()

def spread(wrap):
    return wrap(Spread(line()))

def stepped(wrap):  # an optimizer over FSDP2's DTensors, of sizes that vary once there are moments
    blocks = fully_shard(model())
    optimizer = torch.optim.AdamW(blocks.parameters(), lr=0.01, foreach=True)
    step = wrap(optimizer.step)
    @torch.enable_grad()
    def train(x):
        for _ in range(3):
            blocks(x).square().mean().backward()
            step()
            optimizer.zero_grad()
        return tuple(one.full_tensor().detach() for one in blocks.parameters())
    return train

def both(wrap):  # FSDP2 along one axis of a mesh, tensor parallelism along the other
    mesh = init_device_mesh("cpu", (1, world), mesh_dim_names=("dp", "tp"))
    along, across = mesh["dp"], mesh["tp"]
    blocks = model()
    for block in blocks:
        parallelize_module(block, across, {"up": ColwiseParallel(), "down": RowwiseParallel()})
        if wrap is not eager:
            block.compile(backend="warmgraph")
        fully_shard(block, mesh=along)
    return fully_shard(blocks, mesh=along)

CASES = [
    parallel, spread, plain, of_rank, group_in_a_table, group_of_a_class, group_by_its_tag, mesh_of_a_global, around,
    within, buckets, sharded, recomputed, stepped, both,
]

def eager(function):
    return function

def compiled(function):
    return torch.compile(function, backend="warmgraph")

def run(case, wrap):
    function = case(wrap)
    x = torch.arange(64.0).reshape(4, 16) / 64 + rank
    with torch.set_grad_enabled(isinstance(function, torch.nn.Module)):
        out = function(x)
    out = out if isinstance(out, tuple) else (out,)
    found = [one.detach() for one in out]
    if out[0].requires_grad:
        out[0].square().sum().backward()
        gradients = [one.grad for one in function.parameters()]
        found += [one.full_tensor() if hasattr(one, "full_tensor") else one for one in gradients]
    return found

def outcomes():
    events = [e for e in read(journal_dir(settings())) if e["pid"] == os.getpid()]
    known = ("traced", "restored", "verified")
    return [[e["outcome"], e["function"], e["detail"]] for e in events if e["outcome"] in known]

given = json.loads(sys.argv[2])
torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 1024
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
both = dist.new_group(list(range(world)))
as_given = {"sort_ranks": False} if torch.__version__ >= "2.12" else {}
again = dist.new_group(list(range(world - 1, -1, -1)), **as_given)
for tag in ("tag", "other") if given.get("swapped") else ("other", "tag"):
    dist.distributed_c10d._new_group_with_tag(list(range(world)), pg_tag=tag)
HELD = {"group": {"both": both, "world": dist.group.WORLD, "again": again}[given.get("group", "both")]}
shape = (1, world) if given.get("rows") else (world, 1)
MESH = init_device_mesh("cpu", shape, mesh_dim_names=("a", "b"))["a"]
answer = {}
for case in CASES:
    if sys.argv[3:] and case.__name__ not in sys.argv[3:]:
        continue
    torch._dynamo.reset()
    right, before = run(case, eager), len(outcomes())
    found = run(case, compiled)
    for ours, theirs in zip(found, right, strict=True):
        torch.testing.assert_close(ours, theirs)
    answer[case.__name__] = outcomes()[before:]
    dist.barrier()
with open(f"{sys.argv[1]}.{rank}.json", "w") as file:
    json.dump(answer, file)
warmgraph.flush()
dist.barrier()
sys.stdout.flush()
os._exit(0)  # torch's own threads abort a process now and then while it ends
"""
OLD = versions.at_hand() < (2, 12)  # graphs of DTensors are bypasses there, and `new_group` puts ranks in order
CASES = """
    parallel spread plain of_rank group_in_a_table group_of_a_class group_by_its_tag mesh_of_a_global around within
    buckets sharded recomputed stepped both
""".split()
CASES = [case for case in CASES if not (OLD and case in ("parallel", "spread", "stepped", "both"))]
EVERYONES = "plain around within buckets sharded".split()  # no rank is asked for: they serve jobs of any size
CHANGES = [
    ({"group": "world"}, ["group_in_a_table", "group_of_a_class"]),
    *([] if OLD else [({"group": "again"}, ["group_in_a_table", "group_of_a_class"])]),
    ({"swapped": True}, ["group_by_its_tag"]),
    ({"rows": True}, ["mesh_of_a_global", "parallel"]),
    ({"dim": 0}, ["spread"]),
    ({"strides": True}, ["spread"]),
    ({"frozen": True}, ["spread"]),
    ({"bucket": 0.004}, ["buckets"]),
    # A part of `stepped` asks no rank either.
    ({"world": 1}, [case for case in CASES if case not in (*EVERYONES, "stepped")]),
]
CHANGES = [(change, here) for change, cases in CHANGES if (here := [case for case in cases if case in CASES])]


@pytest.fixture
def job(environment, tmp_path):
    """`job(*cases, world=2, **given)`: for each rank and case the outcomes of its frames; results are eager's."""
    (tmp_path / "program.py").write_text(PROGRAM)
    held, number = environment(), 0

    def job(*cases, world=2, verify="0", **given):
        nonlocal number
        number += 1
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
        command = [*torchrun, "program.py", str(number), json.dumps(given), *cases]
        done = subprocess.run(
            command, env=held | {"WARMGRAPH_VERIFY": verify}, cwd=tmp_path, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == 0, done.stderr[-6000:]
        return [json.loads((tmp_path / f"{number}.{rank}.json").read_text()) for rank in range(world)]

    return job


def told(ranks, case):
    return [{outcome for outcome, _, _ in rank[case]} for rank in ranks]


def assert_traced(ranks, case):
    """By each rank; of what serves every rank one may restore what another has just recorded."""
    found = told(ranks, case)
    if case in EVERYONES:
        assert "traced" in set().union(*found), (case, ranks)
    else:
        assert found == [{"traced"}] * len(ranks), (case, ranks)


# Hooks have numbers, and a trace makes some: what registers its own after another was traced is in a job of its own.
@pytest.mark.parametrize("cases", [[case for case in CASES if case != "both"], *([] if OLD else [["both"]])], ids=str)
def test_a_restart_traces_nothing(job, cases):
    cold, warm = job(*cases), job(*cases)
    for case in cases:
        assert_traced(cold, case)
        assert told(warm, case) == [{"restored"}] * 2, (case, warm)


@pytest.mark.parametrize(("change", "cases"), CHANGES, ids=str)
def test_another_job_traces(job, change, cases):
    job(*cases)
    other = job(*cases, **change)
    for case in cases:
        assert_traced(other, case)


def test_what_asks_for_no_rank_serves_another_job(job):
    """Of DDP around a compiled module and of FSDP2's blocks, with `forward` alone in the frame."""
    job(*EVERYONES)
    other = job(*EVERYONES, world=1)
    for case in EVERYONES:
        assert "restored" in told(other, case)[0], (case, other)


def test_a_record_of_every_rank_is_what_a_trace_gives(job):
    job("plain", world=1)
    for rank in job("plain", verify="1"):
        assert [[outcome, detail] for outcome, _, detail in rank["plain"]] == [["verified", None]], rank
