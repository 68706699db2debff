"""Graphs of many kinds, and the keys they once had in `golden.json`, which this writes and `test_golden.py` reads.

    python tests/keys/golden.py            write golden.json (refused while a key changed and KEY_VERSION did not)
    python tests/keys/golden.py --print    the digests of this process, as JSON

Only the parts that depend on neither the machine nor the torch build: graph, inputs, symbols, hooks.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from warmgraph.backend.key.context import key_context
from warmgraph.hashing import KEY_VERSION, Key, key_of

FILE = Path(__file__).with_name("golden.json")
PARTS = ("graph", "inputs", "symbols", "hooks")
TORCH = ".".join(torch.__version__.split(".")[:2])
COMMAND = "python tests/keys/golden.py"

Build = Callable[[], tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]
CASES: dict[str, Build] = {}


def case(build: Build) -> Build:
    """Registers a builder of (function, arguments, options of torch.compile; `around`: a context to call it in)."""
    CASES[build.__name__] = build
    return build


def _x(*size: int, **options: Any) -> torch.Tensor:
    return torch.ones(*(size or (3, 4)), **options)


@case
def pointwise():
    return lambda x: (x.sin() + 1).tanh(), (_x(),), {}


@case
def keywords():
    return lambda x, y: torch.sub(torch.relu(x), y, alpha=3), (_x(), _x()), {}


@case
def arguments_swapped():
    return lambda x, y: torch.sub(y, torch.relu(x), alpha=3), (_x(), _x()), {}


@case
def linear_and_norm():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.LayerNorm(4))
    return model, (_x(),), {}


@case
def convolution_with_buffers():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4)), (_x(1, 3, 8, 8),), {}


@case
def indexing_by_slices():
    return lambda x: x[:, 1:3] + x[..., None, 0, :2].sum() + x[::2].sum(), (_x(),), {}


@case
def constants_of_many_types():
    def f(x):
        return x.to(torch.float16).clamp(-0.5, 2).sum(dim=[0, -1], keepdim=True, dtype=torch.float64) * (1 + 2j)

    return f, (_x(),), {}


@case
def a_tensor_made_in_the_graph():
    return lambda x: x + torch.full((4,), 1.5) + torch.tensor([1.0, 2.0, 3.0, 4.0]), (_x(),), {}


@case
def views_and_transposes():
    return lambda x: x.t().reshape(2, 6).permute(1, 0).contiguous().view(-1), (_x(),), {}


@case
def mutated_input():
    return lambda x, y: (x.add_(1).mul_(y), x * 2)[1], (_x(), _x()), {}


@case
def inputs_of_one_storage():
    base = torch.arange(24.0)
    return lambda x, y: x.add_(1) + y, (base[:8], base[4:12]), {}


@case
def strided_and_offset_inputs():
    base = torch.arange(48.0).reshape(6, 8)
    return lambda x, y: x + y, (base[1:4, ::2], base.t()[2:5, :4]), {}


@case
def gradients():
    return lambda x, y: (x @ y.t()).softmax(-1), (_x(requires_grad=True), torch.nn.Parameter(_x())), {}


@case
def half_precision_and_integers():
    return lambda x, i: x[i] * 2, (_x(dtype=torch.bfloat16), torch.tensor([2, 0, 1])), {}


@case
def complex_inputs():
    return lambda x: (x * x.conj()).real, (_x(dtype=torch.cfloat),), {}


@case
def all_dynamic():
    return lambda x, y: (x * y.shape[0]).sum() + y[1:], (_x(5, 4), _x(5, 4)), {"dynamic": True}


@case
def two_dynamic_sizes():
    def f(x, y):
        return torch.cat([x, y]).reshape(-1, 2)[: x.shape[0] + 2 * y.shape[0] - 1]

    x, y = _x(5, 4), _x(7, 4)
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.mark_dynamic(y, 0)
    return f, (x, y), {}


@case
def a_dynamic_integer():
    return lambda x, n: x[:n] * n, (_x(6), 3), {"dynamic": True}


@case
def a_float_input():
    return lambda x, s: x * s, (_x(), 0.5), {"dynamic": True}


@case
def an_integer_that_is_constant():
    return lambda x, n: x * n, (_x(), 3), {"dynamic": False}


@case
def nested_cond():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() * 2, (x,))

    return f, (_x(),), {}


@case
def nested_checkpoint():
    def f(x):
        inner = torch.utils.checkpoint.checkpoint(lambda a: a.sin().cos(), x, use_reentrant=False)
        return inner * 2

    return f, (_x(requires_grad=True),), {}


@case
def autograd_function():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    return Double.apply, (_x(requires_grad=True),), {}


@case
def saved_tensors_hooks():
    pack = torch.fx.symbolic_trace(lambda x: x.to(torch.bfloat16))
    unpack = torch.fx.symbolic_trace(lambda x: x.to(torch.float32))

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, unpack)
    return lambda x: x.sin().exp(), (_x(requires_grad=True),), {"around": hooks}


@case
def nested_jagged_subclass():
    values = torch.nested.nested_tensor([_x(2, 4), _x(3, 4)], layout=torch.jagged)
    return lambda x: x.sin() * 2, (values,), {}


@case
def autocast_inside():
    def f(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ y.t()

    return f, (_x(), _x()), {}


@case
def random_numbers():
    return lambda x: torch.nn.functional.dropout(x, 0.3) + torch.rand_like(x), (_x(),), {}


@dataclass(frozen=True, slots=True)
class Golden:
    """Digests and texts, by case, graph and part."""

    digests: dict[str, list[dict[str, str]]]
    texts: dict[str, list[dict[str, str]]]


def recomputed() -> Golden:
    """Every case traced by Dynamo and keyed, now."""
    digests, texts = {}, {}
    for name, build in CASES.items():
        keys = _keys(*build())
        digests[name] = [{part: key.digests()[part][:16] for part in PARTS} for key in keys]
        texts[name] = [{part: key.texts()[part] for part in PARTS} for key in keys]
    return Golden(digests, texts)


def _keys(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> list[Key]:
    torch._dynamo.reset()
    found: list[Key] = []

    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        found.append(key_of(gm, inputs, key_context(gm, inputs, "warmgraph")))
        return gm.forward

    around = options.pop("around", contextlib.nullcontext())
    with around:
        torch.compile(function, backend=backend, **options)(*arguments)
    return found


def main(arguments: list[str]) -> int:
    now = recomputed()
    if arguments == ["--print"]:
        print(json.dumps({"digests": now.digests, "texts": now.texts}))
        return 0
    old = json.loads(FILE.read_text()) if FILE.exists() else None
    if old is not None and old["key_version"] == KEY_VERSION and old["torch"] == TORCH:
        moved = [name for name, digests in old["keys"].items() if now.digests.get(name) != digests]
        if moved:
            print(
                f"{FILE.name} is not written: {', '.join(moved)} would have another key under the same KEY_VERSION "
                f"({KEY_VERSION}). Raise KEY_VERSION in hashing/key.py, then run `{COMMAND}` again.",
                file=sys.stderr,
            )
            return 1
    FILE.write_text(json.dumps({"key_version": KEY_VERSION, "torch": TORCH, "keys": now.digests}, indent=1) + "\n")
    print(f"{FILE.name}: {len(now.digests)} graphs, key version {KEY_VERSION}, torch {TORCH}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
