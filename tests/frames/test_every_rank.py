"""Frames that any rank may restore: a job of other ranks restores what asks for no rank, and is never given another's.

Each function below tells ranks apart in one way, or does not. Every rank compares with what it computes without a
compile.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import functools, json, os, sys, torch, torch.distributed as dist
import torch.utils._pytree as pytree
import warmgraph
from torch.distributed import get_rank as asked
from torch.distributed.device_mesh import init_device_mesh
from warmgraph.cache import journal_dir, read, settings

dist.init_process_group(os.environ["WG_BACKEND"])
RANK, WORLD = dist.get_rank(), dist.get_world_size()
GROUP = dist.group.WORLD
MESH = init_device_mesh("cpu", (WORLD,))
TABLE = {"rank": RANK}

@functools.lru_cache(None)
def known_before():
    return dist.get_rank()
known_before()

class Meta(type):
    def __eq__(cls, other):
        return dist.get_rank() == 0
    __hash__ = type.__hash__

class Rank(metaclass=Meta):
    pass

class Held:
    def __init__(self):
        self.group, self.number = GROUP, RANK
    @property
    def rank(self):
        return dist.get_rank()
    def __len__(self):
        return dist.get_rank() + 1
    def __repr__(self):
        return "r" * (dist.get_rank() + 1)
HELD = Held()

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.inner(x)

class Tells(Model):
    rank = RANK
    def forward(self, x):
        return self.inner(x) * (self.rank + 1)

def operator(name, fake, backward):
    @torch.library.custom_op(f"wgranks::{name}", mutates_args=())
    def made(x: torch.Tensor) -> torch.Tensor:
        return x.clone()
    made.register_fake(fake)
    made.register_autograd(backward)
    return made

def odd(x):
    return torch.empty_like(x, requires_grad=False) if dist.get_rank() >= 0 else None

of_backward = operator("backward", torch.empty_like, lambda ctx, g: g * (dist.get_rank() + 1))
of_fake = operator("fake", odd, lambda ctx, g: g)

class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g * (dist.get_rank() + 1)

@torch.compiler.allow_in_graph
def allowed(x):
    return x * (dist.get_rank() + 1)

@torch._dynamo.nonstrict_trace
def loose(x):
    return x * (dist.get_rank() + 1)

@torch.compiler.assume_constant_result
def assumed():
    return dist.get_rank() + 1

def default(x, by=RANK):
    return x + by

part = functools.partial(default, by=RANK + 1)

def closing(by):
    return lambda x: x * (by + 1)

def broken(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * (dist.get_rank() + 1)

SAME = {
    "plain": lambda x: x * 2,
    "model": Model(),
    "around": lambda x: MODEL(x),
    "whether": lambda x: x + 1 if dist.is_available() else x - 1,
}
OTHERWISE = {
    "of_the_world": lambda x: x + dist.group.WORLD.rank(),
    "whether_begun": lambda x: x + 1 if dist.is_initialized() else x - 1,
    "rank": lambda x: x * (dist.get_rank() + 1),
    "imported": lambda x: x * (asked() + 1),
    "size": lambda x: x / dist.get_world_size(),
    "group": lambda x: x + GROUP.rank() * 2 + GROUP.size(),
    "default_group": lambda x: x + dist.distributed_c10d._get_default_group().rank(),
    "a_backend": lambda x: x + len(GROUP._get_backend_name()),
    "mesh": lambda x: x + MESH.get_local_rank(),
    "coordinate": lambda x: x + MESH.get_coordinate()[0],
    "a_global": lambda x: x + RANK,
    "an_item": lambda x: x + TABLE["rank"],
    "the_environment": lambda x: x + int(os.environ["RANK"]),
    "its_default": lambda x: x + int(os.environ.get("LOCAL_RANK", "9")),
    "cached": lambda x: x + known_before(),
    "of_a_group": lambda x: x + dist.get_group_rank(GROUP, dist.get_rank()),
    "ranks": lambda x: x + len(dist.get_process_group_ranks(GROUP)),
    "a_property": lambda x: x + HELD.rank,
    "a_length": lambda x: x + len(HELD),
    "a_text": lambda x: x + len(repr(HELD)),
    "an_attribute": lambda x: x + HELD.number,
    "a_held_group": lambda x: x + HELD.group.rank(),
    "a_comparison": lambda x: x + 1 if Rank == int else x - 1,
    "a_default": lambda x: default(x),
    "a_partial": lambda x: part(x),
    "a_closure": closing(RANK),
    "a_break": broken,
    "of_a_model": Tells(),
    "a_backward": lambda x: of_backward(x),
    "a_fake": lambda x: of_fake(x) * 2,
    "a_function": Function.apply,
    "in_the_graph": lambda x: allowed(x),
    "not_strict": lambda x: loose(x),
    "for_constant": lambda x: x * assumed(),
    "by_cpp": lambda x: x + torch._C._distributed_c10d._resolve_process_group(GROUP.group_name).rank(),
}
dist._DEFAULT_FIRST_BUCKET_BYTES = 16
MODEL = torch.nn.parallel.DistributedDataParallel(Model(), bucket_cap_mb=0.0001)

def run(function):
    x = torch.arange(8.0).reshape(2, 4).requires_grad_()
    out = function(x)
    out.sum().backward()
    return [out.detach(), x.grad]

def outcomes():
    events = [e for e in read(journal_dir(settings())) if e["pid"] == os.getpid()]
    return [e["outcome"] for e in events if e["outcome"] in ("traced", "restored")]

answer, wrong = {}, []
for name, function in {**SAME, **OTHERWISE}.items():
    torch._dynamo.reset()
    before = len(outcomes())
    right, found = run(function), run(torch.compile(function, backend="warmgraph"))
    if not all(map(torch.allclose, found, right)):
        wrong.append([name, [one.tolist() for one in found], [one.tolist() for one in right]])
    answer[name] = outcomes()[before:]
with open(f"{sys.argv[1]}.{RANK}.json", "w") as file:
    json.dump({"outcomes": answer, "wrong": wrong}, file)
warmgraph.flush()
dist.barrier()
sys.stdout.flush()
os._exit(0)  # torch's own threads abort a process now and then while it ends
"""
# Asks for no rank: any may have it. The frame of DDP's own `forward`, around these graphs, is of its rank.
SAME = ["plain", "model", "around", "whether"]
# What a rank compares, as it does with what an edit changes. Those of the first job have their numbers again.
COMPARED = """
    a_global an_item the_environment its_default an_attribute a_default a_partial a_closure of_a_model for_constant
""".split()


pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def jobs(tmp_path_factory, cleared, inductor_cache):
    """What each rank of a job of two says, and then of one of three."""
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "program.py").write_text(PROGRAM)
    held = cleared | {
        "WARMGRAPH_DIR": str(folder / "store"),
        "WARMGRAPH_STRICT": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(inductor_cache),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }

    def job(world, backend):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
        command = [*torchrun, "program.py", str(world)]
        done = subprocess.run(
            command, env=held | {"WG_BACKEND": backend}, cwd=folder, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == 0, done.stderr[-6000:]
        return [json.loads((folder / f"{world}.{rank}.json").read_text()) for rank in range(world)]

    return job(2, "gloo"), job(3, "cpu:gloo")


def test_no_rank_is_given_anothers(jobs):
    assert [rank["wrong"] for job in jobs for rank in job] == [[]] * 5


def test_what_asks_for_no_rank_is_restored_by_each(jobs):
    for rank in jobs[1]:
        found = {name: rank["outcomes"][name] for name in SAME}
        of_ddp = found["around"].pop(0)
        assert found.pop("around")[-1:] == ["restored"], (of_ddp, rank["outcomes"])
        assert all(outcomes == ["restored"] for outcomes in found.values()), found


def test_what_tells_ranks_apart_is_not(jobs):
    for number, rank in enumerate(jobs[1]):
        for name in rank["outcomes"].keys() - SAME - {"a_break"}:
            of_before = number < 2 and name in COMPARED
            assert of_before or "restored" not in rank["outcomes"][name], (number, name)
