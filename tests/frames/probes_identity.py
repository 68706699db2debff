"""Probes of identity: which objects, tensors, containers and cells are one."""

from __future__ import annotations

import numpy
import torch
from probe import args, put, set_

SOURCE = """
import operator, torch, weakref
from torch import nn
class Obj:
    def __init__(self, n=1): self.n = n; self.k = 3; self.items = []
    def __repr__(self): return f"Obj({self.n})"
T = torch.arange(4.0)
D = {"n": 1}
E = {"n": 1}
P, Q = Obj(), Obj()
OBJS = [Obj(), Obj()]
R = weakref.ref(P)
DEFAULT = "".join(["au", "to"])
def two_dicts(x, a, b):
    a["n"] = a["n"] + 1
    return x * b["n"]
def two_lists(x, a, b):
    a.append(1)
    return x * (len(b) + 1)
def two_objects(x, a, b):
    a.n = 5
    return x * b.n
def two_arrays(a, b):
    a += 1
    return torch.from_numpy(a * b)
def two_globals(x):
    D["n"] = D["n"] + 1
    return x * E["n"]
GET, COUNT, MUL = {"n": 2, "t": T}.get, [1, T].count, T.mul
def bound_get(x): return x * GET("n")
def bound_count(x): return x * COUNT(1)
def bound_mul(x): return MUL(x) + 1
OPS = [[].append, operator.is_]
def from_table(x, a, b): return x * 2 if OPS[1](a, b) else x * 3
def write_and_read(x):
    P.n = 5
    return x * Q.n
def local_and_global(x, d):
    d["n"] = d["n"] + 1
    return x * D["n"]
def plus_global(x): return x + T
def is_same(x): return x * 5 if P is Q else x * 1.5
def equals(x): return x * 5 if P == Q else x * 1.5
def in_list(x): return x * 5 if P in OBJS else x * 1.5
def in_list_of_args(x, a, b): return x * 5 if a in [b] else x * 1.5
def sentinel(x, mode): return x * 5 if mode is DEFAULT else x * 1.5
def weak(x): return x * 5 if R() is P else x * 1.5
def make():
    n = 1.0
    def inc():
        nonlocal n
        n = n + 1
    def get(): return n
    return inc, get
inc, get = make()[0], make()[1]
def cells(x):
    inc()
    return x * get()
def before_break(x):
    a = []; b = []
    print(end="")
    a.append(1)
    return x * (len(b) + 1)
class Sub(nn.Module):
    def __init__(self, cfg): super().__init__(); self.cfg = cfg
    def forward(self, x): return x * self.cfg.n
class Outer(nn.Module):
    def __init__(self): super().__init__(); self.cfg = Obj(); self.sub = Sub(Obj())
    def forward(self, x):
        self.cfg.n = self.cfg.n + 1
        return self.sub(x)
class Lists(nn.Module):
    def __init__(self): super().__init__(); self.one = Obj(); self.two = Obj()
    def forward(self, x):
        self.one.items.append(1.0)
        return x * (len(self.two.items) + 1)
class Tied(nn.Module):
    def __init__(self): super().__init__(); self.w = nn.Parameter(torch.ones(4), requires_grad=False)
    def forward(self, x): return x * self.w + W
class WithGlobal(nn.Module):
    def __init__(self): super().__init__(); self.cfg = P
    def forward(self, x): return x * self.cfg.n * P.k
outer, lists, tied, with_global = Outer(), Lists(), Tied(), WithGlobal()
W = tied.w
"""


def identity(entry, name, **more):
    put(f"identity: {entry}, {name}", SOURCE, entry, **more)


def ones(*more):
    return (torch.ones(4), *more)


# -- of arguments, and of arguments and globals


def twice(make):
    """Other arguments: two that are one."""

    def change(scene):
        value = make()
        scene.args = ones(value, value)

    return change


def one_array(scene):
    value = numpy.ones(3)
    scene.args = (value, value)


identity("two_dicts", "both are one", args=lambda: ones({"n": 1}, {"n": 1}), change=twice(lambda: {"n": 1}))
identity("two_lists", "both are one", args=lambda: ones([], []), change=twice(list))
identity(
    "two_objects",
    "both are one",
    as_is=True,
    args=lambda s: ones(s.m.P, s.m.Q),
    change=args(lambda s: ones(s.m.P, s.m.P)),
)
T = torch.arange(4.0)
TEXT = "".join(["a", " b"])
identity(
    "from_table",
    "two that are equal",
    args=lambda: ones(TEXT, TEXT),
    change=args(lambda: ones(TEXT, "".join(["a", " b"]))),
    refused="operator.is_",
    agrees=True,
)
identity("bound_get", "another value", change=set_("m.GET", {"n": 3, "t": T}.get))
identity("bound_count", "another list", change=set_("m.COUNT", [1, 1, T].count))
identity("bound_count", "another method", change=set_("m.COUNT", [1, T].index))
identity("bound_mul", "another method", change=set_("m.MUL", T.add))
identity("bound_mul", "another dtype", change=set_("m.MUL", T.double().mul))
identity("bound_mul", "another tensor", change=set_("m.MUL", T.add(1).mul))
identity("two_arrays", "both are one", args=lambda: (numpy.ones(3), numpy.ones(3)), change=one_array)
identity(
    "in_list_of_args",
    "both are one",
    as_is=True,
    args=lambda s: ones(s.m.P, s.m.Q),
    change=args(lambda s: ones(s.m.P, s.m.P)),
)
identity(
    "local_and_global",
    "one no more",
    as_is=True,
    args=lambda s: ones(s.m.D),
    change=args(lambda s: ones({"n": 1})),
)
identity(
    "local_and_global",
    "they become one",
    as_is=True,
    args=lambda s: ones({"n": 1}),
    change=args(lambda s: ones(s.m.D)),
)
identity("plus_global", "one no more", as_is=True, args=lambda s: (s.m.T,), change=args(lambda s: ones()))
identity("plus_global", "they become one", as_is=True, args=lambda s: ones(), change=args(lambda s: (s.m.T,)))
identity(
    "sentinel",
    "an equal text",
    as_is=True,
    args=lambda s: ones(s.m.DEFAULT),
    change=args(lambda s: ones("".join(["a", "uto"]))),
)

# -- of globals, and of cells


def one_pair(scene):
    scene.m.inc, scene.m.get = scene.m.make()


def q_is_p(scene):
    scene.m.Q = scene.m.P


identity("two_globals", "both are one", as_is=True, change=lambda s: setattr(s.m, "E", s.m.D), after=False)
identity("write_and_read", "both are one", as_is=True, change=q_is_p, after=False)
identity("is_same", "both are one", change=q_is_p, after=False)
identity("equals", "both are one", change=q_is_p, after=False)
identity("in_list", "it is in", change=lambda s: s.m.OBJS.__setitem__(0, s.m.P), after=False)
identity("weak", "of another", edit=("R = weakref.ref(P)", "R = weakref.ref(Q)"))
identity("cells", "one cell", as_is=True, change=one_pair, after=False)
identity("before_break", "two locals are one", edit=("a = []; b = []", "a = []; b = a"))

# -- of what modules hold


def shares_config(scene):
    scene.m.outer.sub.cfg = scene.m.outer.cfg


def own_config(scene):
    scene.m.with_global.cfg = scene.m.Obj()
    scene.m.P.k = 9


identity("outer", "a submodule's config is its own", as_is=True, change=shares_config, after=False)
identity("lists", "both are one", as_is=True, change=lambda s: setattr(s.m.lists, "two", s.m.lists.one), after=False)
identity("tied", "a global is its parameter no more", change=set_("m.W", torch.arange(4.0)), after=False)
identity("with_global", "its config is the global one no more", change=own_config, after=False)
