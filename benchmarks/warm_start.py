"""How long `torch.compile` and the first call take: cold, with torch's own caches, with warmgraph. Fresh processes.

    python -m benchmarks.warm_start                      # everything, about 45 minutes
    python -m benchmarks.warm_start --models gpt2 --rounds 5 --what inference

Rounds are interleaved (one of each way of running, then the next round), medians are reported, and every
ratio is taken within one run: machines are shared and noisy. Writes benchmarks/results/warm_start.json and
warm_start.png.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from warmgraph.cache import new_key

from .bytecode import compile_modules
from .redis_server import redis_server
from .table import budget_rows, print_rows

WORKER = Path(__file__).with_name("worker.py")
RESULTS = Path(__file__).with_name("results")
MODELS = ("gpt2", "bert", "vit", "llama", "llama32", "t5", "whisper", "conv")
CASES = [("gpt2", "inference"), ("gpt2", "training"), *[(name, "inference") for name in MODELS[1:]]]

# name -> what it is, in the order in which a round runs them.
WAYS = {
    "eager": "no torch.compile",
    "cold": "Inductor, all caches off",
    "cold_warmgraph": "warmgraph, empty folder and empty Redis",
    "torch_local": "Inductor, its own cache on the same host",
    "traced_local": "warmgraph, on the same host",
    "warm_local": "warmgraph, on the same host, frames restored",
    "torch_redis": "Inductor, its own Redis cache on a fresh host",
    "traced_redis": "warmgraph, from Redis on a fresh host",
    "warm_redis": "warmgraph, from Redis on a fresh host (nothing on disk, no C++ compiler), frames restored",
}


class Bench:
    """One case (a model, inference or training): its folders, its Redis, its results per way."""

    def __init__(self, model: str, what: str, folder: Path, redis_port: int | None) -> None:
        self.model, self.what, self.folder = model, what, folder
        self.redis_port = redis_port
        self.results: dict[str, list[dict[str, Any]]] = {}
        self.key = new_key()
        self.ways = [way for way in WAYS if "redis" not in way or redis_port is not None]

    def prepare(self) -> None:
        """Fill what the warm ways read: warmgraph's folder and Redis, torch's local cache, torch's Redis cache."""
        self.run("warm_local", compiler=True, keep=False)
        self.run("torch_local", keep=False)
        if self.redis_port is not None:
            self.run("torch_redis", keep=False)

    def round(self) -> None:
        for way in self.ways:
            self.run(way)

    def run(self, way: str, *, compiler: bool = False, keep: bool = True) -> None:
        fresh = Path(tempfile.mkdtemp(dir=self.folder))
        environment = self._environment(way, fresh)
        if way.startswith(("warm", "traced")) and not compiler:
            (fresh / "bin").mkdir()
            environment["PATH"] = str(fresh / "bin")
        backend = (
            "eager" if way == "eager" else "inductor" if way in ("cold", "torch_local", "torch_redis") else "warmgraph"
        )
        command = [sys.executable, str(WORKER), "--model", self.model, "--what", self.what, "--backend", backend]
        output = subprocess.run([*command, "--calls", "40"], env=environment, capture_output=True, text=True)
        if output.returncode != 0:
            sys.exit(f"{self.model} {self.what} {way} failed:\n{output.stderr[-3000:]}")
        found = json.loads(output.stdout.splitlines()[-1])
        shutil.rmtree(fresh)
        if keep:
            self.results.setdefault(way, []).append(found)

    def _environment(self, way: str, fresh: Path) -> dict[str, str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("WARMGRAPH_", "TORCHINDUCTOR_"))}
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(fresh / "inductor")
        same_host = way in ("warm_local", "traced_local")
        environment["WARMGRAPH_DIR"] = str(self.folder / "store" if same_host else fresh / "store")
        environment["WARMGRAPH_FRAMES"] = str(int(not way.startswith("traced")))
        if self.redis_port is not None:
            environment["WARMGRAPH_URL"] = f"redis://127.0.0.1:{self.redis_port}/1"
            environment["WARMGRAPH_SIGNING_KEY"] = self.key
        # Each case and each cold run has a namespace that nobody else writes to.
        environment["WARMGRAPH_NAMESPACE"] = fresh.name if way == "cold_warmgraph" else self.folder.name
        if way == "cold":
            environment["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
        elif way == "torch_local":
            environment["TORCHINDUCTOR_CACHE_DIR"] = str(self.folder / "inductor")
        elif way == "torch_redis":
            environment["TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE"] = "1"
            environment["TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE"] = "1"
            environment["TORCHINDUCTOR_REDIS_PORT"] = str(self.redis_port)
        return environment

    def summary(self) -> dict[str, Any]:
        """Medians over rounds, in seconds."""
        found: dict[str, Any] = {"model": self.model, "what": self.what, "ways": {}}
        for way, runs in self.results.items():
            first = [run["first_call"][self.what] for run in runs]
            steady = [median(run["later_calls"][self.what][5:]) for run in runs]
            one = {"first_call": median(first), "first_calls": first}
            one |= {"steady_call": median(steady), "steady_calls": steady}
            one["cpu_seconds"] = median(run["cpu_seconds"] for run in runs)
            phases = [run["stats"]["seconds"] for run in runs if "stats" in run]
            if phases:
                one["phases"] = {name: median(p.get(name, 0.0) for p in phases) for name in phases[0]}
            found["ways"][way] = one
        return found


def machine() -> dict[str, Any]:
    import torch

    return {
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "os": platform.system(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", nargs="*", choices=MODELS, default=MODELS)
    parser.add_argument("--what", choices=("inference", "training"), default=None)
    parser.add_argument("--out", type=Path, default=RESULTS / "warm_start.json")
    options = parser.parse_args()
    compile_modules()
    cases = [c for c in CASES if c[0] in options.models and options.what in (None, c[1])]
    summaries = []
    with redis_server() as port, tempfile.TemporaryDirectory(prefix="warmgraph-bench-") as folder:
        if port is None:
            print("redis-server is not installed: torch's Redis cache is left out", file=sys.stderr)
        for model, what in cases:
            bench = Bench(model, what, Path(tempfile.mkdtemp(dir=folder)), port)
            bench.prepare()
            for number in range(options.rounds):
                print(f"{model} {what}: round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
                bench.round()
            summaries.append(bench.summary())
            write(options.out, {"machine": machine(), "rounds": options.rounds, "cases": summaries})
    print_rows(budget_rows(summaries))
    return 0


def write(path: Path, found: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")
    plot(path.with_suffix(".png"), found["cases"])


def plot(path: Path, cases: list[dict[str, Any]]) -> None:
    """Seconds of the first call, one group of bars per case, on a logarithmic scale."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    ways = [way for way in WAYS if any(way in case["ways"] for case in cases)]
    figure, axes = pyplot.subplots(figsize=(9, 1.1 + 1.1 * len(cases)), layout="constrained")
    height = 0.8 / len(ways)
    for index, way in enumerate(ways):
        places = [number + index * height for number in range(len(cases))]
        values = [case["ways"].get(way, {}).get("first_call", 0.0) for case in cases]
        bars = axes.barh(places, values, height, label=WAYS[way])
        axes.bar_label(bars, labels=[f"{value:.2g} s" if value else "" for value in values], padding=3, fontsize=7)
    axes.set_yticks([n + 0.4 - height / 2 for n in range(len(cases))], [f"{c['model']}\n{c['what']}" for c in cases])
    axes.set_xscale("log")
    axes.invert_yaxis()
    axes.set_xlabel("seconds of the first call in a fresh process (median, logarithmic)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.0 + 0.9 / len(cases)), ncols=2, fontsize=8, frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
