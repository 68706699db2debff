"""Where this rank stands in the meshes and groups that are inputs of a graph. Not what all its ranks have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ..encoding.distributed import evenly_sharded, is_group, is_mesh, on_every_rank, place_of
from ..encoding.encode import encode
from .tensors import inner_parts, plain_kind


def place_lines(inputs: Sequence[Any]) -> list[str]:
    """One line on this rank's place, or none where no input has one."""
    found = [place_of(value) for value in _in(inputs) if on_every_rank(value) is not None]
    return [f"place {encode(found)}"] if found else []


def same_sizes_everywhere(inputs: Sequence[Any]) -> bool:
    """Whether every DTensor among `inputs` is sharded evenly: no size in the graph is this rank's alone."""
    return all(evenly_sharded(value) for value in inputs if hasattr(value, "device_mesh"))


def _in(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, torch.Tensor):
            taken = None if plain_kind(value) else inner_parts(value)
            yield from _in(list(taken[0].values()) if taken is not None else [])
        elif is_mesh(value) or is_group(value):
            yield value
