"""How long a key takes against the size of the graph, beside torch's own key. It must grow linearly.

python -m benchmarks.hash_speed
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCacheDetails, AOTAutogradCachePickler
from torch._inductor.utils import BoxedBool
from warmgraph.backend.surroundings import surroundings
from warmgraph.hashing import key_of

from .warm_start import RESULTS, machine

SIZES = (100, 300, 1000, 3000, 10_000, 20_000)


def graph_of(nodes: int) -> tuple[torch.fx.GraphModule, list[Any]]:
    """A graph of `nodes` nodes as Dynamo makes them: parameters, calls with constants, reused values."""
    graph = torch.fx.Graph()
    inputs = [torch.ones(4, 4), *[torch.nn.Parameter(torch.ones(4, 4)) for _ in range(nodes // 10)]]
    values = []
    for number, value in enumerate(inputs):
        node = graph.placeholder(f"p{number}")
        node.meta["example_value"] = value
        values.append(node)
    calls = (torch.add, torch.mul, torch.nn.functional.gelu, torch.sub)
    while len(values) < nodes - 1:
        call = calls[len(values) % 4]
        left, right = values[-1], values[len(values) * 7 % len(values) // 2]
        arguments = (left,) if call is calls[2] else (left, right)
        node = graph.call_function(call, arguments, {"alpha": 3} if call is torch.sub else {})
        node.meta["example_value"] = inputs[0]
        values.append(node)
    graph.output((values[-1],))
    return torch.fx.GraphModule(torch.nn.Module(), graph), inputs


def torch_key(gm: torch.fx.GraphModule, inputs: list[Any]) -> None:
    """What torch's AOTAutograd cache does for its key: collect the details, pickle them, hash them."""
    details = AOTAutogradCacheDetails.__new__(AOTAutogradCacheDetails)
    details.aot_config = None
    details._record_runtime_state(gm)
    details._init_fx_graph_hash_details(gm, inputs, {"cudagraphs": BoxedBool(False)})
    AOTAutogradCachePickler(gm).get_hash(details)


def seconds(function: Any, rounds: int) -> float:
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        function()
        found.append(time.perf_counter() - begin)
    return median(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS / "hash_speed.json")
    options = parser.parse_args()
    rows = []
    print(f"{'nodes':>8} {'warmgraph':>12} {'per node':>12} {'torch':>12} {'ratio':>8}")
    context = torch._guards.TracingContext(torch._subclasses.FakeTensorMode(shape_env=_shape_env()))
    with torch._guards.tracing(context), functorch_config.patch(bundled_autograd_cache=False):
        for nodes in SIZES:
            gm, inputs = graph_of(nodes)
            ours = seconds(lambda g=gm, i=inputs: key_of(g, i, surroundings(g, i, "warmgraph")), options.rounds)
            theirs = seconds(lambda g=gm, i=inputs: torch_key(g, i), options.rounds)
            rows.append({"nodes": nodes, "seconds": ours, "torch_seconds": theirs})
            each = ours / nodes * 1e6
            print(f"{nodes:>8} {ours * 1e3:>9.2f} ms {each:>9.2f} us {theirs * 1e3:>9.2f} ms {ours / theirs:>8.2f}")
    growth = (rows[-1]["seconds"] / rows[-1]["nodes"]) / (rows[1]["seconds"] / rows[1]["nodes"])
    print(f"per node at {rows[-1]['nodes']} / at {rows[1]['nodes']}: {growth:.2f} (linear: about 1, or less)")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    found = {"machine": machine(), "rounds": options.rounds, "rows": rows, "growth": growth}
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def _shape_env() -> Any:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    return ShapeEnv()


if __name__ == "__main__":
    sys.exit(main())
