"""The budget table of DESIGN.md, filled in from one run of `benchmarks.warm_start`.

python -m benchmarks.table benchmarks/results/warm_start.json      # as Markdown
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

Case = dict[str, Any]


def first(case: Case, way: str) -> float | None:
    found = case["ways"].get(way)
    return found["first_call"] if found else None


def spent(case: Case) -> float | None:
    """Seconds that a hit from Redis spent in the backend: hash, fetch, load."""
    found = case["ways"].get("traced_redis")
    return sum(found["phases"].values()) if found else None


def ratio(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else one / other


def paired(case: Case, one: str, other: str) -> float | None:
    """The median over rounds of the ratio of two first calls: what slows a whole round down cancels out."""
    pairs = [case["ways"].get(way, {}).get("first_calls", []) for way in (one, other)]
    return median(a / b for a, b in zip(*pairs, strict=True)) if all(pairs) else None


def steady(case: Case) -> float | None:
    """The median over rounds, as `paired`."""
    pairs = [case["ways"].get(way, {}).get("steady_calls", []) for way in ("warm_local", "traced_local")]
    return median(a / b for a, b in zip(*pairs, strict=True)) if all(pairs) else None


def redis_backend(case: Case) -> float | None:
    """Seconds in the backend with torch's Redis cache: its first call less what is not backend in ours."""
    found, warm, ours = first(case, "torch_redis"), first(case, "traced_redis"), spent(case)
    return None if found is None or warm is None or ours is None else found - (warm - ours)


BUDGETS: list[tuple[str, float, Callable[[Case], float | None]]] = [
    (
        "backend on a hit from Redis / cold compile",
        0.01,
        lambda c: ratio(spent(c), c["ways"]["cold_warmgraph"]["compile"]),
    ),
    ("backend on a hit from Redis / with torch's Redis cache", 1 / 50, lambda c: ratio(spent(c), redis_backend(c))),
    (
        "first call, restored / traced",
        1 / 4,
        lambda c: paired(c, "warm_local", "traced_local"),
    ),
    (
        "first call, fresh host / torch's Redis cache",
        1 / 30,
        lambda c: ratio(first(c, "warm_redis"), first(c, "torch_redis")),
    ),
    (
        "first call, same host / torch's local cache",
        1 / 6,
        lambda c: ratio(first(c, "warm_local"), first(c, "torch_local")),
    ),
    ("cold with Redis configured / without any cache", 1.02, lambda c: paired(c, "cold_warmgraph", "cold")),
    (
        "steady-state call / Inductor's",
        1.02,
        lambda c: ratio(c["ways"]["warm_local"]["steady_call"], c["ways"]["torch_local"]["steady_call"]),
    ),
    ("steady-state call, restored / traced", 1.01, steady),
    ("first call, fresh host / cold", 1.0, lambda c: ratio(first(c, "warm_redis"), first(c, "cold"))),
]


def budget_rows(cases: list[Case]) -> list[list[str]]:
    """Header and rows: what, budget, one column per case; a ratio above its budget is marked with `!`."""
    for case in cases:
        phases = case["ways"].get("cold_warmgraph", {}).get("phases", {})
        case["ways"].get("cold_warmgraph", {})["compile"] = phases.get("compile", 0.0)
    rows = [["ratio of seconds", "budget", *[f"{case['model']} {case['what']}" for case in cases]]]
    for what, budget, measure in BUDGETS:
        shown = []
        for case in cases:
            value = measure(case)
            shown.append("-" if value is None else f"{value:.4f}{' !' if value > budget else ''}")
        rows.append([what, f"{budget:.3f}", *shown])
    for way in cases[0]["ways"]:
        shown = [f"{value:.2f} s" if (value := first(case, way)) is not None else "-" for case in cases]
        rows.append([f"first call: {way}", "", *shown])
    return rows


def print_rows(rows: list[list[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def markdown(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


if __name__ == "__main__":
    print(markdown(budget_rows(json.loads(Path(sys.argv[1]).read_text())["cases"])))
