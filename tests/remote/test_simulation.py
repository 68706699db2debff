"""A small fleet of the simulation: what a thousand ranks cost, counted on thirty-two."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_a_fleet_of_thirty_two(tmp_path: Path) -> None:
    """Cold, each graph is compiled once; warm, ranks ask two cheap questions, and each host fetches each entry once."""
    out = tmp_path / "found.json"
    command = [sys.executable, "-m", "benchmarks.fleet_simulation", "--ranks", "32", "--compress", "20"]
    command += ["--runs", "cold", "full", "empty", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    runs = json.loads(out.read_text())["fleets"]["32"]
    cold, full, empty = (runs[name] for name in ("cold", "full", "empty"))
    assert (cold["ranks"], cold["hosts"], cold["graphs"]) == (32, 4, 3)
    assert (cold["compiled"], cold["compiled_more_than_once"]) == (3, 0)
    assert full["hits"] == {"disk": 96}
    assert full["commands_per_rank_and_graph"] <= 2
    assert (empty["compiled"], empty["hits"], empty["fetches_per_host_and_graph"]) == (0, {"disk": 84, "redis": 12}, 1)
    assert empty["commands_per_rank_and_graph"] <= 2.5  # two questions of seven ranks, six requests of the eighth
    assert (full["commands"]["publish"], empty["commands"]["publish"]) == (0, 0)
