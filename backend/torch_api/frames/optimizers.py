"""Steps of torch's optimizers: while Dynamo traces one it makes the optimizer's state itself (`_init_group`), and marks
what has one address. Where a step is restored nobody traces it, so that is done here. Read on 2.11 to 2.15.
"""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._dynamo.utils import get_static_address_type
from warmgraph.hashing import comes_with_torch

from ..compile import freezing
from .plain import Plain, Refused
from .ran import paused
from .seen import seen


def is_optimizer(value: Any) -> bool:
    return isinstance(value, torch.optim.Optimizer)


def is_held(value: Any) -> bool:
    """Whether it is a tensor that Dynamo makes part of a graph, as its address is said to stay the same: a guard says
    that it is this one, and code reads its numbers at each call.
    """
    return isinstance(value, torch.Tensor) and get_static_address_type(value) == "guarded"


def sources_of_held(gm: Any) -> dict[str, Any]:
    """Where Dynamo found the tensors that are attributes of its graph, by their names. Raises Refused."""
    found: dict[str, Any] = getattr(gm, "_param_name_to_source", None) or {}
    if found and freezing():
        raise Refused("its graph's code is made for what its weights hold")
    return found


def refers_to_optimizer(name: str, value: Any) -> bool:
    """Whether it is the global by which Dynamo notes that an optimizer lives."""
    return name.startswith("__optimizer_") and isinstance(value, weakref.ref) and is_optimizer(value())


def noting_groups(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of `OptimizerVariable._set_capturable`, which Dynamo calls where code asks for the groups."""

    def set_capturable(self: Any, tx: Any) -> Any:
        if _calls_of(self) is not None:
            with paused():  # Dynamo imports it at the first gradient, and that runs what is no code of torch's
                importlib.import_module("torch._inductor.cudagraph_trees")
        return original(self, tx)

    return set_capturable


def noting_calls(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of `OptimizerVariable.update_list_args`, after `_init_group` has run."""

    def update(self: Any, tx: Any, args: Any, kwargs: Any, py_args: Any, py_kwargs: Any) -> Any:
        calls = _calls_of(self)
        if calls is not None and (call := _call(self.value, py_args, py_kwargs)) not in calls:
            calls.append(call)
        return original(self, tx, args, kwargs, py_args, py_kwargs)

    return update


def _calls_of(variable: Any) -> list[Plain] | None:
    current = seen()
    return None if current is None else current.optimizers.setdefault(variable.source, [])


def _call(optimizer: Any, arguments: Sequence[Any], named: Any) -> Plain:
    """[number of the group, how many lists are filled]; None for a call that cannot be made again."""
    number = next((n for n, one in enumerate(optimizer.param_groups) if arguments and one is arguments[0]), None)
    if named or number is None or not all(type(one) is list for one in arguments[1:]) or not _is_torchs(optimizer):
        return None
    return [number, len(arguments) - 1]


def _is_torchs(optimizer: Any) -> bool:
    """Whether its state is made by code of torch's, which asks for nothing but groups, parameters and gradients."""
    made = getattr(type(optimizer), "_init_group", None)
    code = getattr(made, "__code__", None)
    return code is not None and comes_with_torch(code.co_filename) and "_init_group" not in vars(optimizer)


def prepare(optimizer: Any, calls: Sequence[Plain]) -> Callable[[], None]:
    """As a trace does before it looks at the state. Returns what undoes it, for a record that does not fit after all.

    Raises Refused for an optimizer whose state torch does not make as it did.
    """
    if not is_optimizer(optimizer) or (calls and not _is_torchs(optimizer)):
        raise Refused(f"an optimizer was here; now {type(optimizer).__qualname__}")
    groups, state = optimizer.param_groups, optimizer.state
    if any(number >= len(groups) for number, _ in calls):
        raise Refused("an optimizer with fewer groups of parameters")
    if not all(isinstance(held, dict) for held in state.values()):
        raise Refused("an optimizer whose state is in no tables")
    undo = _undoing(groups, state)
    try:
        _mark(tensor for group in groups for tensor in group["params"])
        for group in groups:
            if "capturable" in group and all(_is_on_gpu(one) and one not in state for one in group["params"]):
                group["capturable"] = True
        for number, count in calls:
            for tensor, held in state.items():
                if "step" in held and held["step"].is_cpu:
                    held["step"] = held["step"].to(tensor.device)
            with torch.set_grad_enabled(bool(optimizer.defaults.get("differentiable"))):  # as around `step`
                optimizer._init_group(groups[number], *([] for _ in range(count)))
        if calls:
            _mark(torch.utils._pytree.tree_leaves(dict(state)))
    except Exception as error:  # noqa: BLE001 - what a trace would raise (sparse gradients), and does
        undo()
        raise Refused(f"an optimizer whose state cannot be made: {type(error).__name__}") from None
    return undo


def _undoing(groups: Sequence[dict[str, Any]], state: dict[Any, dict[str, Any]]) -> Callable[[], None]:
    held = {tensor: dict(one) for tensor, one in state.items()}
    capturable = [group.get("capturable") for group in groups]
    tensors = [tensor for group in groups for tensor in group["params"]]
    tensors += torch.utils._pytree.tree_leaves(list(held.values()))
    marks = [(one, get_static_address_type(one)) for one in tensors if isinstance(one, torch.Tensor)]

    def undo() -> None:
        for tensor in [*state]:
            if tensor not in held:
                del state[tensor]
            else:  # steps may have been moved to another device
                state[tensor].clear()
                state[tensor].update(held[tensor])
        for group, before in zip(groups, capturable, strict=True):
            if before is not None:
                group["capturable"] = before
        for tensor, mark in marks:
            if mark is None and get_static_address_type(tensor) is not None:
                del tensor._dynamo_static_input_type
            elif mark is not None:
                tensor._dynamo_static_input_type = mark

    return undo


def _is_on_gpu(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_cuda or tensor.is_xpu)


def _mark(values: Iterable[Any]) -> None:
    for value in values:
        if isinstance(value, torch.Tensor):
            torch._dynamo.mark_static_address(value, guard=True)
