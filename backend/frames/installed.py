"""What a trace put among a frame's globals, and how a restore makes each again: its graphs, the functions that resume
it, what guards look through. And the optimizers whose state it made.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any

import torch

from ..torch_api.frames import resume
from ..torch_api.frames.hook import Frame, inlines_torch_function
from ..torch_api.frames.optimizers import refers_to_optimizer
from ..torch_api.frames.plain import Plain, Refused, stands_by_name
from ..torch_api.frames.seen import Seen
from ..torch_api.frames.sources import Live, Source, SourceTable
from .graphs import reference_of
from .values import Values


def installed_by(graph: Any, frame: Frame, seen: Seen, values: Values, table: SourceTable, live: Live) -> list[Plain]:
    """How each global that Dynamo installed is made again."""
    rows: list[Plain] = []
    for name, value in seen.installed.get(id(graph), {}).items():
        if name.startswith("__compiled_fn"):
            rows.append([name, "graph", None])
        elif name.startswith("__builtins_dict__"):
            rows.append([name, "builtins", None])
        elif isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
            rows.append([name, "module", value.__name__])
        elif name.startswith(_BY_NAME) and isinstance(value, (type, types.BuiltinFunctionType)):
            rows.append([name, "named", [*_name(value), values.identity(value)]])
        elif refers_to_optimizer(name, value):
            rows.append([name, "optimizer", _optimizer(value(), seen, table, live)])
        elif name.startswith("___unnamed_scope"):
            rows.append([name, "scope", value])
        elif name.startswith(("__resume_at", "__comprehension_")):
            rows.append([name, "resume", resume.pack_resume(value, frame.code, frame.globals)])
        else:
            what = type(value).__qualname__
            raise Refused(f"a global that cannot be made again: {name.rstrip('0123456789_c')} ({what})")
    return rows


_BY_NAME = ("___module_", "__subclass_")  # the latter of a tensor whose class has a `__torch_function__`


def _name(value: Any) -> list[str]:
    """Of a class or a builtin function. Raises Refused where it is not found by it."""
    if not stands_by_name(value):
        raise Refused(f"{value.__qualname__}, which no name leads to")
    return [value.__module__, value.__qualname__]


def graphs_of(graph: Any, installed: list[Plain], seen: Seen) -> dict[str, Any]:
    """Where those are kept that the last attempt installed. Raises Refused."""
    made = seen.installed.get(id(graph), {})
    alone = inlines_torch_function(graph)
    return {name: reference_of(name, made[name], seen, alone=alone) for name, kind, _ in installed if kind == "graph"}


def lifted_in(graphs: Mapping[str, Any], live: Live) -> dict[Source, torch.Tensor]:
    """Tensors that graphs hold, by where they are found. Raises Refused for one that is another there."""
    pieces = [piece for reference in graphs.values() for piece in reference["pieces"]]
    found: dict[Source, torch.Tensor] = {source: tensor for piece in pieces for source, tensor in piece["lifted"]}
    if any(live(source) is not tensor for source, tensor in found.items()):
        raise Refused("its graph holds tensors of its own")
    return found


def _optimizer(value: Any, seen: Seen, table: SourceTable, live: Live) -> int:
    found = next((source for source in seen.optimizers if live(source) is value), None)
    if found is None:
        raise Refused("an optimizer that was reached through no source")
    return table.number(found)


def optimizers_of(seen: Seen, table: SourceTable) -> list[Plain]:
    """Those whose groups it asked for, and the calls that made their state. Raises Refused."""
    if any(None in calls for calls in seen.optimizers.values()):
        raise Refused("an optimizer whose state is made by code of the user's")
    return [[table.number(source), calls] for source, calls in seen.optimizers.items()]
