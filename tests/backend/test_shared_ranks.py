"""Ranks that mean the same share what is compiled, each on its own groups; what holds a rank's place is its own."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from warmgraph.backend.torch_api import versions

PROGRAM = """
import hashlib, json, os, sys, torch, torch.distributed as dist
import torch.distributed.nn
import warmgraph
import torch.distributed._functional_collectives as funcol
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from warmgraph.cache import journal_dir, read, settings

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

def halves():
    found = [dist.new_group(list(range(first, first + world // 2))) for first in range(0, world, world // 2)]
    return found[rank // (world // 2)]

def in_halves():
    half, x = halves(), torch.arange(8.0) + 100 * rank
    def f(x):
        y = x + 1
        dist.all_reduce(y, group=half)
        return y * 2, funcol.all_gather_tensor(x + 3, 0, half), funcol.all_reduce(x, "sum", dist.group.WORLD)
    return f, [x]

def experts():
    half, x = halves(), torch.arange(8.0).reshape(4, 2) + 100 * rank
    return lambda x: funcol.all_to_all_single(x * 2, None, None, half) + 1, [x]

def fsdp():
    model = Model()
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model), [torch.ones(4, 16) + rank]

def ddp():
    dist._DEFAULT_FIRST_BUCKET_BYTES = 1 << 10
    return torch.nn.parallel.DistributedDataParallel(Model(), bucket_cap_mb=0.003), [torch.ones(4, 16) + rank]

def tensor_parallel(shape, names):
    mesh, model = init_device_mesh("cpu", shape, mesh_dim_names=names)["tp"], Model()
    for block in model.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model, [torch.ones(4, 16) + rank // mesh.size()]

def own_slice():
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    x = DTensor.from_local(torch.arange(8.0).reshape(4, 2), mesh, [Replicate()])
    return lambda x: x.redistribute(placements=[Shard(0)]).to_local() * 3, [x]

CASES = {
    "halves": in_halves,
    "experts": experts,
    "fsdp": fsdp,
    "ddp": ddp,
    "tp": lambda: tensor_parallel((world,), ("tp",)),
    "tp of another name": lambda: tensor_parallel((world, 1), ("tp", "dp")),
    "tp in rows": lambda: tensor_parallel((2, world // 2), ("dp", "tp")),
    "own slice": own_slice,
}

def gradients(out, parameters):
    if out[0].requires_grad:
        sum(one.sum() for one in out).backward()
    found = [one.detach() for one in out] + [one.grad for one in parameters if one.grad is not None]
    return [one.full_tensor() if isinstance(one, DTensor) else one for one in found]

def run(case):
    torch.manual_seed(0)
    torch._dynamo.reset()
    function, inputs = CASES[case]()
    parameters = list(function.parameters()) if isinstance(function, torch.nn.Module) else []
    def call(f):
        for one in parameters:
            one.grad = None
        out = f(*inputs)
        return gradients(out if isinstance(out, tuple) else (out,), parameters)
    right = call(function)
    before = len(mine())
    found = call(torch.compile(function, backend="warmgraph"))
    warmgraph.flush()
    dist.barrier()
    for ours, theirs in zip(found, right, strict=True):
        torch.testing.assert_close(ours, theirs)
    bits = hashlib.sha256(b"".join(one.contiguous().numpy().tobytes() for one in found)).hexdigest()
    return {"bits": bits, "events": mine()[before:]}

def mine():
    events = [e for e in read(journal_dir(settings())) if e["pid"] == os.getpid()]
    return [[e["outcome"], e["key"]] for e in events if e["outcome"] not in ("skipped", "traced", "restored")]

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
with open(f"{sys.argv[1]}.{rank}.json", "w") as file:
    json.dump({case: run(case) for case in sys.argv[2:]}, file)
dist.barrier()
dist.destroy_process_group()
"""
SHARED = ["halves", "experts", "fsdp", "ddp", "tp", "tp of another name"]


def run_job(environment, folder, name, world, *cases):
    """What each rank found, case by case."""
    (folder / "program.py").write_text(PROGRAM)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
    command = [*torchrun, "program.py", name, *cases]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stderr[-6000:]
    return [json.loads((folder / f"{name}.{rank}.json").read_text()) for rank in range(world)]


def keys(ranks, case):
    return {key for rank in ranks for _, key in rank[case]["events"]}


def outcomes(ranks, case):
    """By key, how often it was hit and missed in the whole job."""
    found = {}
    for rank in ranks:
        for outcome, key in rank[case]["events"]:
            found.setdefault(key, Counter())[outcome] += 1
    return found


@pytest.fixture(scope="module")
def redis(tmp_path_factory, load_module):
    servers = load_module(Path(__file__).parent.parent / "remote" / "servers.py")
    with servers.server(tmp_path_factory.mktemp("redis")) as server:
        yield server


shares = pytest.mark.skipif(versions.at_hand() < (2, 13), reason="ranks share no code with collectives")


@shares
@pytest.mark.parametrize("world", [2, 4])
def test_one_compile_per_distinct_graph_of_a_job(environment, tmp_path, redis, world):
    """Functional collectives on parts of the world, FSDP2, DDP's buckets, tensor parallelism on one and two dimensions.

    A second job on hosts with empty folders and no compiler has all from Redis, to the bit. What a rank's number is
    written into is its own, in both.
    """
    redis.raw.flushall()
    shared = [*SHARED, "tp in rows"] if world == 4 else SHARED
    remote = {"WARMGRAPH_URL": f"{redis.url}?socket_timeout=30", "WARMGRAPH_TRUST": "network", "WARMGRAPH_PGO": "0"}
    cold = run_job(environment(**remote), tmp_path, "cold", world, *shared, "own slice")
    elsewhere = environment(**remote, compiler=False, WARMGRAPH_DIR=str(tmp_path / "other"))
    warm = run_job(elsewhere, tmp_path, "warm", world, *shared, "own slice")
    for case in shared:
        assert outcomes(cold, case), case
        for key, count in outcomes(cold, case).items():
            assert count == {"miss": 1, "hit": world - 1}, (case, key, count)
    assert list(outcomes(cold, "own slice").values()) == [{"miss": 1}] * world
    for case in [*shared, "own slice"]:
        assert keys(warm, case) == keys(cold, case), case
        assert all(count.keys() == {"hit"} for count in outcomes(warm, case).values()), case
        assert [rank[case]["bits"] for rank in warm] == [rank[case]["bits"] for rank in cold], case
    assert len(keys(cold, "ddp")) > 2  # pieces
    of_meshes = [keys(cold, case) for case in shared if case.startswith("tp")]
    assert len(set.union(*of_meshes)) == sum(map(len, of_meshes))


BUCKETS = """
import json, os, sys, torch, torch.distributed as dist, warmgraph
import torch.distributed.nn  # before there is a group, which it would keep, with threads that abort at exit
import torch.distributed._functional_collectives as funcol
from warmgraph.cache import journal_dir, read, settings

torch._inductor.config.bucket_all_gathers_fx = sys.argv[2]
dist.init_process_group("gloo")
world = dist.group.WORLD
def f(x, y):
    return funcol.all_gather_tensor(x * 2, 0, world), funcol.all_gather_tensor(y * 3, 0, world)
torch.compile(f, backend="warmgraph")(torch.ones(8), torch.ones(8))
warmgraph.flush()
events = [e["outcome"] for e in read(journal_dir(settings())) if e["pid"] == os.getpid() and e["outcome"] != "traced"]
with open(f"{sys.argv[1]}.{dist.get_rank()}.json", "w") as file:
    json.dump(events, file)
dist.barrier()
dist.destroy_process_group()
"""


@shares
def test_code_in_which_a_setting_writes_the_rank_is_not_shared(environment, tmp_path, monkeypatch):
    """Inductor's bucketing gathers into a rank's own piece of a buffer, by its number."""
    monkeypatch.setitem(globals(), "PROGRAM", BUCKETS)
    without = run_job(environment(), tmp_path, "none", 2, "none")
    assert sorted(map(tuple, without)) == [("hit",), ("miss",)]
    assert run_job(environment(), tmp_path, "all", 2, "all") == [["miss"], ["miss"]]
