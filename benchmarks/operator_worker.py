"""One fresh process: operators compiled by warmgraph and timed beside eager. Prints a JSON line for each.

Run by `benchmarks.operators`, twice a round: on an empty store (cold), then on the store that this left (warm).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch
from operator_table import OPERATORS, Make, Operator
from warmgraph.backend.cudagraphs.microbench import interleaved, prepare, seconds_per_call

import warmgraph

SIDES = {"cpu": 256, "cuda": 2048}
COUNTED = ("hits", "misses", "bypasses", "failures")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=SIDES)
    parser.add_argument("--dtypes", nargs="+", required=True)
    parser.add_argument("--ops", default="", help="a regular expression, searched in names")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--turns", type=int, default=5, help="how often eager and compiled take turns")
    parser.add_argument("--batch", type=float, default=0.01, help="seconds that one turn should take")
    options = parser.parse_args(argv)
    imports_done(options.device)
    for name, operator in OPERATORS.items():
        for dtype in options.dtypes:
            if re.search(options.ops, name) and re.fullmatch(operator.dtypes, dtype):
                print(json.dumps({"op": name, "dtype": dtype, **timed(operator, dtype, options)}), flush=True)
    warmgraph.flush()
    return 0


def imports_done(device: str) -> None:
    """What the first compile or load of a process imports and starts is nobody's first call."""
    torch.compile(lambda x: x.sin() + 1, backend="warmgraph")(torch.ones(8, device=device))


def timed(operator: Operator, dtype: str, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of the first call and per later call. What an operator raises is its result, and no other's concern."""
    torch.manual_seed(0)
    torch.compiler.reset()
    try:
        with torch.no_grad():
            return first_and_later(operator, dtype, options)
    except Exception as error:  # noqa: BLE001 - one operator that this device lacks must not end the list
        return {"error": f"{type(error).__name__}: {error}".split("\n")[0][:300]}


def first_and_later(operator: Operator, dtype: str, options: argparse.Namespace) -> dict[str, Any]:
    inputs = operator.inputs(Make(getattr(torch, dtype), options.device, SIDES[options.device]))

    def call(*given: Any) -> Any:
        return operator.run(*given)

    compiled = torch.compile(call, backend="warmgraph", dynamic=False)
    # Copies would be timed, too; an operator that writes to its inputs takes as long on what it wrote before.
    asked = {"copy_inputs": False, "copy_outputs": False, "channels_last": options.channels_last}
    ways = {"eager": prepare(call, inputs, **asked)}
    before = warmgraph.stats()
    first = first_call(compiled, ways["eager"].inputs, options.device)
    after = warmgraph.stats()
    ways["compiled"] = prepare(compiled, ways["eager"].inputs, **asked)
    calls = max(1, min(1000, int(options.batch / max(seconds_per_call(ways["eager"], 2), 1e-6))))
    seconds = {name: median(found) for name, found in interleaved(ways, rounds=options.turns, calls=calls).items()}
    counts = {name: after[name] - before[name] for name in COUNTED if after[name] != before[name]}
    how = {name: way.how for name, way in ways.items()}
    return {"first": first, **seconds, "counts": counts, "how": how, "why": ways["compiled"].why}


def first_call(compiled: Callable[..., Any], inputs: Sequence[torch.Tensor], device: str) -> float:
    """Seconds, with what the device still does of it."""
    begin = time.perf_counter()
    compiled(*inputs)
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())
