"""`warmgraph warm`: a job whose ranks do not exist yet compiles; the job itself then compiles nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WARM = [sys.executable, "-m", "warmgraph", "warm"]

# Inductor's kernels are not what is tested: none is made, and g++ not run.
PROGRAM = """
import json, os, sys, torch, torch._inductor.config, torch.distributed as dist
import torch.distributed.nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

torch._inductor.config.fallback_by_default = True

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.down(self.up(x))

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world, 1), mesh_dim_names=("tp", "dp"))
split = parallelize_module(Block(), mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
alone = dist.new_group([rank], backend="gloo", use_local_synchronization=True)
gradients = torch.nn.parallel.DistributedDataParallel(Block())
for model in (torch.compile(split), torch.compile(gradients)):
    model(torch.ones(2, 4)).sum().backward()

def mean(x):
    y = x * 2
    dist.all_reduce(y, group=alone)
    return y + 1

assert torch.compile(mean)(torch.ones(4)).tolist() == [3.0] * 4
print("done")
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path


def call(command: list[str], folder: Path, environment: Any, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=environment(WARMGRAPH_PGO="0", **extra), capture_output=True, text=True, timeout=550
    )


@pytest.mark.exhaustive
def test_a_job_finds_what_was_compiled_for_it_before_it_ran(folder: Path, environment: Any) -> None:
    """Tensor parallelism, DDP and a group of one's own: keys do not tell a real process group from a fake one."""
    line = ["--standalone", "--nproc-per-node=2", "-m", "warmgraph", "run", "--summary", "all", "train.py"]
    done = call([*WARM, "--json", "torchrun", *line], folder, environment)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert [(rank["rank"], rank["status"]) for rank in found["ranks"]] == [(0, 0), (1, 0)]
    outcomes = [[graph["outcome"] for graph in rank["graphs"]] for rank in found["ranks"]]
    assert outcomes == [["miss"] * 3, ["hit"] * 3]
    assert found["distinct"] == 3
    job = call([sys.executable, "-m", "torch.distributed.run", *line], folder, environment)
    assert job.returncode == 0, job.stderr[-4000:]
    assert job.stderr.count("100 % of 3 lookups were hits") == 2


def test_a_program_that_needs_another_rank_says_where(folder: Path, environment: Any) -> None:
    """It ends there, and no further rank is run."""
    (folder / "waits.py").write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "assert dist.get_world_size() == 4 and dist.get_backend() == 'fake'\n"
        "given = torch.zeros(1) if dist.get_rank() else torch.ones(1)\n"
        "raise SystemExit('nothing came from rank 1')\n"
    )
    done = call([*WARM, "--world-size", "4", "waits.py"], folder, environment)
    assert done.returncode == 1
    assert "rank 0: 0 compiled, 0 there, 0 not cached" in done.stderr
    assert "status 1: nothing came from rank 1" in done.stderr
    assert "rank 1:" not in done.stderr
    assert "WARMGRAPH_WARM" in done.stdout


def test_what_a_program_leaves_behind_is_not_waited_for(folder: Path, environment: Any) -> None:
    """A process that it started holds its standard error open, for longer than this test may take."""
    left = "import subprocess\nleft = subprocess.Popen(['sleep', '900'], stdout=subprocess.DEVNULL)\nprint(left.pid)\n"
    (folder / "leaves.py").write_text(left)
    done = call([*WARM, "--world-size", "1", "leaves.py"], folder, environment)
    os.kill(int(re.search(r"^\d+$", done.stderr, re.MULTILINE)[0]), signal.SIGKILL)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--world-size", "4", "--ranks", "4", "train.py"], "no rank 4 in a world of 4"),
        (["--world-size", "4", "--ranks", "first", "train.py"], "expected all, or numbers"),
        (["--world-size", "4", "nothing.py"], "there is no file nothing.py"),
        (["train.py"], "--world-size"),
        (["torchrun", "--nproc-per-node", "many", "train.py"], "Unsupported nproc_per_node value: many"),
        (["torchrun", "--nnodes", "1:4", "train.py"], "--nnodes 1:4: of how many ranks is the job?"),
        (["torchrun", "--run-path", "train.py"], "--run-path"),
        (["torchrun", "--nproc", "train.py"], "torchrun: ambiguous option: --nproc"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_is(folder: Path, environment: Any, options: Any, why: str) -> None:
    done = call([*WARM, *options], folder, environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr


SAYS = """
import json, os, torch
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "OMP_NUM_THREADS")
with open("said.jsonl", "a") as file:
    print(json.dumps([*map(os.environ.get, names), torch.get_num_threads()]), file=file)
"""


def test_a_line_of_torchrun_says_where_each_rank_stands(folder: Path, environment: Any) -> None:
    """As torchrun itself sets it, threads included: the code that is generated depends on their number."""
    (folder / "says.py").write_text(SAYS)
    line = ["--nproc-per-node", "2", "says.py"]
    done = call([*WARM, "--ranks", "0,3", "torchrun", "--nnodes", "2", *line], folder, environment)
    assert done.returncode == 0, done.stderr[-4000:]
    warm = [json.loads(said) for said in (folder / "said.jsonl").read_text().splitlines()]
    assert warm == [["0", "4", "0", "2", "0", "1", 1], ["3", "4", "1", "2", "1", "1", 1]]
    (folder / "said.jsonl").unlink()
    job = call([sys.executable, "-m", "torch.distributed.run", "--standalone", *line], folder, environment)
    assert job.returncode == 0, job.stderr[-4000:]
    said = sorted(json.loads(said) for said in (folder / "said.jsonl").read_text().splitlines())
    assert [one[2:] for one in said] == [["0", "2", "0", "1", 1], ["1", "2", "0", "1", 1]]


def test_a_cache_that_keeps_nothing_is_not_warmed(folder: Path, environment: Any) -> None:
    done = call([*WARM, "--world-size", "2", "train.py"], folder, environment, WARMGRAPH_MODE="readonly")
    assert done.returncode == 2
    assert "WARMGRAPH_MODE=readonly" in done.stderr


WAITS = """
import os, time
print("here", os.getpid(), flush=True)
time.sleep(600)
"""


def test_its_end_is_that_of_its_program(folder: Path, environment: Any) -> None:
    """A job that is cancelled (SIGTERM) leaves no rank behind that goes on compiling."""
    (folder / "waits.py").write_text(WAITS)
    with subprocess.Popen(
        [*WARM, "--world-size", "2", "waits.py"], cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        said = next(line for line in process.stderr or () if line.startswith("here"))
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(said.split()[1]), 0)
