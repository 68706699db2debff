"""Graphs that run on whichever device is current (`torch.compiler.config.compile_on_one_rank`), kept without an index.

torch generates such code, but keeps the index of the device that it was compiled on beside it, for CUDA graphs; its own
caches have one entry for each index.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from warmgraph.hashing import current_device

from ..typing import NotSerialisable

_PRINTED = re.compile(r"(?<=device\(type='cuda'), index=\d+\)")
# How generated code names a device by its index.
_INDEX = re.compile(r"\b(?:cuda|xpu|hip):\d|\bindex=\d|_DeviceGuard\(\d|get_raw_stream\(\d|set_device\(\d")


def without_device(graph: Any) -> None:
    """Take the index off a graph that is to be kept. Raises NotSerialisable where code or a constant has one."""
    for line in graph.source_code.splitlines():
        if not line.lstrip().startswith("#") and _INDEX.search(line):
            raise NotSerialisable(f"code for one device under compile_on_one_rank: {line.strip():.120}")
    for name, value in (graph.constants or {}).items():
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            raise NotSerialisable(f"the constant {name} lies on {value.device} under compile_on_one_rank")
    graph.device_idxs = type(graph.device_idxs)()
    graph.fx_kwargs = {**graph.fx_kwargs, "boxed_forward_device_index": None}


def text_without_device(text: str) -> str:
    """A graph as people read it, as it is on any rank."""
    return _PRINTED.sub(")", text)


def to_current_device(graph: Any) -> None:
    """Say of a loaded graph that it runs on this process's current device."""
    here = current_device()
    if here is not None and here.type in graph.device_types:
        graph.device_idxs = type(graph.device_idxs)([here.index])
