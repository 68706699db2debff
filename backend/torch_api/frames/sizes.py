"""What Dynamo learnt of a frame's sizes (its pgo.py) as plain data, and put back. Read on 2.13."""

from __future__ import annotations

import copy
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from .. import compile as compat
from .dynamic_sizes import _takes_closure
from .plain import Plain

pgo = compat.pgo


def _id(code: types.CodeType, closure: Any) -> Any:
    return pgo.CodeId.make(code, closure) if _takes_closure else pgo.CodeId.make(code)


def pack_sizes(code: types.CodeType, closure: Any) -> Plain:
    """By source name: what number, sizes and strides an input was seen to have. `?`: they vary."""
    state = pgo.get_code_state().get(_id(code, closure))
    if state is None:
        return {}
    return {name: _packed(one) for name, one in state.automatic_dynamic.items()}


def _packed(entry: Any) -> Plain:
    return [_pack(entry.scalar), _pack(entry.size), _pack(entry.stride)]


def are_known(code: types.CodeType, closure: Any) -> bool:
    """Whether this process has seen inputs of this code."""
    state = pgo.get_code_state().get(_id(code, closure))
    return state is not None and bool(state.automatic_dynamic)


def vary(packed: Plain) -> bool:
    """Whether any was seen to vary. Of a tensor `scalar` is always `?`, of a number its sizes and strides are."""
    return any(scalar == "?" if size == "?" else "?" in (*size, *stride) for scalar, size, stride in packed.values())


def _pack(value: Any) -> Plain:
    if value is pgo.auto_dynamic:
        return "?"
    if value is pgo.auto_unset:
        return "-"
    if isinstance(value, pgo.InferStride):
        return {"d": value.dim}
    if isinstance(value, tuple):
        return [_pack(item) for item in value]
    return {"n": str(value)} if type(value) is int and abs(value) >= 2**63 else value  # beyond msgpack's numbers


def _unpack(value: Plain) -> Any:
    if value == "?":
        return pgo.auto_dynamic
    if value == "-":
        return pgo.auto_unset
    if isinstance(value, dict):
        return int(value["n"]) if "n" in value else pgo.InferStride(value["d"])
    return tuple(map(_unpack, value)) if isinstance(value, list) else value


def more_varies(code: types.CodeType, closure: Any, data: Plain) -> str | None:
    """The first input that a trace would make dynamic after what this process has seen."""
    state = pgo.get_code_state().get(_id(code, closure))
    if state is None or not torch._dynamo.config.automatic_dynamic_shapes:
        return None
    for name, entry in _entries(data):
        known = state.automatic_dynamic.get(name)
        if known is not None:
            both = copy.copy(known)
            both |= entry
            if _packed(both) != _packed(entry):
                return str(name)
    return None


def restore_sizes(code: types.CodeType, closure: Any, data: Plain) -> None:
    """As if this process had traced the frame: the next call with other sizes makes them dynamic."""
    if not data:
        return
    known = pgo.get_code_state()[_id(code, closure)].automatic_dynamic
    for name, entry in _entries(data):
        if name in known:
            known[name] |= entry
        else:
            known[name] = entry


def _entries(data: Plain) -> Iterator[tuple[str, Any]]:
    for name, (scalar, size, stride) in data.items():
        yield name, pgo.FrameStateSizeEntry(_unpack(scalar), _unpack(size), _unpack(stride))


def marks_static(source: Any, value: Any) -> bool:
    """Whether a trace marks this tensor of a module as static, had not an earlier one done it."""
    if getattr(value, "_dynamo_static_input_type", None) != "unguarded":
        return False
    return isinstance(value, torch.nn.Parameter) or source.guard_source.is_unspecialized_nn_module()


def mark_static(tensor: torch.Tensor) -> None:
    """As a trace marks a module's parameters, for frames that are compiled later."""
    torch._dynamo.mark_static_address(tensor, guard=False)


def spec_text(spec: Any) -> Any:
    """What `torch.compile(dynamic_shapes=...)` says (since 2.15), its variables numbered as they come: torch counts
    them in the order in which the process made them. The object itself where a name could be taken for such a number.
    """
    said, home = repr(spec), sys.modules[type(spec).__module__]
    if home.__name__ != "torch.fx.experimental.dynamic_spec" or '"' in said or "'#" in said:
        return spec
    numbers: dict[str, int] = {}
    said = re.sub(r"#(\d+)", lambda found: f"#{numbers.setdefault(found[1], len(numbers))}", said)
    # A variable that stands in an expression alone is said without its range.
    named = [
        (variable.name.rpartition("#")[2], one) for variable, one in home._get_spec_shape_env().var_to_range.items()
    ]
    return said, sorted(f"{numbers[number]}: {one}" for number, one in named if number in numbers)
