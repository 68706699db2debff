"""Probes of what libraries give under names of their own: `typing`'s classes, torch's functions in tables, branches."""

from __future__ import annotations

import collections.abc

import torch
from probe import args, put, set_

SOURCE = """
import collections.abc, heapq, typing, torch
class Odd:
    def __len__(self): return 3
KIND, SCALE = typing.Mapping, 2.0
def by_kind(x): return x * 2 if isinstance(Odd(), typing.Mapping) else x * 3
def named_kind(x, one): return x * 2 if isinstance(one, KIND) else x * 3
def cast(x): return typing.cast(typing.List[float], [SCALE])[0] * x
HANDLED = {}
def handles(function):
    def note(handler):
        HANDLED[function] = handler
        return handler
    return note
class Wrapped(torch.nn.Parameter):
    @staticmethod
    def __new__(cls, data): return torch.Tensor._make_subclass(cls, data, False)
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func not in HANDLED or not all(issubclass(one, (torch.Tensor, Wrapped)) for one in types):
            return super().__torch_function__(func, types, args, kwargs)
        return HANDLED[func](*args, **kwargs)
@handles(torch.add)
def added(a, b):
    with torch._C.DisableTorchFunctionSubclass(): return torch.sub(a, b) * SCALE
def handled(x, w): return torch.add(w, w * 3)
ONE = frozenset([torch.add])
def in_one(x, function=torch.add): return x * 2 if function in ONE else x * 3
def least(x): return x * heapq.nsmallest(1, [3.0, SCALE, 5.0])[0]
def branches(x, which):
    return torch.cond(which, lambda a: a.cos() * SCALE, lambda a: a * a, (x,))
def arithmetic(x):
    b, t, c = x.shape
    return x.new_ones((b * t * 6 + t * c * 4) // (2 * t)).sum() * SCALE, x.reshape(t * c, b) + (b * t + t * c) // t
class Holder: pass
HOLDER = Holder()
def annotated(x):
    def hook(a: "torch.Tensor", *more: int, b: dict = None) -> None: return a * SCALE
    HOLDER.hook = hook
    torch._dynamo.graph_break()
    return HOLDER.hook(x), sorted(map(str, HOLDER.hook.__annotations__.items()))
"""


def named(entry, name, *edit, **more):
    put(f"names: {entry}, {name}", SOURCE, entry, edit=edit or None, **more)


def same(entry, **more):
    named(entry, "as it was", change=lambda scene: None, restores=True, **more)


def wrapped(scene):
    return torch.arange(4.0), scene.m.Wrapped(torch.ones(4))


def graded(scene=None):
    return torch.ones(3, requires_grad=True), torch.tensor(True)


def lists(scene=None):
    return torch.arange(4.0), [1]


SCALED = {"change": set_("m.SCALE", 4.0)}
same("by_kind")
named("by_kind", "a class is registered", change=lambda s: collections.abc.Mapping.register(s.m.Odd), after=False)
named("by_kind", "another alias", change=set_("m.typing.Mapping", collections.abc.Sized), after=False)
same("named_kind", args=lists)
named("named_kind", "another alias", change=lambda s: setattr(s.m, "KIND", s.m.typing.Sequence), args=lists)
same("cast")
named("cast", "what is cast", **SCALED)
same("handled", args=wrapped, as_is=True)
named("handled", "what its handler reads", args=wrapped, as_is=True, **SCALED)
named("handled", "another handler", "torch.sub(a, b)", "torch.mul(a, b)", args=wrapped, as_is=True)
named("handled", "one is gone", change=lambda s: s.m.HANDLED.clear(), args=wrapped, as_is=True)
named(
    "handled",
    "one more",
    change=lambda s: s.m.HANDLED.update({torch.Tensor.mul: lambda a, b: a}),
    args=wrapped,
    as_is=True,
)
same("in_one")
named("in_one", "another function", change=lambda s: setattr(s.m, "ONE", frozenset([torch.sub])))
same("least")
named("least", "another number", change=set_("m.SCALE", 1.0))
same("branches", args=graded)
named("branches", "a branch", "a.cos()", "a.sin()", args=graded)
named("branches", "what a branch reads", args=graded, **SCALED)
same("annotated")
named("annotated", "what it reads", **SCALED)
named("annotated", "another type", "b: dict", "b: list")
named("annotated", "another text", 'a: "torch.Tensor"', 'a: "Tensor"')
# sympy generates functions for polynomials of so many variables, and runs them where sizes are simplified.
BLOCK = {"args": lambda: (torch.ones(4, 6, 8),), "options": {"dynamic": True}}
same("arithmetic", **BLOCK)
named("arithmetic", "other sizes", change=args(lambda: (torch.ones(5, 6, 8),)), restores=True, agrees=True, **BLOCK)
named("arithmetic", "another number", **BLOCK, **SCALED)
