"""What people want to know of a graph's nodes and no key holds: shape, module, line. For pictures, not for loads.

Kept as one JSON text beside an entry's readable graphs. Nodes stand in graph order, as in the key's part `graph`, and
nested graphs under the numbers that they have there. Symbols keep this process's names, which the entry translates.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from msgspec import Struct, field
from torch.fx import GraphModule, Node
from warmgraph.hashing import device_text, meta_value

_TORCH = str(Path(torch.__file__).parent)
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in (\S+)')
_MOST_ITEMS = 8  # of a node that returns a list


def node_notes(gm: GraphModule) -> str:
    """The notes on `gm` as it is now: before the compiler, which may change it, has had it."""
    notes = _Notes()
    notes.add("", gm)
    return json.dumps(
        {"version": 1, "modules": list(notes.modules), "places": list(notes.places), "graphs": notes.graphs},
        separators=(",", ":"),
    )


class _Notes(Struct):
    """graphs: by name, per node [value, index of its module, index of its place, name of an input]; -1 is none."""

    modules: dict[str, int] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    graphs: dict[str, list[list[Any]]] = field(default_factory=dict)
    _known: dict[int, int] = field(default_factory=dict)

    def add(self, name: str, gm: GraphModule) -> None:
        rows = self.graphs[name] = []
        for node in gm.graph.nodes:
            if node.op == "get_attr":
                self._nested(gm, str(node.target))
            module, place = module_path(node), _place(str(node.meta.get("stack_trace") or ""))
            rows.append(
                [
                    _described(meta_value(node)),
                    self.modules.setdefault(module, len(self.modules)) if module else -1,
                    self.places.setdefault(place, len(self.places)) if place else -1,
                    input_name(str(node.target)) if node.op in ("placeholder", "get_attr") else "",
                ]
            )

    def _nested(self, gm: GraphModule, path: str) -> None:
        """Numbered when it is first met, as `hashing.graph` does."""
        found: Any = gm
        for part in path.split("."):
            found = getattr(found, part)
        if isinstance(found, GraphModule) and id(found) not in self._known:
            number = self._known[id(found)] = len(self._known)
            self.add(str(number), found)


def _described(value: Any) -> str:
    """`float32[s77, 8]`, with the device if it is not the CPU; a symbol's expression; empty for what has no shape."""
    if isinstance(value, torch.Tensor):
        sizes = ", ".join([str(size) for size in value.size()])
        device = "" if value.device.type == "cpu" else f" {device_text(value.device)}"
        return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]{device}"
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return str(value.node.expr)
    if isinstance(value, (tuple, list)):
        more = ", ..." if len(value) > _MOST_ITEMS else ""
        return f"({', '.join([_described(item) or '-' for item in value[:_MOST_ITEMS]])}{more})"
    return ""


_ROOT = re.compile(r"[LG]\['([^']*)'\]")
_STEP = re.compile(r"\.?_modules\b|\[['\"]?([^'\"\]]*)['\"]?\]")


def module_path(node: Node) -> str:
    """`layers.0.attention`: the innermost module whose forward was traced, or empty outside of all."""
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    root = _ROOT.match(path)
    if root is not None:
        rest = path[root.end() :]
        path = rest if root[1] == "self" else root[1] + rest
    path = _STEP.sub(lambda step: f".{step[1]}" if step[1] is not None else "", path)
    return ".".join(filter(None, path.split(".")))


_MARKS = re.compile(r"^.*(?:_parameters_|_buffers_|_modules_)|^[LGlg]_(?=\w)|^.*\.")


def input_name(target: str) -> str:
    """`weight` of `L_self_modules_lin_parameters_weight_`, `x` of `L_x_`: what the code calls what Dynamo passes."""
    return _MARKS.sub("", target, count=1).strip("_") or target


@functools.lru_cache(maxsize=256)  # the nodes of one line have one trace
def _place(trace: str) -> str:
    """`model.py:12 in forward`: the innermost line outside torch."""
    innermost = ""
    for file, line, function in _frames(trace):
        if not file.startswith(_TORCH):
            innermost = f"{Path(file).name}:{line} in {function}"
    return innermost


def _frames(trace: str) -> Iterator[tuple[str, str, str]]:
    for match in _FRAME.finditer(trace):
        yield match[1], match[2], match[3]
