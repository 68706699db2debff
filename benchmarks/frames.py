"""The first call of a warm process with frames restored, beside `WARMGRAPH_FRAMES=0`: interleaved, fresh processes.

    python -m benchmarks.frames gpt2 bert llama vit t5      # a cold process each, then pairs; --pairs 5

CPU seconds of the main thread, which other work on the machine moves least, and wall seconds; from `torch.compile()`
on. Traced: operators that Dynamo captured in the process. Writes benchmarks/results/frames.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from .warm_start import RESULTS, machine


def child(name: str) -> dict[str, Any]:
    import hashlib

    import torch
    import torch._dynamo

    from . import models

    torch.manual_seed(models.SEED)
    case = models.make(name, tiny=False)
    case.model.eval()
    wall, cpu = time.perf_counter(), time.thread_time()
    compiled = torch.compile(case.model, backend="warmgraph")
    with torch.no_grad():
        out = compiled(**case.inputs)
    found: dict[str, Any] = {"wall": time.perf_counter() - wall, "cpu": time.thread_time() - cpu}
    found["result"] = hashlib.sha256(case.loss(out).double().numpy().tobytes()).hexdigest()[:16]
    found["traced"] = torch._dynamo.utils.counters["stats"].get("calls_captured", 0)
    steady = []
    with torch.no_grad():
        for _ in range(30):
            wall = time.thread_time()
            compiled(**case.inputs)
            steady.append(time.thread_time() - wall)
    found["steady"] = median(steady)
    import warmgraph

    return found | {name: warmgraph.stats()[name] for name in ("restored", "frames", "seconds")}


def run(name: str, store: str, frames: bool) -> dict[str, Any]:
    environment = os.environ | {
        "WARMGRAPH_DIR": store,
        "WARMGRAPH_FRAMES": str(int(frames)),
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, "-m", "benchmarks.frames", "--child", name]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(name: str, pairs: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as store:
        cold = run(name, store, frames=True)
        found = [(run(name, store, frames=False), run(name, store, frames=True)) for _ in range(pairs)]
    row: dict[str, Any] = {
        "cold": cold,
        "pairs": found,
        "same_result": len({r["result"] for r in _all(cold, found)}) == 1,
    }
    for what in ("cpu", "wall", "steady"):
        today, restored = (median(pair[way][what] for pair in found) for way in (0, 1))
        row[what] = {"today": today, "restored": restored, "ratio": median(b[what] / a[what] for a, b in found)}
    row["recording"] = cold["seconds"].get("record", 0.0) / cold["wall"]
    return row


def _all(cold: dict[str, Any], pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[dict[str, Any]]:
    return [cold, *(one for pair in pairs for one in pair)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=["gpt2", "bert", "llama", "vit", "t5"])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--child")
    given = parser.parse_args()
    if given.child:
        print(json.dumps(child(given.child)))
        return
    found = {}
    for name in given.models:
        found[name] = row = measure(name, given.pairs)
        told = {what: {way: round(n, 4) for way, n in row[what].items()} for what in ("cpu", "steady")}
        print(
            name, told, "traced", [pair[1]["traced"] for pair in row["pairs"]], "same", row["same_result"], flush=True
        )
    out = Path(RESULTS) / "frames.json"
    out.write_text(json.dumps({"machine": machine(), "models": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
