"""The fields of the parts `inputs`, `symbols` and `hooks`. What a field is, is said in `fields.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.source import LocalSource, TensorProperty, TensorPropertySource
from torch.utils._sympy.value_ranges import ValueRanges
from warmgraph.hashing import Hook

from . import cases
from .cases import Case, OtherWrapper, Wrapper, everything, of_inputs
from .fields import Build, Field, edited, one

# --- inputs -----------------------------------------------------------------------------------------------------------


def _inputs(name: str, before: Any, after: Any, *also: str, call: Any = torch.relu, gpu: bool = False) -> Field:
    """Inputs given as thunks, so that each key is taken of fresh tensors."""

    def build(make: Any) -> Build:
        def made() -> Case:
            values = make()
            return of_inputs(*(values if isinstance(values, tuple) else (values,)), call=call)

        return made

    return Field("inputs", name, build(before), build(after), frozenset(("inputs", *also)), gpu)


def _base(size: int = 64) -> torch.Tensor:
    return torch.arange(float(size))


def _inference() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(3, 4)


def _static(case: Case, kind: str) -> None:
    case.node("y").meta["tensor_dict"] = {"_dynamo_static_input_type": kind}


def _reading(value: Any) -> Any:
    return lambda: value


def _parts_of(base: torch.Tensor, first: int, second: int) -> tuple[torch.Tensor, ...]:
    return base[first : first + 8], base[second : second + 8]


def _wrapped(note: Any = 1, kind: Any = Wrapper, wide: bool = False, **inner: Any) -> Any:
    return lambda: kind(torch.ones(3, 4, **inner), note, wide)


INPUTS = [
    _inputs("dtype", lambda: torch.ones(3, 4), lambda: torch.ones(3, 4, dtype=torch.float64)),
    _inputs("device", lambda: torch.ones(3, 4), lambda: torch.ones(3, 4, device="meta"), "machine"),
    _inputs("number of dimensions", lambda: torch.ones(12), lambda: torch.ones(12, 1)),
    _inputs("size", lambda: torch.ones(3, 4), lambda: torch.ones(3, 5).as_strided((3, 5), (4, 1))),
    _inputs("stride", lambda: torch.ones(4, 4), lambda: torch.ones(4, 4).t()),
    _inputs("offset", lambda: _base()[0:12], lambda: _base()[6:18]),
    _inputs("requires_grad", lambda: torch.ones(3, 4), lambda: torch.ones(3, 4, requires_grad=True)),
    _inputs("leaf", lambda: torch.ones(3, 4, requires_grad=True), lambda: torch.ones(3, 4, requires_grad=True) * 1),
    _inputs("inference tensor", lambda: torch.ones(3, 4), _inference),
    _inputs(
        "conjugate bit", lambda: torch.ones(3, dtype=torch.cfloat), lambda: torch.ones(3, dtype=torch.cfloat).conj()
    ),
    _inputs("negative bit", lambda: torch.ones(3), lambda: torch._neg_view(torch.ones(3))),
    _inputs("pinned memory", lambda: torch.ones(3), lambda: torch.ones(3).pin_memory(), gpu=True),
    _inputs("Parameter", lambda: torch.ones(3, requires_grad=True), lambda: torch.nn.Parameter(torch.ones(3))),
    _inputs("number of inputs", lambda: (_base(), _base()), lambda: (_base(), _base(), _base()), "graph"),
    _inputs("order of inputs", lambda: (_base(3), _base(4)), lambda: (_base(4), _base(3))),
    _inputs("value of a constant", _reading((3, _base())), _reading((4, _base()))),
    _inputs("type of a constant", _reading((1, _base())), _reading((True, _base()))),
    _inputs("shared storage", lambda: (_base()[:8], _base()[8:16]), lambda: _parts_of(_base(), 0, 8)),
    _inputs("overlap in a storage", lambda: _parts_of(_base(), 0, 8), lambda: _parts_of(_base(), 0, 4)),
    _inputs("size of a shared storage", lambda: _parts_of(_base(64), 0, 8), lambda: _parts_of(_base(128), 0, 8)),
    _inputs(
        "view of a shared storage",
        lambda: (b := _base(8), b[:4])[:2],
        lambda: (b := _base(8), b.detach()[:4].data)[:2],
    ),
    _inputs(
        "base of a shared storage",
        lambda: _parts_of(_base(64), 0, 8),
        lambda: _parts_of(_base(64)[:60].data, 0, 8),
    ),
    _inputs(
        "where the base of a shared storage begins",
        lambda: _parts_of(_base(64)[2:32].data, 8, 16),
        lambda: _parts_of(_base(64)[4:34].data, 6, 14),
    ),
    _inputs(
        "which inputs have one base",
        lambda: _parts_of(_base(64), 0, 8),
        lambda: (b := _base(64), b[:8], b.detach()[8:16])[1:],
    ),
    _inputs(
        "type of the base of a shared storage",
        lambda: _parts_of(_base(64), 0, 8),
        lambda: tuple(part.view(torch.float32) for part in _parts_of(torch.arange(64, dtype=torch.int32), 0, 8)),
    ),
    _inputs(
        "size of a storage that is resized",
        lambda: _base(64)[:8],
        lambda: _base(128)[:8],
        call=torch.ops.inductor.resize_storage_bytes_.default,
    ),
    _inputs("subclass", _wrapped(), _wrapped(kind=OtherWrapper)),
    _inputs("subclass or not", _wrapped(), lambda: torch.ones(3, 4)),
    _inputs("subclass's metadata", _wrapped(note=1), _wrapped(note=2)),
    _inputs("type in a subclass's metadata", _wrapped(note=1), _wrapped(note=True)),
    _inputs("subclass's own size", _wrapped(), _wrapped(wide=True)),
    _inputs("dtype inside a subclass", _wrapped(), _wrapped(dtype=torch.float64)),
    _inputs("requires_grad inside a subclass", _wrapped(), _wrapped(requires_grad=True)),
    _inputs("requires_grad of a subclass", _wrapped(), lambda: _wrapped()().requires_grad_()),
    Field(
        "inputs",
        "static input",
        everything,
        edited(lambda case: _static(case, "unguarded")),
        frozenset({"inputs"}),
    ),
    Field(
        "inputs",
        "kind of static input",
        edited(lambda case: _static(case, "guarded")),
        edited(lambda case: _static(case, "unguarded")),
        frozenset({"inputs"}),
    ),
    one("inputs", "metadata of a lifted attribute", lambda c: c.gm.register_buffer("lifted", torch.ones(4).double())),
]


# --- symbols ----------------------------------------------------------------------------------------------------------


def _symbol(case: Case) -> Any:
    return case.inputs[0].node.expr


def _range(lower: int, upper: int) -> Callable[[Case], None]:
    return lambda case: case.env.var_to_range.update({_symbol(case): ValueRanges(lower, upper)})


def _between(name: str, before: Callable[[Case], Any], after: Callable[[Case], Any], *also: str) -> Field:
    return Field("symbols", name, edited(before), edited(after), frozenset(("symbols", *also)))


def _source(name: str) -> Callable[[Case], None]:
    def edit(case: Case) -> None:
        case.env.var_to_sources[_symbol(case)] = [TensorPropertySource(LocalSource(name), TensorProperty.SIZE, 0)]

    return edit


SYMBOLS = [
    _between("source", _source("x"), _source("z"), "graph", "inputs"),
    _between("lower end of the range", _range(2, 9), _range(3, 9)),
    _between("upper end of the range", _range(2, 9), _range(2, 8)),
    one("symbols", "size-like", lambda case: case.env.size_like.add(_symbol(case))),
    one("symbols", "hint override", lambda case: case.env.var_to_hint_override.update({_symbol(case): 64})),
    _between(
        "value of a hint override",
        lambda case: case.env.var_to_hint_override.update({_symbol(case): 64}),
        lambda case: case.env.var_to_hint_override.update({_symbol(case): 65}),
    ),
]


# --- hooks ------------------------------------------------------------------------------------------------------------


def _hook(which: int, hook: Hook) -> Callable[[Case], None]:
    return lambda case: case.extra["hooks"].__setitem__(which, hook)


def _wrapped_call(user_hash: str, function: Any = torch.relu) -> Hook:
    graph = cases.body(function)
    (call,) = graph.graph.find_nodes(op="call_function", target=function)
    call.meta.update(is_wrapped=True, user_cache_hash=user_hash)
    return Hook("pack", graph, "one")


HOOKS = [
    one("hooks", "whether there are any", lambda case: case.extra.update(hooks=[])),
    one("hooks", "call in pack", _hook(0, Hook("pack", cases.body(torch.add, 2), "one"))),
    one("hooks", "constant in pack", _hook(0, Hook("pack", cases.body(torch.mul, 3), "one"))),
    one("hooks", "call in unpack", _hook(1, Hook("unpack", cases.body(torch.sub, 2), "one"))),
    one("hooks", "constant in unpack", _hook(1, Hook("unpack", cases.body(torch.div, 3), "one"))),
    one("hooks", "how arguments are taken apart", _hook(0, Hook("pack", cases.body(torch.mul, 2), "two"))),
    one("hooks", "which of the pair comes first", lambda case: case.extra["hooks"].reverse()),
    Field(
        "hooks",
        "user's hash of a wrapped call",
        edited(_hook(0, _wrapped_call("a"))),
        edited(_hook(0, _wrapped_call("b"))),
        frozenset({"hooks"}),
    ),
]
