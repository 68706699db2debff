"""How long a key takes beside torch's own: on the benchmark's models, and as graphs grow. It must grow linearly.

    python -m benchmarks.hash_speed

Both keys are taken of the same graph, inside the same compile, in turn; medians. Once-per-process work (torch's hash
of its sources, ours of its file list) is done before. Writes benchmarks/results/hash_speed.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch._functorch._aot_autograd.autograd_cache import autograd_cache_key
from torch._functorch.aot_autograd import prepare_aot_module_simplified
from torch.fx import Graph, GraphModule
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from warmgraph.backend.key.context import key_context
from warmgraph.hashing import key_of

from .models import MODELS, make
from .warm_start import RESULTS, machine

SIZES = (100, 300, 1000, 3000, 10_000, 20_000)


def graph_of(nodes: int) -> tuple[GraphModule, list[Any]]:
    """A graph of `nodes` nodes as Dynamo makes them: parameters, calls with constants, reused values."""
    graph = Graph()
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
    return GraphModule(torch.nn.Module(), graph), inputs


def both(gm: GraphModule, inputs: Sequence[Any], rounds: int) -> dict[str, Any]:
    """Median seconds of our key and of torch's, taken in turn."""
    prepared = prepare_aot_module_simplified(
        gm, inputs, None, None, keep_inference_input_mutations=True, ignore_shape_env=False, flatten=False
    )
    fakes, config = prepared[4], prepared[6]
    ways: dict[str, Callable[[], Any]] = {
        "seconds": lambda: key_of(gm, inputs, key_context(gm, inputs, "warmgraph")),
        "torch_seconds": lambda: autograd_cache_key(gm, fakes, config),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    for _ in range(rounds):
        for name, way in ways.items():
            begin = time.perf_counter()
            way()
            found[name].append(time.perf_counter() - begin)
    nodes = sum(len(m.graph.nodes) for m in gm.modules() if isinstance(m, GraphModule))
    return {"nodes": nodes, **{name: median(taken) for name, taken in found.items()}}


def by_size(rounds: int) -> list[dict[str, Any]]:
    rows = []
    context = torch._guards.TracingContext(torch._subclasses.FakeTensorMode(shape_env=ShapeEnv()))
    with torch._guards.tracing(context):
        for nodes in SIZES:
            rows.append(both(*graph_of(nodes), rounds))
            show("", rows[-1])
    return rows


def by_model(rounds: int) -> list[dict[str, Any]]:
    """Every model of the benchmark, inference and training, at its full size; Dynamo traces it, nothing is compiled."""
    rows = []
    for name in MODELS:
        for training in (False, True):
            graphs: list[dict[str, Any]] = []

            def backend(gm: GraphModule, inputs: Sequence[Any], graphs: list[dict[str, Any]] = graphs) -> Any:
                graphs.append(both(gm, inputs, rounds))
                return gm.forward

            torch._dynamo.reset()
            case = make(name, tiny=False)
            case.model.train(training)
            with torch.set_grad_enabled(training):
                torch.compile(case.model, backend=backend)(**case.inputs)
            total = {field: sum(graph[field] for graph in graphs) for field in graphs[0]}
            rows.append({"model": name, "what": "training" if training else "inference", **total})
            show(f"{name} {rows[-1]['what']}", rows[-1])
    return rows


def show(name: str, row: dict[str, Any]) -> None:
    ours, theirs = row["seconds"] * 1e3, row["torch_seconds"] * 1e3
    each = ours / row["nodes"] * 1e3
    print(f"{name:<18} {row['nodes']:>7} {ours:>9.2f} ms {each:>8.2f} us {theirs:>9.2f} ms {ours / theirs:>7.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=RESULTS / "hash_speed.json")
    options = parser.parse_args()
    print(f"{'':<18} {'nodes':>7} {'warmgraph':>12} {'per node':>11} {'torch':>12} {'ratio':>7}")
    models = by_model(options.rounds)
    rows = by_size(options.rounds)
    growth = (rows[-1]["seconds"] / rows[-1]["nodes"]) / (rows[1]["seconds"] / rows[1]["nodes"])
    print(f"per node at {rows[-1]['nodes']} / at {rows[1]['nodes']}: {growth:.2f} (linear: about 1, or less)")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    found = {"machine": machine(), "rounds": options.rounds, "models": models, "rows": rows, "growth": growth}
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
