"""Pieces of a graph: DDP's optimizer splits one at its buckets and compiles each on fake inputs. Read on 2.13.

After each compile it asks AOTAutograd for the strides of the outputs, which are the next piece's inputs; where
AOTAutograd was not at work, as on a hit, it runs the piece on fakes instead. Both agree where Inductor keeps the
strides that the graph has, which is its default; a piece where it does not is not kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch._functorch.config as functorch_config
from torch._guards import TracingContext
from torch.fx import GraphModule


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
        value = node.meta.get("example_value") if isinstance(node, torch.fx.Node) else node
        if not isinstance(value, torch.Tensor):
            if isinstance(node, torch.fx.Node) and value is None:
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
