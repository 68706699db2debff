"""Both keys of every graph that Dynamo makes of one call: ours, and torch's own. Compiles nothing, judges nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import torch
from torch._functorch._aot_autograd.autograd_cache import (
    BypassAOTAutogradCache,
    autograd_cache_key,
    sanitize_gm_for_cache,
)
from torch._functorch.aot_autograd import prepare_aot_module_simplified
from torch._inductor.codecache import BypassFxGraphCache
from torch._inductor.utils import BoxedBool
from torch.fx import Graph, GraphModule, Node
from warmgraph.backend.key.compiler_settings import patched_settings
from warmgraph.backend.key.context import key_context
from warmgraph.backend.torch_api import compile as compat
from warmgraph.hashing import Key, Uncacheable, key_of


@dataclass(frozen=True, slots=True)
class Keyed:
    """One graph. `ours` and `theirs` are keys, or None where the graph is refused; `why` and `their_why` say so.

    `blind` is torch's key with the deliberate equivalences taken out of what it looks at.
    """

    ours: Key | None
    why: str
    theirs: str | None
    blind: str | None
    their_why: str

    @property
    def id(self) -> str | None:
        return self.ours.id if self.ours is not None else None

    @property
    def graph(self) -> str:
        return self.ours.texts()["graph"] if self.ours is not None else ""


@dataclass(slots=True)
class Trace:
    """What one call gave: the graphs' keys, and the call's own result."""

    graphs: list[Keyed] = field(default_factory=list)
    result: Any = None

    @property
    def ids(self) -> list[str | None]:
        return [graph.id for graph in self.graphs]


def trace(function: Callable[..., Any], *args: Any, settings: dict[str, Any] | None = None, **options: Any) -> Trace:
    """Call `function` under Dynamo with a backend that takes both keys and runs the graph as it is.

    `settings` are Inductor's, patched as the backend does; `options` are torch.compile's.
    """
    torch._dynamo.reset()
    found = Trace()

    def backend(gm: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        with patched_settings(settings or {}):
            found.graphs.append(keys(gm, inputs))
        return gm.forward

    found.result = torch.compile(function, backend=backend, **options)(*args)
    return found


def keys(gm: GraphModule, inputs: Sequence[Any]) -> Keyed:
    """Both keys of one graph, as a backend would take them."""
    ours, why = our_key(gm, inputs)
    theirs, their_why = their_key(gm, inputs, blind=False)
    blind = their_key(gm, inputs, blind=True)[0] if theirs is not None else None
    return Keyed(ours, why, theirs, blind, their_why)


def our_key(gm: GraphModule, inputs: Sequence[Any]) -> tuple[Key | None, str]:
    odd = compat.odd_graph(gm, inputs)
    if odd is not None:
        return None, odd
    try:
        return key_of(gm, inputs, key_context(gm, inputs, "warmgraph")), ""
    except Uncacheable as unknown:
        return None, str(unknown)


def their_key(gm: GraphModule, inputs: Sequence[Any], *, blind: bool) -> tuple[str | None, str]:
    """torch's key, or None and the reason. Inputs and configuration are prepared as AOTAutograd does."""
    options: dict[str, Any] = {"keep_inference_input_mutations": True, "ignore_shape_env": False, "flatten": False}
    inductors: list[Any] = []
    if "boxed_forward_device_index" in signature(prepare_aot_module_simplified).parameters:  # torch 2.11
        options["boxed_forward_device_index"] = None
        inductors = [{"cudagraphs": BoxedBool(False), "boxed_forward_device_index": None}]
    prepared = prepare_aot_module_simplified(gm, inputs, None, None, **options)
    fakes, config = prepared[4], prepared[6]
    if blind:
        gm = renamed(gm)
        config = dataclasses.replace(config, aot_autograd_arg_pos_to_source=None)
    try:
        with sanitize_gm_for_cache(gm) if inductors else nullcontext():  # later ones do so themselves
            return autograd_cache_key(gm, fakes, config, *inductors)[0], ""
    except (BypassAOTAutogradCache, BypassFxGraphCache, AssertionError) as refusal:
        return None, " ".join(str(refusal).split())


def renamed(gm: GraphModule) -> GraphModule:
    """`gm` with its nodes called n0, n1, ..., and the graphs nested in it likewise."""
    graph = Graph()
    made: dict[Node, Node] = {}
    for number, node in enumerate(gm.graph.nodes):
        name = f"n{number}"
        args, kwargs = (torch.fx.map_arg(value, made.__getitem__) for value in (node.args, node.kwargs))
        target = name if node.op == "placeholder" else node.target
        made[node] = graph.create_node(node.op, target, args, kwargs, name, node.type)
        made[node].meta = dict(node.meta)
    new = GraphModule(gm, graph)
    new.meta = dict(gm.meta)
    for name, child in list(new.named_children()):
        if isinstance(child, GraphModule):
            setattr(new, name, renamed(child))
    return new
