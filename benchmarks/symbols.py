"""Are keys stable under PGO? How often torch's rule renames a symbol that stays, how often slots do, and real misses.

    python -m benchmarks.symbols                 # about 10 minutes on two cores

First a simulation: random source names, some kept and some that a profile allocates as well; a symbol that stays is
renamed if its name differs between the two. torch's names come from its own ShapeEnv, ours from `hashing.symbols`.
Then the reproduction of pytorch#149665 (see `pgo_worker`) in fresh processes: one learns the sizes, another makes its
first call. torch has a `job_id`, as it needs one; warmgraph runs once with torch's profile, which tests the slots
alone, and once with its own, in another folder. A miss is a graph that the second process compiled.
Writes benchmarks/results/symbols.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import string
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import sympy
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from warmgraph.hashing.parts.symbols import SymbolTable

from .warm_start import RESULTS, machine

WORKER = Path(__file__).with_name("pgo_worker.py")
SIZES = ((2, 3), (6, 6), (8, 8), (12, 12), (16, 16), (32, 32))
REAL_SIZES = ((2, 3), (6, 6), (12, 12), (32, 32))


def torch_names(sources: list[str]) -> dict[str, str]:
    """By source, what torch calls its symbol when these are allocated in this order."""
    env = ShapeEnv()
    return {source: f"s{env._generate_unique_id(source)}" for source in sources}


def slots(names: dict[str, str], kept: list[str]) -> dict[str, str]:
    """By source, the slot of each symbol of a graph that uses the kept ones, whatever they are called."""
    sources = {name: source for source, name in names.items()}
    table = SymbolTable(lambda symbol: (sources[str(symbol)], {}))
    table.use([sympy.Symbol(names[source], integer=True) for source in kept])
    return {source: table.slots[names[source]] for source in kept}


def simulate(kept: int, extra: int, trials: int, seed: int = 0) -> dict[str, Any]:
    """In how many of `trials` random sets of sources a symbol that stays has another name (slot) with extra ones."""
    rng = random.Random(f"{seed} {kept} {extra}")
    renamed = moved = 0
    for _ in range(trials):
        names: set[str] = set()
        while len(names) < kept + extra:
            names.add("".join(rng.choices(string.ascii_lowercase, k=rng.randint(1, 8))))
        everything = [f"L['{name}'].size()[{rng.randint(0, 3)}]" for name in sorted(names)]
        rng.shuffle(everything)
        stay = set(rng.sample(everything, kept))
        alone = [source for source in everything if source in stay]
        few, many = torch_names(alone), torch_names(everything)
        renamed += any(few[source] != many[source] for source in alone)
        moved += slots(few, alone) != slots(many, alone)
    return {"kept": kept, "extra": extra, "sets": trials, "torch_renames": renamed, "slots_move": moved}


def run(backend: str, folder: Path, calls: str, cases: list[Any], **extra: str) -> list[dict[str, Any]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("WARMGRAPH_", "TORCH"))}
    process = subprocess.run(
        [sys.executable, str(WORKER), backend, str(folder), calls, json.dumps(cases)],
        env=environment | {"WARMGRAPH_STRICT": "1"} | extra,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    if process.returncode != 0:
        raise RuntimeError(process.stderr[-4000:])
    found: list[dict[str, Any]] = json.loads(process.stdout.strip().splitlines()[-1])
    return found


def reproduce(kept: int, extra: int, seeds: int, place: Path) -> dict[str, Any]:
    """Misses of a second process's first call, over shuffles: torch, warmgraph with torch's profile, with its own."""
    cases = [[kept, extra, seed] for seed in range(seeds)]
    row: dict[str, Any] = {"kept": kept, "extra": extra, "shuffles": seeds}
    ways: dict[str, tuple[str, dict[str, str]]] = {
        "torch": ("inductor", {"TORCH_COMPILE_JOB_ID": "job"}),
        "slots": ("warmgraph", {"TORCH_COMPILE_JOB_ID": "job", "WARMGRAPH_PGO": "0"}),
        "profiles": ("warmgraph", {}),
    }
    for way, (backend, settings) in ways.items():
        folder = place / way
        shared = settings | {
            "WARMGRAPH_DIR": str(folder / "store"),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        }
        run(backend, folder / "first", "ABC", cases, **shared)
        # torch finds its profile by the file's bytes and ours by the code's: the second process has another folder.
        rows = run(backend, folder / "second", "B", cases, **shared)
        row[f"{way}_misses"] = sum(one["misses"] > 0 for one in rows)
        row[f"{way}_agree"] = all(one["agree"] for one in rows)
        if backend == "inductor":
            row["torch_inductor_misses"] = sum(one["compiled"] > 0 for one in rows)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=10_000, help="random sets of sources of each size")
    parser.add_argument("--shuffles", type=int, default=6)
    parser.add_argument("--out", type=Path, default=RESULTS / "symbols.json")
    options = parser.parse_args()
    simulated = []
    for kept, extra in SIZES:
        simulated.append(simulate(kept, extra, options.sets))
        one = simulated[-1]
        print(
            f"{kept:>2}+{extra:<2} torch renames in {one['torch_renames']} of {one['sets']}; slots {one['slots_move']}"
        )
    real = []
    with tempfile.TemporaryDirectory() as name:
        for kept, extra in REAL_SIZES:
            real.append(reproduce(kept, extra, options.shuffles, Path(name) / f"{kept}-{extra}"))
            print(json.dumps(real[-1]))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"machine": machine(), "simulated": simulated, "real": real}, indent=1) + "\n")
    return 0 if all(row["slots_misses"] == row["profiles_misses"] == 0 for row in real) else 1


if __name__ == "__main__":
    sys.exit(main())
