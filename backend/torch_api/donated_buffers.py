"""Backwards that run more than once: code that overwrites what was saved for it is given copies. Compiles nothing.

Inductor lets a backward write into activations that nobody else needs ("donated buffers"). It compiles the backward at
the first `.backward()`, and donates nothing if that call has `retain_graph=True` or `create_graph=True`; afterwards
torch refuses such calls. Here the backward is compiled together with the forward, before anyone knows, and on another
host's behalf: so a call that keeps the graph gets copies of what would be overwritten, and is never refused.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import compile as compat


def take_donated(result: Any) -> tuple[int, ...]:
    """Positions of the donated inputs of the result's backward; torch's own check of how it is called is put to rest.

    A result without them (`donated_buffer=False` while it was compiled) has none to protect.
    """
    donated = result.runtime_metadata.bw_donated_idxs or ()
    result.runtime_metadata.bw_donated_idxs = []
    return tuple(donated)


def protect_donated_buffers(result: Any) -> None:
    """The same for a result that was just compiled and is in use: its backward is wrapped in place.

    `result` itself goes on to be stored, and keeps the positions for whoever loads it.
    """
    backward = result.compiled_bw
    if backward is None:
        return
    if not isinstance(backward.result, compat.CompiledFxGraph):
        take_donated(result)  # operators run one by one: they overwrite nothing that was saved
        return
    stored = copy.copy(result.runtime_metadata)
    donated = take_donated(result)
    result.runtime_metadata = stored
    backward.result.current_callable = spared(backward.result.current_callable, donated)


def spared(backward: Callable[..., Any], donated: Sequence[int]) -> Callable[..., Any]:
    """`backward`, with copies in the place of its donated inputs whenever the graph is kept for another run."""
    if not donated:
        return backward

    def run(inputs: list[Any]) -> Any:
        if compat.graph_is_kept():
            for position in donated:
                inputs[position] = _copied(inputs[position])
        return backward(inputs)

    run._boxed_call = True  # type: ignore[attr-defined]  # takes its inputs as one list, and may empty it
    return run


def _copied(saved: Any) -> Any:
    """A copy with the very same strides, whatever they are: generated code asserts them."""
    if not isinstance(saved, torch.Tensor) or saved.numel() == 0:
        return saved
    length = 1 + sum((size - 1) * stride for size, stride in zip(saved.size(), saved.stride(), strict=True))
    return saved.as_strided((length,), (1,)).clone().as_strided(saved.size(), saved.stride(), 0)
