"""Saved-tensors hooks to lines of text: graphs that AOTAutograd inlines, though no node of the main one calls them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from msgspec import Struct
from torch.fx import GraphModule, Node

from ..encoding.encode import Uncacheable, encode
from .graph import GraphText, Resolve
from .symbols import SymbolTable

_DEVICE = re.compile(r"(cpu|cuda|xpu|hip|mps|mtia|hpu)(:\d+)?")


class Hook(Struct, frozen=True):
    """One of the pair that AOTAutograd will inline into this graph.

    role: `pack` or `unpack`. convention: how its arguments and results are taken apart and put together, as a
    plain value (a trace of `unpack((scale, tensor))` has two placeholders, and an order for them).
    """

    role: str
    graph: GraphModule
    convention: Any = None

    def __str__(self) -> str:
        return f"the {self.role} hook of torch.autograd.graph.saved_tensors_hooks"


class _NoSymbols(SymbolTable):
    """A hook was traced apart from the graph: a size that it names is none of this graph's."""

    def text(self, expression: Any) -> str:
        raise Uncacheable(f"the symbolic size {expression} of another trace")


def _no_symbol(symbol: Any) -> Any:
    return None, {}


def hook_lines(hooks: Sequence[Hook], resolve: Resolve) -> list[str]:
    """All that decides what the hooks do. Raises Uncacheable, naming the hook."""
    lines = []
    for hook in hooks:
        text = GraphText(_NoSymbols(_no_symbol), resolve)
        try:
            text.add(hook.graph)
            lines += [f"{hook.role} {encode([hook.convention, _stars(hook.graph)])}:", *text.lines]
        except Uncacheable as bad:
            raise Uncacheable(f"{hook}: {bad}", bad.cause) from None
    return lines


def _stars(gm: GraphModule) -> list[int]:
    """Which placeholders gather several arguments: `pack(*a)` and `pack(a)` have the same nodes."""
    placeholders = [str(node.target) for node in gm.graph.nodes if node.op == "placeholder"]
    return [len(name) - len(name.lstrip("*")) for name in placeholders]


def hook_devices(hooks: Sequence[Hook]) -> set[torch.device]:
    """Devices that the hooks name: an offloading hook computes where the graph does not."""
    found = set()
    for hook in hooks:
        for node in hook.graph.graph.nodes:
            for value in _constants(node):
                if isinstance(value, torch.device):
                    found.add(value)
                elif isinstance(value, str) and _DEVICE.fullmatch(value):
                    found.add(torch.device(value))
    return found


def _constants(node: Node) -> Iterator[Any]:
    waiting: list[Any] = [node.args, node.kwargs]
    if node.op == "call_method":
        waiting.append(node.target)  # `x.cpu()`
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, (tuple, list)):
            waiting += value
        else:
            yield value
