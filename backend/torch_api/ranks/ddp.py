"""Pieces of a graph: DDP's optimizer splits one at its buckets and compiles each on fake inputs. Read on 2.13 and 2.15.

After each compile it asks AOTAutograd for the strides of the outputs, which are the next piece's inputs; where
AOTAutograd was not at work, as on a hit, it runs the piece on fakes instead. Both agree where Inductor keeps the
strides that the graph has, which is its default; a piece where it does not is not kept.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch._functorch.config as functorch_config
from torch._guards import TracingContext
from torch.fx import Graph, GraphModule, Node

from ..frames.plain import Plain, Refused


def is_piece() -> bool:
    """Whether the graph that is compiled now is one of several, on fake inputs."""
    context = TracingContext.try_get()
    return context is not None and bool(context.fakify_first_call)


def backwards_at_once() -> contextlib.AbstractContextManager[Any]:
    """While open, a piece's backward is compiled with its forward, whoever compiles it.

    torch counts the pieces that AOTAutograd compiled, and finds the facts of a backward that is compiled later by that
    number; pieces that were loaded are not counted.
    """
    at_once = functorch_config.patch(force_non_lazy_backward_lowering=True)
    return at_once if is_piece() else contextlib.nullcontext()


@contextlib.contextmanager
def as_a_whole() -> Iterator[None]:
    """While open, torch is not told that the graph is a piece: its own caches keep none."""
    if not is_piece():
        yield
        return
    context = TracingContext.get()
    context.fakify_first_call = False
    try:
        yield
    finally:
        context.fakify_first_call = True


def relaid_output(gm: GraphModule, result: Any) -> int | None:
    """Position of the first output that the compiled code lays out otherwise than the graph; None where none is.

    Where a result does not say how its outputs lie (of another compiler than Inductor), the first one that is a tensor.
    """
    (returned,) = next(node for node in reversed(gm.graph.nodes) if node.op == "output").args
    begin = result.runtime_metadata.num_mutated_inp_runtime_indices
    found = getattr(result.compiled_fw.result, "output_strides", None) or []
    for position, node in enumerate(returned):
        value = node.meta.get("example_value") if isinstance(node, Node) else node
        if not isinstance(value, torch.Tensor):
            if isinstance(node, Node) and value is None:
                return position  # nobody knows what it is
            continue
        strides = found[begin + position] if begin + position < len(found) else None
        if strides is None or not _same(value, strides):
            return position
    return None


def _same(value: torch.Tensor, strides: Any) -> bool:
    """Strides of dimensions with one element say nothing."""
    if len(strides) != value.dim():
        return False
    dimensions = zip(value.size(), value.stride(), strides, strict=True)
    return all(size == 1 or str(stride) == str(its) for size, stride, its in dimensions)


# -- the whole that the pieces make up


def within_buckets(compiler_fn: Any) -> tuple[Any, str]:
    """The backend to which DDP's optimizer gives pieces, and how it cuts; without one `compiler_fn` itself."""
    optimizer: Any = getattr(compiler_fn, "__self__", None)
    if type(optimizer).__name__ != "DDPOptimizer" or not hasattr(optimizer, "backend_compile_fn"):
        return compiler_fn, ""
    caps = [getattr(optimizer, name, None) for name in ("first_bucket_cap", "bucket_bytes_cap")]
    return optimizer.backend_compile_fn, f"buckets of {caps}"


def wiring_of(compiled: Any, *, is_cut: bool) -> list[Plain]:
    """How a whole calls its pieces, one row for each of its nodes; none for what is one. compiled: as Dynamo installed
    it. is_cut: whether pieces were compiled. Raises Refused.
    """
    whole = getattr(getattr(compiled, "_torchdynamo_orig_callable", None), "__self__", None)
    if not isinstance(whole, GraphModule):
        if is_cut:
            raise Refused("its graph is in pieces, which nothing says how to put together")
        return []
    numbers: dict[Node, int] = {}
    rows: list[Plain] = []
    for node in whole.graph.nodes:
        numbers[node] = len(rows)
        if node.kwargs or not all(isinstance(one, Node) for one in _operands(node)):
            raise Refused("a piece of its graph takes something else than values of the graph")
        row: list[Any] = [_role(node), [numbers[one] for one in _operands(node)]]
        if node.op == "call_module":
            row.append(bool(whole.get_submodule(str(node.target)).unwrap_singleton_tuple))
        elif node.op == "call_function":
            row.append(node.args[1])
        rows.append(row)
    return rows


def _role(node: Node) -> str:
    known = {"placeholder": "input", "call_module": "piece", "output": "output"}
    if node.op == "call_function" and node.target is operator.getitem and type(node.args[1]) is int:
        return "item"
    if node.op not in known:
        raise Refused(f"beside its pieces its graph has a node {node.op} {node.target}")
    return known[node.op]


def _operands(node: Node) -> Sequence[Any]:
    if node.op == "output":
        (returned,) = node.args
        return returned if isinstance(returned, tuple) else [None]
    return node.args[:1] if node.op == "call_function" else node.args if node.op == "call_module" else ()


class _Piece(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    def __init__(self, run: Callable[..., Any], is_single: bool) -> None:
        super().__init__()
        self.run, self.is_single = run, is_single

    def forward(self, *inputs: Any) -> Any:
        found = self.run(*inputs)
        return found[0] if self.is_single and isinstance(found, (tuple, list)) else found


def wired(rows: Sequence[Any], pieces: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """The whole again. rows: as `wiring_of` gave them. pieces: in the order in which they are called."""
    root, graph, nodes, left = torch.nn.Module(), Graph(), list[Node](), iter(pieces)
    for number, (role, operands, *more) in enumerate(rows):
        given = [nodes[one] for one in operands]
        if role == "input":
            nodes.append(graph.placeholder(f"input_{number}"))
        elif role == "piece":
            root.add_module(f"piece_{number}", _Piece(next(left), *more))
            nodes.append(graph.call_module(f"piece_{number}", tuple(given)))
        elif role == "item":
            nodes.append(graph.call_function(operator.getitem, (*given, *more)))
        else:
            graph.output(tuple(given))
    whole: Callable[..., Any] = torch.compiler.disable(GraphModule(root, graph).forward)  # as torch does it
    return whole
