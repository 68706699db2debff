"""The GPU benchmark's one table, and what is wrong with a result. Runs nothing.

python -m benchmarks.gpu_table docs/results/gpu-NAME.json      # as Markdown
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from .table import markdown

# way -> (what its first call is compared with, what its steady call is compared with)
COMPARED = {
    "warmgraph warm": ("inductor warm", "inductor warm"),
    "warmgraph traced": ("inductor warm", None),
    "warmgraph warm, graphs": ("inductor warm, graphs", "inductor warm, graphs"),
    "warmgraph traced, graphs": ("inductor warm, graphs", None),
    "warmgraph_cudagraphs warm": ("inductor warm, graphs", None),
}
FIRST_BUDGET, STEADY_BUDGET = 0.5, 1.02
# Norms of outputs: the same code twice, and the same model computed otherwise (bf16, fused, tf32).
SAME_CODE, SAME_MODEL = 1e-3, 5e-2
_NO_MATTER = {"skipped", "restored", "traced"}  # of what a hit counts
SECONDS = ("hash", "fetch", "load", "compile")
HEAD = ("model", "what", "way", "first", "second", "tenth", "steady", "imports", "tracing", *SECONDS)
RATIOS = ("GiB", "first/torch", "steady/torch", "cache")

Case = dict[str, Any]


def rows(cases: Iterable[Case]) -> list[list[str]]:
    """Header and one row per case and way; a ratio above its budget is marked with `!`."""
    return [[*HEAD, *RATIOS], *[list(cells(case, way)) for case in cases for way in case["ways"]]]


def cells(case: Case, way: str) -> Iterator[str]:
    found = case["ways"][way]
    yield from (case["model"], case["what"], way)
    if "error" in found:
        yield from ("failed", *["-"] * 13)
        return
    yield f"{found['first_call']:.2f} s"
    for name in ("second_call", "tenth_call", "steady_call"):
        yield f"{1000 * found[name]:.2f} ms"
    yield from (f"{found['imports']:.2f}", f"{found['tracing']:.2f}")
    phases = found.get("phases", {})
    for name in SECONDS:
        yield f"{phases[name]:.3f}" if name in phases else "-"
    yield f"{found['memory']['reserved'] / 2**30:.2f}" if "memory" in found else "-"
    first, steady = COMPARED.get(way, (None, None))
    yield marked(paired(case, way, first, "first_calls"), FIRST_BUDGET)
    yield marked(paired(case, way, steady, "steady_calls"), STEADY_BUDGET)
    yield ", ".join(f"{number} {name}" for name, number in found.get("counts", {}).items()) or "-"


def marked(ratio: float | None, budget: float) -> str:
    return "-" if ratio is None else f"{ratio:.3f}{' !' if ratio > budget else ''}"


def paired(case: Case, way: str, other: str | None, what: str) -> float | None:
    """The median over rounds of the ratio of two ways: what slows a whole round down cancels out."""
    if other is None or "error" in case["ways"][way] or "error" in case["ways"].get(other, {"error": ""}):
        return None
    return median(a / b for a, b in zip(case["ways"][way][what], case["ways"][other][what], strict=True))


def problems(case: Case, warm: Iterable[str]) -> list[str]:
    """One line for each way that failed, found no entry when it should, or computed something else."""
    found = []
    eager = case["ways"].get("eager", {})
    for way, one in case["ways"].items():
        where = f"{case['model']} {case['what']}, {way}"
        if "error" in one:
            found.append(f"{where}: {one['error']}")
            continue
        counts = one.get("counts")
        if way in warm and counts is not None and set(counts) - _NO_MATTER != {"hits"}:
            reasons = ", ".join(one.get("reasons", {})) or "no reason"
            found.append(f"{where}: not a hit alone, but {counts or 'nothing compiled'} ({reasons})")
        if "error" not in eager and apart(one, eager) > SAME_MODEL:
            found.append(f"{where}: outputs are not eager's: norms {one['norms']} and {eager['norms']}")
        cold = case["ways"].get(way.replace(" warm", " cold").replace(" traced", " cold"))
        if way in warm and cold is not None and "error" not in cold and apart(one, cold) > SAME_CODE:
            found.append(f"{where}: outputs are not the cold run's: norms {one['norms']} and {cold['norms']}")
    return found


def apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest relative difference between the norms of two runs' outputs; infinite where their number differs."""
    if len(one["norms"]) != len(other["norms"]):
        return float("inf")
    return max((relative(a, b) for a, b in zip(one["norms"], other["norms"], strict=True)), default=0.0)


def relative(a: float, b: float) -> float:
    """Infinite where one is no number."""
    if a == b:
        return 0.0
    found = abs(a - b) / max(abs(a), abs(b))
    return float("inf") if math.isnan(found) else found


if __name__ == "__main__":
    result = json.loads(Path(sys.argv[1]).read_text())
    print(markdown(rows(result.get("benchmark", result)["cases"])))
