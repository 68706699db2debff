"""What it costs when N processes start cold at once: CPU seconds of all, against those of one alone.

    python -m benchmarks.fleet                      # N = 4 and 8 on 2 "hosts", three rounds, 10 minutes
    python -m benchmarks.fleet --backend inductor   # torch's own caches, for comparison

A "host" is a folder of its own for warmgraph and for Inductor; all reach one real Redis. CPU seconds and not wall
seconds: N processes share this machine's cores. Two ratios: over whole processes, which each import torch and
build their model whatever a cache does; and from the first call on. Writes benchmarks/results/fleet.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from statistics import median
from typing import Any

from warmgraph.cache import new_key

from .bytecode import compile_modules
from .redis_server import redis_server
from .warm_start import MODELS, RESULTS, WORKER

HOSTS = 2


def start(model: str, backend: str, folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    own = {"WARMGRAPH_DIR": str(folder / "store"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    command = [sys.executable, str(WORKER), "--model", model, "--what", "training", "--backend", backend]
    return subprocess.Popen(command, env=environment | own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def fleet(count: int, model: str, backend: str, port: int) -> dict[str, Any]:
    """`count` processes at once, over the hosts in turn. Nothing is warm."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("WARMGRAPH_", "TORCHINDUCTOR_"))}
    environment["WARMGRAPH_URL"] = f"redis://127.0.0.1:{port}"
    environment["WARMGRAPH_SIGNING_KEY"] = new_key()
    environment["WARMGRAPH_NAMESPACE"] = uuid.uuid4().hex
    environment["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="warmgraph-fleet-") as folder:
        processes = [
            start(model, backend, Path(folder) / f"host{number % HOSTS}", environment) for number in range(count)
        ]
        found = []
        for process in processes:
            out, err = process.communicate()
            if process.returncode != 0:
                sys.exit(f"a worker failed:\n{err[-3000:]}")
            found.append(json.loads(out.splitlines()[-1]))
    one = {"whole": sum(f["cpu_seconds"] for f in found), "calls": sum(f["calls_cpu_seconds"] for f in found)}
    if backend == "warmgraph":
        one |= {name: sum(f["stats"][name] for f in found) for name in ("hits", "misses")}
    return one


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", choices=(*MODELS, "stages"), default=("gpt2", "conv", "stages"))
    parser.add_argument("--backend", choices=("warmgraph", "inductor"), default="warmgraph")
    parser.add_argument("--counts", nargs="*", type=int, default=(4, 8))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "fleet.json")
    options = parser.parse_args()
    compile_modules()
    found: dict[str, Any] = {"cpus": os.cpu_count(), "hosts": HOSTS, "backend": options.backend, "models": {}}
    with redis_server() as port:
        if port is None:
            sys.exit("redis-server is not installed")
        for model in options.models:
            rounds: dict[int, list[dict[str, Any]]] = {}
            for _ in range(options.rounds):
                for count in (1, *options.counts):
                    rounds.setdefault(count, []).append(fleet(count, model, options.backend, port))
                    print(f"{model}, {count} at once: {rounds[count][-1]}", file=sys.stderr, flush=True)
            found["models"][model] = {"runs": rounds, "ratios": {}}
            for count in options.counts:
                pairs = list(zip(rounds[count], rounds[1], strict=True))
                ratios = {name: median(many[name] / one[name] for many, one in pairs) for name in ("calls", "whole")}
                found["models"][model]["ratios"][count] = ratios
                print(
                    f"{model}: {count} at once take {ratios['calls']:.2f} times the CPU seconds of one, "
                    f"with imports {ratios['whole']:.2f} times"
                )
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
