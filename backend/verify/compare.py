"""Two ways of running one graph, compared on the same inputs: outputs, mutated inputs, gradients. Compiles nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from msgspec import Struct
from torch.fx import GraphModule
from warmgraph.hashing import HOOKS, graph_modules, is_higher_order, lifted_tensors

from ..torch_api import compile as compat
from ..torch_api.operators import overloads

Run = Callable[..., Any]

# How far two right results may lie apart, as a share of the largest value in either: a fresh compile may tune, split
# and sum differently. Far above what that does, far below what wrong code does. Other dtypes must be equal.
_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}
_TOLERANCE |= {torch.complex64: 1e-3, torch.complex128: 1e-8}

# Namespaces of operators that do nothing but compute. All others might send, print or count, so that a graph
# that holds them must not be run once more than the user asked.
_PURE = frozenset("aten prim prims inductor higher_order quantized quantized_decomposed mkldnn rngprims".split())


def not_repeatable(gm: GraphModule, inputs: Sequence[Any]) -> str | None:
    """Why `gm` cannot be run again on these inputs without the user noticing; None when it can."""
    if any(hasattr(gm, name) for name in HOOKS):
        return "saved-tensors hooks are inlined into it, which another thread does not have"
    for node in (node for module in graph_modules(gm) for node in module.graph.nodes):
        for overload in overloads(node.target):
            if overload.namespace not in _PURE:
                return f"operator {overload.name()} may do more than compute"
        if node.meta.get("is_wrapped") or _does_more(node.target):
            return f"{node.target} may do more than compute"
    if lifted_tensors(gm):
        return "the graph holds parameters of its own"
    storages: set[int] = set()
    for position, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
                return f"input {position} is a {type(value).__qualname__} of layout {value.layout}"
            if value.device.type not in ("cpu", "cuda"):
                return f"input {position} is on {value.device}"
            storage = value.untyped_storage()._cdata
            if storage in storages:
                return "inputs share a storage"
            storages.add(storage)
        elif not isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)):
            return f"input {position} is a {type(value).__qualname__}"
    return None


def _does_more(target: Any) -> bool:
    if getattr(target, "__module__", None) is not None and target.__module__.startswith("torch.distributed"):
        return True
    words = ("effects", "print", "torchbind", "local_map")
    return is_higher_order(target) and any(word in target.name() for word in words)


def shape_of(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """What must be equal for two calls to be alike: sizes, strides, flags, plain numbers, modes."""
    told: list[Any] = [torch.is_grad_enabled(), torch.is_inference_mode_enabled()]
    for value in inputs:
        if isinstance(value, torch.Tensor):
            told.append((tuple(value.shape), value.stride(), value.dtype, value.device, value.requires_grad))
        else:
            told.append(value)
    return tuple(told)


class Results(Struct, frozen=True):
    """What one run did. inputs: the mutated ones, afterwards. gradients: by input that requires one."""

    outputs: list[Any]
    inputs: dict[int, torch.Tensor]
    gradients: dict[int, torch.Tensor | None]


def run_apart(run: Run, inputs: Sequence[Any], mutated: frozenset[int]) -> Results:
    """Run forward (and backward, when something requires grad) without a trace in the user's tensors.

    mutated: positions of inputs that may be written to; they are copied, the others are shared. Random numbers
    begin at the same state each time, and the user's generators are left as they were.
    """
    devices = sorted({v.device.index for v in inputs if isinstance(v, torch.Tensor) and v.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices):
        # Not torch.manual_seed: it also seeds devices that nobody puts back.
        for generator in (torch.default_generator, *(torch.cuda.default_generators[index] for index in devices)):
            generator.manual_seed(0)
        own = [_own(value, position in mutated) for position, value in enumerate(inputs)]
        outputs = compat.tree_leaves(run(*own))
        gradients = _gradients(outputs, own)
    return Results([_plain(value) for value in outputs], {p: own[p].detach() for p in sorted(mutated)}, gradients)


def _own(value: Any, copied: bool) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    # Detached, so that neither hooks nor gradients of the user's tensors take part.
    plain = value.detach()
    if copied:
        plain = plain.clone()
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(plain, requires_grad=value.requires_grad)
    return plain.requires_grad_(value.requires_grad)


def _plain(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _gradients(outputs: Sequence[Any], inputs: Sequence[Any]) -> dict[int, torch.Tensor | None]:
    ends = [value for value in outputs if isinstance(value, torch.Tensor) and value.grad_fn is not None]
    wanted = [p for p, value in enumerate(inputs) if isinstance(value, torch.Tensor) and value.requires_grad]
    if not ends or not wanted:
        return {}
    tangents = [torch.randn_like(end) for end in ends]
    found = torch.autograd.grad(ends, [inputs[p] for p in wanted], tangents, allow_unused=True)
    return dict(zip(wanted, found, strict=True))


def difference(one: Results, other: Results) -> str | None:
    """The first thing in which two runs differ by more than rounding, in words; None when they agree."""
    if len(one.outputs) != len(other.outputs):
        return f"{len(one.outputs)} outputs instead of {len(other.outputs)}"
    pairs = [(f"output {n}", a, b) for n, (a, b) in enumerate(zip(one.outputs, other.outputs, strict=True))]
    pairs += [(f"input {n} after the call", one.inputs[n], other.inputs.get(n)) for n in one.inputs]
    pairs += [(f"gradient of input {n}", one.gradients.get(n), found) for n, found in other.gradients.items()]
    for what, ours, theirs in pairs:
        if (why := _differs(ours, theirs)) is not None:
            return f"{what}: {why}"
    return None


def _differs(ours: Any, theirs: Any) -> str | None:
    if not isinstance(ours, torch.Tensor) or not isinstance(theirs, torch.Tensor):
        return None if type(ours) is type(theirs) and ours == theirs else f"{_name(ours)} instead of {_name(theirs)}"
    for name in ("dtype", "device", "shape"):
        if getattr(ours, name) != getattr(theirs, name):
            return f"{name} {getattr(ours, name)} instead of {getattr(theirs, name)}"
    if ours.numel() == 0:
        return None
    if ours.dtype not in _TOLERANCE:
        wrong = (ours != theirs).sum().item()
        return f"{wrong} of {ours.numel()} elements differ" if wrong else None
    wide = torch.complex128 if ours.is_complex() else torch.float64
    a, b = ours.to(wide), theirs.to(wide)
    same = (a == b) | (a.isnan() & b.isnan())
    finite = b[b.isfinite()].abs()
    scale = finite.max().item() if finite.numel() else 0.0
    far = ~same & ~((a - b).abs() <= _TOLERANCE[ours.dtype] * scale)
    if not far.any():
        return None
    gap = (a - b)[far].abs().nan_to_num(posinf=float("inf")).max().item()
    return f"{far.sum().item()} of {far.numel()} elements differ, by up to {gap:.3g} where the largest is {scale:.3g}"


def _name(value: Any) -> str:
    return f"a tensor of {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)[:80]
