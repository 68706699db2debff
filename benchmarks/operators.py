"""Single operators: the first call cold and warm, later calls eager, cold and warm. Fresh processes.

    python -m benchmarks.operators --ops 'softmax|^mm$' --dtypes float32 bfloat16
    python -m benchmarks.operators --device cuda --rounds 5

A round is a process on an empty store (cold), then one on the store that it left (warm); in each, eager and compiled
take turns. Medians over rounds; ratios are taken within a round. On a GPU all are replayed from a CUDA graph, so that
launches do not count; what cannot be recorded is timed as it is and says why. No operator is left out for having a
fallback. On a CPU with one thread. Writes benchmarks/results/operators.json after each round.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from .machines import machine_with
from .table import print_rows
from .warm_start import RESULTS

WORKER = Path(__file__).with_name("operator_worker.py")
VERSION = 1  # of the JSON


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    rounds: list[dict[str, dict[str, Any]]] = []
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="warmgraph-operators-") as folder:
            rounds.append({way: run(way, Path(folder), number, options) for way in ("cold", "warm")})
        found = {
            "version": VERSION,
            "machine": machine_with(options.device),
            "rounds": number + 1,
            "channels_last": options.channels_last,
            "operators": summary(rounds),
        }
        write(options.out, found)
    if not found["operators"]:
        print(f"no operator is called {options.ops!r} and takes {', '.join(options.dtypes)}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(found))
    else:
        print_rows(rows(found["operators"]))
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--ops", default="", metavar="REGEX", help="only operators whose names have a match")
    parser.add_argument("--dtypes", nargs="+", default=["float32"], metavar="DTYPE", help="e.g. float32 bfloat16")
    parser.add_argument("--channels-last", action="store_true", help="images laid out so")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print what is written instead of a table")
    parser.add_argument("--out", type=Path, default=RESULTS / "operators.json")
    options = parser.parse_args(argv)
    try:
        re.compile(options.ops)
    except re.error as error:
        parser.error(f"--ops: {options.ops!r} is no regular expression: {error}")
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    return options


def run(way: str, folder: Path, number: int, options: argparse.Namespace) -> dict[str, Any]:
    """One process over all operators; "name dtype" -> what it printed. Exits when the process fails."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("WARMGRAPH_", "TORCHINDUCTOR_"))}
    environment["WARMGRAPH_DIR"] = str(folder / "store")
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(folder / f"inductor-{way}")
    if options.device == "cpu":
        environment["OMP_NUM_THREADS"] = "1"
    command = [sys.executable, str(WORKER), "--device", options.device, "--ops", options.ops]
    if options.channels_last:
        command.append("--channels-last")
    found = {}
    with subprocess.Popen(
        [*command, "--dtypes", *options.dtypes], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for one in map(json.loads, process.stdout):
            name = f"{one['op']} {one['dtype']}"
            found[name] = one
            said = one.get("error") or f"first call {one['first']:.3f} s"
            print(f"round {number + 1} of {options.rounds}, {way}: {name}: {said}", file=sys.stderr, flush=True)
    if process.returncode != 0:
        sys.exit(f"the {way} process ended with status {process.returncode}")
    return found


def summary(rounds: list[dict[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """One row per operator and dtype; seconds and ratios are medians over the rounds that have both ways."""
    return [summarised([(found["cold"][name], found["warm"][name]) for found in rounds]) for name in rounds[0]["cold"]]


def summarised(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    cold, warm = pairs[-1]
    row = {"op": cold["op"], "dtype": cold["dtype"]}
    if error := next((one["error"] for pair in pairs for one in pair if "error" in one), None):
        return row | {"error": error}
    return row | {
        "outcomes": [outcome(cold), outcome(warm)],
        "how": warm["how"],
        "why": warm["why"],
        "first_cold": median(c["first"] for c, _ in pairs),
        "first_warm": median(w["first"] for _, w in pairs),
        "eager": median(w["eager"] for _, w in pairs),
        "cold": median(c["compiled"] for c, _ in pairs),
        "warm": median(w["compiled"] for _, w in pairs),
        "first_warm_to_cold": median(w["first"] / c["first"] for c, w in pairs),
        "cold_to_eager": median(c["compiled"] / c["eager"] for c, _ in pairs),
        "warm_to_eager": median(w["compiled"] / w["eager"] for _, w in pairs),
    }


def outcome(one: dict[str, Any]) -> str:
    """`hits`, `misses`, ...; `no graph` where Dynamo leaves it to eager (a size that depends on data)."""
    return ", ".join(one["counts"]) or "no graph"


def rows(operators: list[dict[str, Any]]) -> list[list[str]]:
    head = "operator,dtype,outcomes,first cold,first warm,warm/cold,eager us,cold/eager,warm/eager,timed as"
    return [head.split(","), *[list(cells(one)) for one in operators]]


def cells(one: dict[str, Any]) -> Iterator[str]:
    yield from (one["op"], one["dtype"])
    if "error" in one:
        yield from (one["error"][:60], *["-"] * 7)
        return
    yield "/".join(one["outcomes"])
    yield from (f"{one['first_cold']:.3f} s", f"{one['first_warm']:.3f} s", f"{one['first_warm_to_cold']:.3f}")
    yield from (f"{one['eager'] * 1e6:.1f}", f"{one['cold_to_eager']:.2f}", f"{one['warm_to_eager']:.2f}")
    yield "/".join(dict.fromkeys(one["how"].values()))


def write(path: Path, found: dict[str, Any]) -> None:
    """By a temporary file: what an earlier round wrote is not lost to an interruption."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_suffix(".part")
    # One line per operator: a diff of two results can be read.
    lines = ",\n".join("  " + json.dumps(one) for one in found["operators"])
    head = json.dumps({name: value for name, value in found.items() if name != "operators"}, indent=1)
    made.write_text(f'{head[:-2]},\n "operators": [\n{lines}\n ]\n}}\n')
    made.replace(path)


if __name__ == "__main__":
    sys.exit(main())
