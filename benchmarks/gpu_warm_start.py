"""Whole models on a GPU, with and without CUDA graphs: the first call, the tenth, and where the seconds go.

    python -m benchmarks.gpu_warm_start --models gpt2_124m resnet50 --quick
    python -m benchmarks.gpu_warm_start --device cpu --quick          # tiny models: to see that it runs

Fresh processes. A round runs every way once, in order: each warm process reads what the cold one of its round wrote.
The store is a folder; no network, no Redis. Medians over rounds; ratios are taken within a round. A warm warmgraph
process finds nothing but its store: the folders of Inductor and Triton are empty. Writes
benchmarks/results/gpu_warm_start.json after each case.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from .gpu_table import problems, rows
from .machines import machine_with
from .table import print_rows
from .warm_start import RESULTS

WORKER = Path(__file__).with_name("worker.py")
VERSION = 1  # of the JSON
MODELS = ("gpt2_124m", "bert_base", "llama_1b", "resnet50", "decoder_1b")
NEED_TRANSFORMERS = MODELS[:3]
TIMEOUT = 1200  # seconds for one process: the largest model, autotuned, cold


@dataclass(frozen=True, slots=True)
class Way:
    """How a process runs the model. folder: the round's cache that it reads and writes; warm: must be found there.
    frames: whether they are restored.
    """

    backend: str
    mode: str | None = None
    folder: str | None = None
    warm: bool = False
    frames: bool = True


WAYS = {
    "eager": Way("eager"),
    "inductor cold": Way("inductor", folder="inductor"),
    "inductor warm": Way("inductor", folder="inductor", warm=True),
    "warmgraph cold": Way("warmgraph", folder="store"),
    "warmgraph warm": Way("warmgraph", folder="store", warm=True),
    "warmgraph traced": Way("warmgraph", folder="store", warm=True, frames=False),
    "inductor cold, graphs": Way("inductor", "reduce-overhead", folder="inductor-graphs"),
    "inductor warm, graphs": Way("inductor", "reduce-overhead", folder="inductor-graphs", warm=True),
    "warmgraph cold, graphs": Way("warmgraph", "reduce-overhead", folder="store-graphs"),
    "warmgraph warm, graphs": Way("warmgraph", "reduce-overhead", folder="store-graphs", warm=True),
    "warmgraph traced, graphs": Way("warmgraph", "reduce-overhead", folder="store-graphs", warm=True, frames=False),
    "warmgraph_cudagraphs cold": Way("warmgraph_cudagraphs", folder="store-cudagraphs"),
    "warmgraph_cudagraphs warm": Way("warmgraph_cudagraphs", folder="store-cudagraphs", warm=True),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, once everything asked for is known to be possible."""

    cases: Sequence[tuple[str, str]]
    left_out: dict[str, str]
    device: str
    rounds: int
    calls: int


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    plan = planned(options)
    for model, why in plan.left_out.items():
        print(f"{model} is left out: {why}", file=sys.stderr)
    if not plan.cases:
        print("nothing is left to measure", file=sys.stderr)
        return 2
    out = options.out or (RESULTS / "gpu_warm_start.json" if plan.device == "cuda" else None)  # a trial is no result
    found = measure(plan, lambda found: write(out, found) if out is not None else None)
    print_rows(rows(found["cases"]))
    for problem in found["problems"]:
        print(problem, file=sys.stderr)
    return 1 if found["problems"] else 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--out", type=Path, help="where the JSON goes; a trial on a CPU is kept only where this says")
    return parser.parse_args(argv)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `benchmarks.gpu_check` has, too."""
    parser.add_argument("--models", nargs="+", choices=MODELS, help="default: all that this Python can run")
    parser.add_argument(
        "--what", choices=("inference", "training"), help="default: inference, and one model's training"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda", help="cpu: tiny models, to try it out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round, twelve calls")


def planned(options: argparse.Namespace) -> Plan:
    """Without transformers its models are left out, with the reason, and the plain one of Llama's shape stands in."""
    missing = importlib.util.find_spec("transformers") is None
    asked = options.models or [name for name in MODELS if missing or name != "decoder_1b"]
    why = "transformers is not installed here (docs/gpu.md says how to carry it)"
    left_out = {name: why for name in asked if missing and name in NEED_TRANSFORMERS}
    models = [name for name in asked if name not in left_out]
    trained = [options.what or "training"] if options.what != "inference" else []
    cases = [(name, "inference") for name in models if options.what in (None, "inference")]
    cases += [(name, what) for name in (models if options.what else models[:1]) for what in trained]
    calls, rounds = (12, 1) if options.quick else (40, options.rounds)
    return Plan(cases, left_out, options.device, rounds, calls)


def measure(plan: Plan, save: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Run all cases; `save` gets what is known after each of them."""
    found: dict[str, Any] = {
        "version": VERSION,
        "machine": machine_with(plan.device),
        "rounds": plan.rounds,
        "left_out": plan.left_out,
        "problems": [],
        "cases": [],
    }
    for model, what in plan.cases:
        rounds = []
        for number in range(plan.rounds):
            with tempfile.TemporaryDirectory(prefix="warmgraph-gpu-") as folder:
                where = f"{model} {what}, round {number + 1} of {plan.rounds}"
                rounds.append(one_round(model, what, Path(folder), plan, where))
        case = {"model": model, "what": what, "ways": {way: summary(rounds, way, what) for way in WAYS}}
        found["cases"].append(case)
        found["problems"] += problems(case, {name for name, way in WAYS.items() if way.warm})
        save(found)
    return found


def one_round(model: str, what: str, folder: Path, plan: Plan, where: str) -> dict[str, dict[str, Any]]:
    """Way -> what its process printed, or `error`."""
    found = {}
    for name, way in WAYS.items():
        found[name] = run(model, what, name, way, folder, plan)
        said = found[name].get("error") or f"first call {found[name]['first_call'][what]:.2f} s"
        print(f"{where}: {name}: {said}", file=sys.stderr, flush=True)
    return found


def run(model: str, what: str, name: str, way: Way, folder: Path, plan: Plan) -> dict[str, Any]:
    command = [sys.executable, str(WORKER), "--model", model, "--what", what, "--backend", way.backend]
    command += ["--device", plan.device, "--calls", str(plan.calls)]
    command += ["--mode", way.mode] if way.mode else []
    command += ["--tiny"] if plan.device == "cpu" else []
    try:
        process = subprocess.run(
            command, env=environment(name, way, folder), capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return {"error": f"did not end within {TIMEOUT} s"}
    if process.returncode != 0:
        return {"error": f"status {process.returncode}: {told(process.stderr)}"}
    return json.loads(process.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def told(stderr: str) -> str:
    """The line of a traceback that names the exception; else the last one."""
    lines = [line for line in stderr.splitlines() if line.strip()] or ["(silent)"]
    named = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Failed|Backend|Warning): ", line)]
    return (named or lines)[-1][:300]


def environment(name: str, way: Way, folder: Path) -> dict[str, str]:
    ours = ("WARMGRAPH_", "TORCHINDUCTOR_", "TRITON_CACHE")
    found = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    inductor = way.folder if way.backend == "inductor" else None
    found["TORCHINDUCTOR_CACHE_DIR"] = str(
        folder / (inductor or f"nothing-{list(WAYS).index(name)}")
    )  # Triton's is inside
    found["WARMGRAPH_DIR"] = str(folder / (way.folder or "none"))
    found["WARMGRAPH_FRAMES"] = str(int(way.frames))
    found["HF_HUB_OFFLINE"] = "1"
    return found


def summary(rounds: Sequence[dict[str, dict[str, Any]]], way: str, what: str) -> dict[str, Any]:
    """Medians over rounds, in seconds and bytes. first_calls and steady_calls: per round, for ratios within one."""
    runs = [found[way] for found in rounds]
    if error := next((run["error"] for run in runs if "error" in run), None):
        return {"error": error}
    later = [run["later_calls"][what] for run in runs]
    first = [run["first_call"][what] for run in runs]
    steady = [median(calls[5:]) for calls in later]
    found = {
        "first_call": median(first),
        "second_call": median(calls[0] for calls in later),
        "tenth_call": median(calls[8] for calls in later),
        "steady_call": median(steady),
        "first_calls": first,
        "steady_calls": steady,
        "imports": median(run["import_seconds"] for run in runs),
        "tracing": median(run["tracing_seconds"] for run in runs),
        "norms": runs[-1]["norms"][what],
    }
    if "memory" in runs[0]:
        found["memory"] = {name: max(run["memory"][name] for run in runs) for name in runs[0]["memory"]}
    if "stats" in runs[0]:
        stats = [run["stats"] for run in runs]
        phases = {name for one in stats for name in one["seconds"]}
        found["phases"] = {name: median(one["seconds"].get(name, 0.0) for one in stats) for name in sorted(phases)}
        counted = ("hits", "misses", "bypasses", "failures", "skipped", "restored", "traced")
        found["counts"] = {name: stats[-1][name] for name in counted if stats[-1].get(name)}
        found["reasons"] = stats[-1]["reasons"]
    return found


def write(path: Path, found: dict[str, Any]) -> None:
    """By a temporary file: what was measured so far is not lost to an interruption."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_suffix(".part")
    made.write_text(json.dumps(found, indent=1) + "\n")
    made.replace(path)


if __name__ == "__main__":
    sys.exit(main())
