"""Graphs that compiled autograd makes of a whole backward. Read on 2.13 and 2.15.

Their first input is a list, which holds what autograd saved and is emptied by the call, so that memory can be freed
early. torch's own backend flattens it around its compile (`torch._dynamo.utils.flatten_graph_inputs`); here the graph
itself gets an input for each item, and is then one like any other.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from msgspec import Struct
from torch._functorch import aot_autograd
from torch.fx import Graph, GraphModule, Node

TAKES_LIST = "takes_list"  # of a loaded entry's callable: the same for one list of arguments


def in_region() -> bool:
    """Whether this is a compile for compiled autograd: parameters are static inputs then, hooks are left alone."""
    return bool(torch._dynamo.compiled_autograd.in_compiled_autograd_region)


class Flat(Struct, frozen=True):
    """The same graph with an input for each item of the list. sizes: (position, whether of its gradient, dimension) of
    flat inputs, for each symbol that is no input by itself: the graph takes these first, as Dynamo's graphs do.
    """

    gm: GraphModule
    inputs: list[Any]
    sizes: list[tuple[int, bool, int]]


def flattened(gm: GraphModule, inputs: Sequence[Any]) -> Flat | None:
    """None for a graph that is not compiled autograd's, or takes its list in a form that is not known."""
    if not in_region() or not inputs or type(inputs[0]) is not list:
        return None
    items = inputs[0]
    first, *others = [node for node in gm.graph.nodes if node.op == "placeholder"]
    stolen = [node for node in (first, *others) if node.meta.get("steal_arg", False)]
    if stolen != [first] or any(not _takes_one(user, first, len(items)) for user in first.users):
        return None
    taken = {user.args[1]: user for user in first.users}
    metas = [taken[position].meta if position in taken else {} for position in range(len(items))]
    sizes = _sizes([*metas, *(node.meta for node in others)])
    graph = Graph()
    for number, size in enumerate(sizes.values()):
        graph.placeholder(f"size_{number}").meta["example_value"] = size
    made = []
    for position, meta in enumerate(metas):
        made.append(graph.placeholder(f"inputs_{position}"))
        made[-1].meta = dict(meta)
    copied: dict[Node, Node] = {user: made[user.args[1]] for user in first.users}
    for node in gm.graph.nodes:
        if node is not first and node not in copied:
            copied[node] = graph.node_copy(node, lambda old: copied[old])
    flat = GraphModule(gm, graph, type(gm).__name__)
    flat.compile_subgraph_reason = getattr(gm, "compile_subgraph_reason", None)
    return Flat(flat, [*sizes.values(), *items, *inputs[1:]], list(sizes))


def _sizes(metas: Sequence[dict[str, Any]]) -> dict[tuple[int, bool, int], torch.SymInt]:
    """Where each symbol is a size of an input or of its gradient, but for those that are inputs themselves."""
    values = [meta.get("example_value") for meta in metas]
    seen = {value.node.expr for value in values if isinstance(value, torch.SymInt)}
    found: dict[tuple[int, bool, int], torch.SymInt] = {}
    for of_gradient in (False, True):
        for position, value in enumerate(values):
            tensor = _gradient(value) if of_gradient else value
            for dimension, size in enumerate(tensor.shape if isinstance(tensor, torch.Tensor) else ()):
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and size.node.expr not in seen:
                    seen.add(size.node.expr)
                    found[position, of_gradient, dimension] = size
    return found


def _gradient(value: Any) -> torch.Tensor | None:
    """What a backward adds to; of a tensor that is no leaf there is none, and to ask for it would be a warning."""
    return value.grad if isinstance(value, torch.Tensor) and value.is_leaf else None


def gradients(inputs: Sequence[Any]) -> list[str]:
    """A line per input with a gradient: what a compile sees of that, but for its sizes, which are guarded."""
    found = [(position, _gradient(value)) for position, value in enumerate(inputs)]
    return [
        f"p{position} has a gradient {grad.dtype} {grad.device.type} {grad.layout} of {grad.dim()} {_order(grad)}"
        for position, grad in found
        if grad is not None
    ]


def _order(grad: torch.Tensor) -> list[int] | None:
    """Its dimensions by stride, the widest first."""
    return sorted(range(grad.dim()), key=grad.stride, reverse=True) if grad.layout is torch.strided else None


def _takes_one(user: Node, values: Node, count: int) -> bool:
    return (
        user.target is operator.getitem
        and user.args[0] is values
        and type(user.args[1]) is int
        and 0 <= user.args[1] < count
    )


def emptying(run: Callable[..., Any], flat: Flat) -> Callable[..., Any]:
    """What Dynamo's code calls for the graph, given what runs the flat one: nobody else holds the list's values."""
    with_list = _with_list(run)

    def call(stolen: list[Any], *others: Any) -> Any:
        values = [*stolen, *others]
        stolen.clear()
        sizes = [_of(values[position], of_gradient).size(dimension) for position, of_gradient, dimension in flat.sizes]
        values = [*sizes, *values]
        return run(*values) if with_list is None else with_list(values)

    return call


def _of(value: torch.Tensor, of_gradient: bool) -> torch.Tensor:
    grad = value.grad if of_gradient else value
    assert grad is not None  # the graph's guards say so
    return grad


def _with_list(run: Any) -> Callable[[list[Any]], Any] | None:
    """What AOTAutograd's callable hands its arguments on to as one list, which is emptied as they are used."""
    while run is not None:
        if hasattr(run, TAKES_LIST):
            return getattr(run, TAKES_LIST)  # type: ignore[no-any-return]
        inner = getattr(run, "__wrapped__", None)
        code = getattr(run, "__code__", None)  # names are copied to what wraps it
        if code is not None and code.co_name == "forward" and code.co_filename == aot_autograd.__file__:
            lifted = inspect.getclosurevars(run).nonlocals.get("params_buffers_flat")
            return inner if not lifted else None
        run = inner
    return None
