"""Two ranks of a job, each on a host of its own: one hits from its folder while the other compiles. With torch."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import new_key, read
from warmgraph.scripts.audit import audit_events

SECONDS = 5.0  # that rank 1 compiles for

RANK = """
import json, logging, os, signal, sys, time
from datetime import timedelta
from pathlib import Path
import torch, torch.distributed as dist
import warmgraph
from warmgraph.backend import engine
from warmgraph.cache import flush

folder, planted = Path(sys.argv[1]), sys.argv[2]
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
times = {}

def wait_for(name):
    end = time.monotonic() + 600
    while not (folder / name).exists():
        assert time.monotonic() < end, name
        time.sleep(0.01)

class Telling(logging.Handler):
    def emit(self, record):
        if "and waiting for" in record.getMessage():
            (folder / "rank 0 waits").touch()

def slowly(*arguments, compile=engine.compile_kept):
    (folder / "compiles").touch()
    if planted == "killed":
        wait_for("rank 0 waits")
        os.kill(os.getpid(), signal.SIGKILL)
    elif planted == "slow":
        time.sleep(float(sys.argv[3]))
    else:
        wait_for("rank 0 is ahead")
    compiled = compile(*arguments)
    times["compiled"] = time.time()
    return compiled

timeout = timedelta(seconds=900)
dist.init_process_group("gloo", init_method=f"file://{folder}/group{size}", rank=rank, world_size=size, timeout=timeout)

@torch.compile(backend="warmgraph")
def step(x):
    return (x * 3 + 1).sin().sum()

if rank == 1:
    engine.compile_kept = slowly
elif size == 2:
    logging.getLogger("warmgraph").addHandler(Telling())
    logging.getLogger("warmgraph").setLevel(logging.INFO)
    wait_for("compiles")
step(torch.arange(8.0))
times["collective"] = time.time()
(folder / f"rank {rank} is ahead").touch()
if planted != "killed":
    dist.all_reduce(torch.ones(1))
flush()
counts = warmgraph.stats()
print(json.dumps(times | {"tiers": counts["tiers"], "misses": counts["misses"]}), flush=True)
os._exit(0)  # torch's own threads abort a process now and then while it ends
"""


@pytest.fixture
def two_ranks(environment: Callable[..., dict[str, str]], tmp_path: Path, own_server: Any) -> Any:
    """Runs rank 0, whose folder has the graph, and rank 1, whose folder and server have nothing."""
    shared = {"WARMGRAPH_URL": own_server.patient_url, "WARMGRAPH_SIGNING_KEY": new_key(), "WARMGRAPH_JOB": "a job"}

    def start(rank: int, size: int, *arguments: str, **changes: str) -> Any:
        own = {"RANK": rank, "WORLD_SIZE": size, "WARMGRAPH_DIR": tmp_path / f"host{rank}"}
        command = [sys.executable, "-c", RANK, str(tmp_path), *arguments]
        made = environment(**(shared | own | changes))
        return subprocess.Popen(command, env=made, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def result(process: Any) -> Any:
        out, err = process.communicate(timeout=900)
        assert process.returncode == 0, err[-3000:]
        return json.loads(out.splitlines()[-1])

    def run(*arguments: str, killed: bool = False, **changes: str) -> list[Any]:
        assert result(start(0, 1, "slow", "0"))["misses"] == 1
        own_server.raw.flushall()
        first, second = (start(rank, 2, *arguments, **changes) for rank in range(2))
        if killed:
            second.communicate(timeout=900)
            assert second.returncode == -signal.SIGKILL
            return [result(first)]
        return [result(first), result(second)]

    return run


@pytest.mark.exhaustive
def test_who_hits_does_not_run_ahead(two_ranks: Any, tmp_path: Path) -> None:
    """Its first collective comes when the other has compiled; the journal and the audit say who waited for whom."""
    first, second = two_ranks("slow", str(SECONDS))
    assert (first["tiers"], first["misses"], second["misses"]) == ({"disk": 1}, 0, 1)
    assert first["collective"] >= second["compiled"]
    [hit] = (event for event in read(tmp_path / "host0" / "journal") if event["outcome"] == "hit")
    assert hit["detail"].startswith("waited for rank 1 (pid ")
    [row] = audit_events(read(tmp_path / "host0" / "journal")).skews
    assert (row.job, row.function, row.count, row.waited) == ("a job", "step", 1, hit["detail"])
    assert row.longest > 0


@pytest.mark.exhaustive
def test_a_killed_rank_releases_who_waits_for_it(two_ranks: Any, tmp_path: Path) -> None:
    """Its lease expires, within ten seconds; nothing was in vain, so the process waits for others as before."""
    [first] = two_ranks("killed", killed=True)
    assert (first["tiers"], first["misses"]) == ({"disk": 1}, 0)
    [hit] = (event for event in read(tmp_path / "host0" / "journal") if event["outcome"] == "hit")
    assert hit["detail"].startswith("waited for rank 1 (pid ")


@pytest.mark.exhaustive
def test_switched_off_it_is_as_before(two_ranks: Any, tmp_path: Path) -> None:
    """The one that compiles does not go on until the other is ahead."""
    first, second = two_ranks("until rank 0 is ahead", WARMGRAPH_SKEW="0")
    assert first["collective"] <= second["compiled"]
    assert audit_events(read(tmp_path / "host0" / "journal")).skews == ()
