"""Graphs that Dynamo compiles once more while they run, for sizes that the user named (`mark_dynamic(specialize_on=)`).

Read on 2.13 and 2.15. Dynamo calls the backend with the graph that it has traced, the arguments of that call
instead of symbols, and a frozen `ShapeEnv` that holds the user's condition for as long as that takes
(`patch_source_specialization`). Nothing that the compile assumes of them becomes a guard, so all that it was shown
belongs into the key.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._guards import TracingContext
from torch.fx import GraphModule


def is_specialized(gm: GraphModule, env: Any) -> bool:
    """Whether this compile is for sizes of the user's, and not the first one of the graph."""
    return env is not None and env.frozen and "specialization" in gm.meta


def assumed(env: Any) -> Mapping[Any, Any]:
    """What holds of the graph's symbols in this compile alone: expressions (sympy) and what they are."""
    return {**env.axioms, **env.replacements}


def shown(inputs: Sequence[Any]) -> list[str]:
    """A line per tensor among `inputs`: its sizes and strides, and whether the trace knows it, with its symbols."""
    context = TracingContext.try_get()
    known = context.tensor_to_context if context is not None else {}
    return [
        f"p{position} is {[*value.size()]} {[*value.stride()]}{' traced' if value in known else ''}"
        for position, value in enumerate(inputs)
        if isinstance(value, torch.Tensor)
    ]


@contextlib.contextmanager
def by_itself(gm: GraphModule, env: Any) -> Iterator[bool]:
    """Around a compile; gives whether it is for such sizes.

    Its inputs get symbols of their own then: sizes that an earlier compile met have some already, with what that
    compile assumed of them, and a process that had hits until now met none.
    """
    again = is_specialized(gm, env)
    if not again:
        yield False
        return
    known, env.val_to_var = env.val_to_var, {size: name for size, name in env.val_to_var.items() if name.is_number}
    try:
        yield True
    finally:
        env.val_to_var = known
