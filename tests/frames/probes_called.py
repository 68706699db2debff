"""Probes of functions that a graph calls as they are (`allow_in_graph`): no trace goes through them."""

from __future__ import annotations

import torch
from probe import put, set_

SOURCE = """
import functools, os, torch, typing
LIMIT = 1.0
TABLE = {"z": 1}
CALLS = [0]
HELD = torch.ones(3)
HELD.table = {"x": 1.0}
class Options:
    gain = 2.0
def helper(x, by=1.0): return x + by
@torch.compiler.allow_in_graph
def allowed(x): return helper(x * TABLE["z"]) * LIMIT
@torch.compiler.allow_in_graph
def other(x): return x * 11
ALIAS = allowed
SPARE = allowed
def plain(x): return allowed(x) + 1
def by_alias(x): return ALIAS(x) + 1
def in_checkpoint(x): return torch.utils.checkpoint.checkpoint(lambda y: allowed(y) + 1, x, use_reentrant=False)
def below(x): return allowed(x) * 2
def through(x): return below(x) + 1
@torch.compiler.allow_in_graph
def both(x): return x * 2, x - LIMIT
def gives_both(x):
    a, b = both(x)
    return a * b
@torch.compiler.allow_in_graph
def by_class(x): return x * Options.gain
def of_class(x): return by_class(x)
@torch.compiler.allow_in_graph
def counting(x):
    global LIMIT
    LIMIT += 1.0
    return x * LIMIT
def counts(x): return counting(x)
@torch.compiler.allow_in_graph
def listing(x):
    CALLS.append(1)
    return x * len(CALLS)
def lists(x): return listing(x)
@torch.compiler.allow_in_graph
def holding(x): return x * (HELD.shape[0] + HELD.table["x"])
def holds(x): return holding(x)
@torch.compiler.allow_in_graph
def writing(x):
    Options.found = 5.0
    return x * 2
def writes(x): return writing(x)
@torch.compiler.allow_in_graph
def asking(x): return x * float(os.environ.get("WG_CALLED", "1"))
def asks(x): return asking(x)
def made(by):
    @torch.compiler.allow_in_graph
    def inner(x): return x * by
    return inner
THREE = made(3.0)
def closes(x): return THREE(x)
@torch._dynamo.allow_in_graph
class Times(torch.autograd.Function):
    factor = 3.0
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return helper(x) * Times.factor
    @staticmethod
    def backward(ctx, g): return g * LIMIT * 5
def applies(x): return Times.apply(x) * 2
class Config(typing.NamedTuple):
    by: float = 2.0
    def scaled(self): return self.by * 2
CONFIG = Config()
@torch._dynamo.allow_in_graph
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, config): return x * config.scaled()
    @staticmethod
    def backward(ctx, g): return g * 3, None
def configures(x): return Scaled.apply(x, CONFIG) * 2
def configures_anew(x): return Scaled.apply(x, Config(3.0)) * 2
@torch.compiler.allow_in_graph
def given(x, by): return x * by
def gives(x): return given(x, LIMIT)
@torch._dynamo.nonstrict_trace
def loose(x, by=2.0): return {"a": helper(x) * LIMIT, "b": [x * by, x]}
@torch._dynamo.nonstrict_trace
def other_loose(x): return {"a": x * 4, "b": [x, x]}
def loosely(x):
    found = loose(x)
    return found["a"] - found["b"][0]
@torch._dynamo.nonstrict_trace
def loose_counting(x):
    global LIMIT
    LIMIT += 1.0
    return x * LIMIT
def counts_loosely(x): return loose_counting(x)
@torch._dynamo.nonstrict_trace
def loose_asking(x): return x * float(os.environ.get("WG_CALLED", "1"))
def asks_loosely(x): return loose_asking(x)
"""


def called(entry, name, *edit, **more):
    put(f"called: {entry}, {name}", SOURCE, entry, edit=edit or None, **more)


def unchanged(entry, **more):
    called(entry, "nothing", restores=True, agrees=True, after=False, **more)


def graded():
    return (torch.arange(4.0).requires_grad_(),)


for whole in ("plain", "by_alias", "in_checkpoint", "through", "gives_both", "of_class", "closes", "gives"):
    unchanged(whole)
unchanged("applies", args=graded)
unchanged("configures", args=graded)
unchanged("configures_anew", args=graded)
LIMIT = ("LIMIT = 1.0", "LIMIT = 4.0")
OTHERS = ("plain", "in_checkpoint", "through", "gives_both", "gives")
for one in OTHERS:
    called(one, "a global", *LIMIT)
    called(one, "a global of the module", change=set_("m.LIMIT", 5.0), after=False)
called("plain", "an item", 'TABLE = {"z": 1}', 'TABLE = {"z": 2}')
called("plain", "an item that is set", change=lambda s: s.m.TABLE.update(z=3), after=False)
called("plain", "what it does", "helper(x * T", "helper(x - T")
called("plain", "what it calls", "return x + by", "return x - by")
called("plain", "a default of what it calls", "by=1.0", "by=2.0")
called("plain", "one that is set", change=lambda s: setattr(s.m.helper, "__defaults__", (7.0,)), after=False)
called("plain", "its code", change=lambda s: setattr(s.m.allowed, "__code__", s.m.other.__code__), after=False)
called("plain", "another function", change=lambda s: setattr(s.m, "allowed", s.m.other))
called("plain", "a function that is traced", "@torch.compiler.allow_in_graph\ndef allowed", "def allowed", agrees=True)
unchanged("loosely", args=graded)
called("loosely", "a global", *LIMIT)
called("loosely", "a global of the module", change=set_("m.LIMIT", 5.0), after=False)
called("loosely", "what it calls", "return x + by", "return x - by")
called("loosely", "a default", "by=2.0", "by=3.0")
called("loosely", "how what it gives nests", '"b": [x * by, x]', '"b": (x * by, x)', agrees=True)
called("loosely", "another function", change=lambda s: setattr(s.m, "loose", s.m.other_loose))
called("counts_loosely", "nothing", random=True, refused="is not kept")
called("asks_loosely", "nothing", agrees=True, refused="is not kept")
called("by_alias", "another function", change=lambda s: setattr(s.m, "ALIAS", s.m.other))
called("by_alias", "its name means another", change=lambda s: setattr(s.m, "allowed", s.m.other), agrees=True)
called("gives_both", "another order", "return x * 2, x - LIMIT", "return x - LIMIT - 1, x * 3")
called("of_class", "an attribute of a class", "gain = 2.0", "gain = 4.0")
called("of_class", "one that is set", change=set_("m.Options.gain", 5.0), after=False)
called("counts", "nothing", random=True, refused="is not kept")
called("lists", "nothing", random=True, refused="changes what it reads")
called("holds", "what hangs on a tensor", '"x": 1.0', '"x": 2.0')
unchanged("holds")
called("writes", "nothing", agrees=True, refused="sets attribute found")
called("asks", "nothing", agrees=True, refused="is not kept")
called("closes", "what it closes over", "made(3.0)", "made(4.0)")
called("applies", "its forward", "return helper(x) * Times", "return helper(x) - Times", args=graded)
called("applies", "its backward", "LIMIT * 5", "LIMIT * 6", args=graded)
called("applies", "a global of its backward", *LIMIT, args=graded)
called("applies", "an attribute of its class", "factor = 3.0", "factor = 4.0", args=graded)
called("applies", "one that is set", change=set_("m.Times.factor", 5.0), after=False, args=graded)
called("configures", "another number", change=lambda s: setattr(s.m, "CONFIG", s.m.Config(9.0)), args=graded)
for one in ("configures", "configures_anew"):
    called(one, "a method", "return self.by * 2", "return self.by * 4", args=graded)
called("configures", "a default", "by: float = 2.0", "by: float = 5.0", args=graded)
called("configures_anew", "a number", "Config(3.0)", "Config(4.0)", args=graded)
called("configures_anew", "another class", change=lambda s: setattr(s.m, "Config", s.m.typing.NamedTuple(
    "Config", [("by", float), ("more", float)])), agrees=True, after=False, args=graded)  # fmt: skip
