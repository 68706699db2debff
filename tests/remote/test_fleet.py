"""Hosts that share one Redis, with real compiles in real processes: what one compiled, all others load.

A "host" is a folder of its own for warmgraph and for Inductor. No process here shares a file with another host's.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from warmgraph.cache import new_key, read

ROOT = Path(__file__).resolve().parent.parent.parent
WORKER = ROOT / "benchmarks" / "worker.py"
TRAINING = ("--model", "conv", "--tiny", "--what", "training")


@pytest.fixture
def shared(own_server: Any) -> dict[str, str]:
    """What every host of a fleet has in its environment."""
    return {"WARMGRAPH_URL": own_server.patient_url, "WARMGRAPH_SIGNING_KEY": new_key()}


def test_second_host_gets_everything_from_redis(
    run_worker: Callable[..., Any], tmp_path: Path, shared: dict[str, str]
) -> None:
    """Every graph of the first host is hit from Redis on the second, bit for bit; the next process there finds disk."""
    model = ("--model", "conv", "--tiny", "--what", "both")
    one, other = tmp_path / "one", tmp_path / "other"
    cold = run_worker(*model, "--out", tmp_path / "cold.pt", WARMGRAPH_DIR=one, **shared)
    graphs = cold["stats"]["misses"]
    assert graphs >= 2
    assert cold["started"], "the check below can fail"
    for name, tier in (("fresh", "redis"), ("again", "disk")):
        out = tmp_path / f"{name}.pt"
        warm = run_worker(*model, "--out", out, compiler=False, WARMGRAPH_DIR=other, **shared)
        assert (warm["stats"]["hits"], warm["stats"]["tiers"]) == (graphs, {tier: graphs})
        assert (warm["stats"]["misses"], warm["stats"]["bypasses"], warm["stats"]["failures"]) == (0, 0, 0)
        assert (warm["started"], warm["modules"], warm["stats"]["sick"]) == ([], [], {})
        assert_same(torch.load(tmp_path / "cold.pt"), torch.load(out))
    hits = [event for event in read(other / "journal") if event["outcome"] == "hit"]
    assert [event["tier"] for event in hits] == ["redis"] * graphs + ["disk"] * graphs


def assert_same(one: Any, other: Any) -> None:
    for what in one:
        for part in ("outputs", "gradients", "buffers"):
            torch.testing.assert_close(one[what][part], other[what][part], rtol=0, atol=0, equal_nan=True)


class Fleet:
    """Processes on two hosts that start at once."""

    def __init__(self, environment: Callable[..., Any], folder: Path, shared: dict[str, str], count: int = 8) -> None:
        self.folder = folder
        self.processes = []
        for number in range(count):
            host = folder / f"host{number % 2}"
            own = {"WARMGRAPH_DIR": host / "store", "TORCHINDUCTOR_CACHE_DIR": host / "inductor", "RANK": number}
            own["WARMGRAPH_URL"] = f"{shared['WARMGRAPH_URL']}&client_name=rank{number}"
            command = [sys.executable, str(WORKER), *TRAINING, "--watch", "--out", str(folder / f"{number}.pt")]
            self.processes.append(
                subprocess.Popen(
                    command,
                    env=environment(WARMGRAPH_STRICT="0") | shared | {name: str(value) for name, value in own.items()},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )

    def results(self, killed: int | None = None) -> list[dict[str, Any]]:
        found = []
        for process in self.processes:
            out, err = process.communicate(timeout=400)
            if process.pid == killed:
                continue
            assert process.returncode == 0, err[-3000:]
            found.append(json.loads(out.splitlines()[-1]))
        return found

    def assert_all_agree(self) -> None:
        saved = [torch.load(path) for path in sorted(self.folder.glob("*.pt"))]
        assert len(saved) >= 2
        for one in saved[1:]:
            assert_same(saved[0], one)


def owner_of_a_lease(server: Any, make: Any) -> int:
    """The pid of the process that compiles, as soon as there is one."""
    found: list[int] = []

    def look() -> bool:
        for name in server.raw.scan_iter(match="*:lease"):
            value = server.raw.get(name)
            if value is not None:
                found.append(json.loads(value.partition(b" ")[2])["pid"])
        return bool(found)

    make.servers.wait_for(look, "nobody took a lease", seconds=120)
    return found[0]


def total(results: list[dict[str, Any]], name: str) -> int:
    return sum(result["stats"][name] for result in results)


@pytest.mark.exhaustive
def test_eight_processes_compile_once(
    environment: Callable[..., Any], tmp_path: Path, shared: dict[str, str], make: Any
) -> None:
    """Eight cold processes on two hosts: one compiles, seven load what it made."""
    fleet = Fleet(environment, tmp_path, shared)
    results = fleet.results()
    assert (total(results, "misses"), total(results, "hits")) == (1, 7)
    assert sum(bool(result["started"]) for result in results) == 1, "one process alone started a compiler"
    fleet.assert_all_agree()


@pytest.mark.exhaustive
def test_killed_owner_is_taken_over(
    environment: Callable[..., Any], tmp_path: Path, shared: dict[str, str], own_server: Any, make: Any
) -> None:
    """The owner is killed in mid-compile: exactly one of the others takes over, and all results are right."""
    fleet = Fleet(environment, tmp_path, shared, 4)
    owner = owner_of_a_lease(own_server, make)
    time.sleep(0.5)
    os.kill(owner, signal.SIGKILL)
    results = fleet.results(killed=owner)
    assert len(results) == 3
    assert (total(results, "misses"), total(results, "hits")) == (1, 2)
    fleet.assert_all_agree()


GATED = """#!/bin/sh
# A compiler that waits while there is the file $CLOSED.
while [ -e "$CLOSED" ]; do sleep 0.05; done
exec g++ "$@"
"""


@pytest.mark.exhaustive
def test_redis_restarts_in_the_middle(
    environment: Callable[..., Any], tmp_path: Path, shared: dict[str, str], own_server: Any, make: Any
) -> None:
    """Redis is restarted, empty, while the owner compiles: the owner keeps its lease, nobody compiles twice."""
    compiler, closed = tmp_path / "gated-g++", tmp_path / "closed"
    compiler.write_text(GATED)
    compiler.chmod(0o755)
    fleet = Fleet(environment, tmp_path, shared | {"CXX": str(compiler), "CLOSED": str(closed)}, 4)
    owner_of_a_lease(own_server, make)
    closed.touch()
    make.servers.wait_for(lambda: connected(own_server) == 4, "not all are there", seconds=120)
    time.sleep(3)  # who met the server less than a second before it restarts cannot know that it did
    own_server.stop()
    time.sleep(0.5)
    own_server.start()
    make.servers.wait_for(lambda: list(own_server.raw.scan_iter(match="*:lease")), "the lease does not come back")
    closed.unlink()
    results = fleet.results()
    assert (total(results, "misses"), total(results, "hits")) == (1, 3)
    fleet.assert_all_agree()


def connected(server: Any) -> int:
    """How many processes of a fleet are connected."""
    return len({client["name"] for client in server.raw.client_list() if client["name"].startswith("rank")})
