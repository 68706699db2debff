"""Run from an empty environment: is the installed wheel whole, and does it keep to its own name?"""

import importlib
import importlib.metadata
import sys

names = {entry.name for entry in importlib.metadata.entry_points(group="torch_dynamo_backends")}
if "warmgraph" not in names:
    sys.exit(f"the entry point is missing; found {sorted(names)}")

for name in ("hashing", "cache", "backend", "scripts", "tests", "benchmarks"):
    try:
        found = importlib.import_module(name)
    except ImportError:
        continue
    sys.exit(f"`import {name}` works ({found.__file__}); the wheel must not take top-level names")

from warmgraph.scripts.page import render  # noqa: E402

if "<h1" not in render({}):
    sys.exit("the page's files are not in the wheel")

import torch  # noqa: E402

import warmgraph  # noqa: E402


@torch.compile(backend="warmgraph")
def f(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).sin()


x = torch.arange(8.0)
if not torch.allclose(f(x), (x * 2).sin()):
    sys.exit("a compiled function is wrong")
counts = warmgraph.stats()
if counts["misses"] != 1 or counts["failures"]:
    sys.exit(f"expected one miss and no failure: {counts}")
print("wheel: entry point found, names kept, one graph compiled")
