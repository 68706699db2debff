"""Probes of what a trace calls or asks at once: assumed constants, addresses that `copy` asks for, operators and
subclasses that are there; and of functions that a frame makes for code that runs after a graph break.
"""

from __future__ import annotations

import copyreg
import os
import typing

import torch
from probe import put, set_

SOURCE = """
import copy, functools, os, torch, types, typing
FACTOR = 1.0
TABLE = {"a": 2.0, "b": 3.0}
@torch._dynamo.assume_constant_result
def assumed(): return FACTOR + float(os.environ.get("WG_ASSUMED", "1"))
@torch._dynamo.assume_constant_result
def other(): return 11.0
def plain(x): return x * assumed()
@torch._dynamo.assume_constant_result
def picked(name, *, by=1): return TABLE[name] * by
def picks(x): return x * picked("a", by=3) + picked("b")
@functools.lru_cache
@torch._dynamo.assume_constant_result
def cached(): return FACTOR > 0.5
def asks_cached(x): return x * 2 if cached() else x * 3
def gives(x): return x + 1, assumed()
@torch._dynamo.assume_constant_result
def texts(): return ("a", None, 2, float(FACTOR))
def unpacks(x):
    a, b, n, f = texts()
    return x * n * f if a == "a" and b is None else x
@torch._dynamo.assume_constant_result
def makes(): return [FACTOR]
def lists(x): return x * makes()[0]
COUNT = [0]
@torch._dynamo.assume_constant_result
def counted():
    COUNT[0] += 1
    return COUNT[0]
def counts(x): return x * counted() + counted() * 10
@torch._dynamo.assume_constant_result
def grad(): return 2.0 if torch.is_grad_enabled() else FACTOR
def under(x):
    with torch.no_grad(): return x * grad()
@torch._dynamo.assume_constant_result
def gives_class(): return Kinds
def of_a_class(x): return x * gives_class().scale
class Shown:
    v = 2.0
    def __deepcopy__(self, memo):
        made = Shown()
        made.keys = len(memo), list(memo)[:1]
        return made
SHOWN = [Shown()]
def shows(x):
    made = copy.deepcopy(SHOWN)[0]
    return x * made.v, made.keys
def there_beside(x): return x * 2 if hasattr(torch, "wg_alias") else x * 3
class Holder:
    @torch._dynamo.assume_constant_result
    def value(self): return FACTOR
HELD = Holder()
def method(x): return x * HELD.value()
@torch._dynamo.assume_constant_result
def probe(): return FACTOR
BESIDE = types.SimpleNamespace(probe=probe)
del probe
def of_an_object(x): return x * BESIDE.probe()
class Inner:
    n = 2.0
class Config:
    def __init__(self): self.scale, self.inner, self.sizes, self.names = 2.0, Inner(), [1, 2], {"a": 1}
CONFIG = Config()
def copies(x):
    c = copy.deepcopy(CONFIG)
    c.scale += 1
    c.sizes.append(5)
    return x * c.scale * c.inner.n * sum(c.sizes) * len(c.names)
PAIR = (Config(),) * 2
def pairs(x):
    a, b = copy.deepcopy(PAIR)
    a.scale = 5.0
    return x * b.scale
def keeps(x):
    memo = {}
    c = copy.deepcopy(CONFIG, memo)
    return x * c.scale, len(memo), list(memo)[0]
def addresses(x): return x + (id(CONFIG) % 7)
def copied(x): return x * copy.copy(CONFIG).scale
NOTE = types.SimpleNamespace(sparse=2.0, name="a")
class Kinds: scale = 2.0
class First(Kinds): scale = 3.0
class Second(First): pass
KNOWN = {}
def finds(x):
    if type(x) in KNOWN: return x * KNOWN[type(x)]
    waiting, scale = Kinds.__subclasses__(), 0.0
    while waiting:
        one = waiting.pop()
        waiting += one.__subclasses__()
        scale += one.scale
    return x * scale
def inner_scale(): return FACTOR
def breaks(x, by=3.0):
    def inner(y, n=2.0): return y * FACTOR * n * by * inner_scale()
    torch._dynamo.graph_break()
    return inner(x) + 1
def hands(x):
    k = x + 1
    def inner(y): return y + k * FACTOR
    torch._dynamo.graph_break()
    return inner(x)
OPTIONAL = typing.Optional[int]
def annotated(x, y: typing.Optional[int] = None, z: typing.List[int] = ()): return x
def reads(x): return x * 2 if annotated.__annotations__["y"] is OPTIONAL else x * 3
def there(x):
    names = NOTE.sparse * len(NOTE.name)
    return x * names if hasattr(torch.ops.warmgraph_probe, "nothing") else x * names * 3
"""


def assumed(entry, name, **more):
    put(f"assumed: {entry}, {name}", SOURCE, entry, **more)


own = {"as_is": True, "args": lambda scene: (torch.arange(4.0),)}


def reducing(scene):
    copyreg.pickle(scene.m.Config, lambda one: (scene.m.Inner, ()))


def copying(scene):
    def copied(self, memo):
        made = scene.m.Config()
        made.scale = 9.0
        return made

    scene.m.Config.__deepcopy__ = copied


def defining(scene):
    library = torch.library.Library("warmgraph_probe", "FRAGMENT")
    library.define("nothing(Tensor x) -> Tensor")
    scene.library = library


def unmarked(scene):
    del scene.m.assumed._dynamo_marked_constant


def environment(scene):
    os.environ["WG_ASSUMED"] = "5"


assumed("plain", "nothing", restores=True)
assumed("plain", "a variable of the environment", change=environment, after=False)
assumed("plain", "a global that it reads", change=set_("m.FACTOR", 4.0), after=False)
assumed("plain", "another function", change=lambda s: setattr(s.m, "assumed", s.m.other))
assumed("plain", "a function that is traced", change=unmarked, agrees=True, after=False)
assumed("plain", "its code", edit=("return FACTOR + float", "return 9 * FACTOR + float"))
assumed("picks", "nothing", restores=True)
assumed("picks", "an item", change=lambda s: s.m.TABLE.update(b=7.0), after=False)
assumed("picks", "an argument", edit=("by=3", "by=4"))
assumed("asks_cached", "nothing", restores=True)
assumed("asks_cached", "a global that it reads", change=set_("m.FACTOR", 0.25), after=False)
assumed("gives", "nothing", refused="Dynamo left among its globals", agrees=True)
assumed("unpacks", "nothing", restores=True)
assumed("unpacks", "a global that it reads", change=set_("m.FACTOR", 4.0), after=False)
assumed("lists", "nothing", refused="no plain values", agrees=True)
assumed("under", "nothing", refused="other state around it", agrees=True)
assumed("of_a_class", "nothing", refused="no plain values", agrees=True)
assumed("counts", "another start", change=lambda s: s.m.COUNT.__setitem__(0, 5), after=False, **own)
assumed("counts", "nothing", restores=True, **own)
assumed("shows", "nothing", refused="", random=True)
assumed("there_beside", "another name", change=lambda s: setattr(torch, "wg_alias", torch.ops.wg_beside), after=False)
assumed("method", "nothing", refused="no source leads to it", agrees=True)
assumed("of_an_object", "nothing", restores=True)
assumed("of_an_object", "a global that it reads", change=set_("m.FACTOR", 4.0), after=False)
assumed("copies", "nothing", restores=True)
assumed("copies", "an attribute", change=set_("m.CONFIG.scale", 7.0))
assumed("copies", "another attribute", change=set_("m.CONFIG.more", 7.0), agrees=True)
assumed("copies", "an item of a list", change=lambda s: s.m.CONFIG.sizes.append(4))
assumed("copies", "a key", change=lambda s: s.m.CONFIG.names.update(b=2))
assumed("copies", "an attribute within", change=set_("m.CONFIG.inner.n", 7.0))
assumed("copies", "of a class within", change=set_("m.Inner.n", 7.0))
assumed("copies", "another object", change=lambda s: setattr(s.m, "CONFIG", s.m.Config()), restores=True)
assumed(
    "copies",
    "a class of its own",
    change=lambda s: setattr(s.m.CONFIG, "__class__", type("C", (s.m.Config,), {})),
    agrees=True,
)
assumed("copies", "how it is copied", change=copying, after=False)
assumed("copies", "how it is pickled", change=reducing, after=False, agrees=True)
assumed("pairs", "nothing", restores=True)
assumed("pairs", "two objects", change=lambda s: setattr(s.m, "PAIR", (s.m.Config(), s.m.Config())))
assumed("keeps", "nothing", refused="", random=True)
assumed("addresses", "nothing", refused="identity", random=True)
assumed("copied", "nothing", restores=True)
assumed("copied", "an attribute", change=set_("m.CONFIG.scale", 7.0))
assumed("finds", "nothing", restores=True)
assumed("finds", "one more", edit=("KNOWN = {}", "class Third(Kinds): pass\nKNOWN = {}"))
assumed("finds", "one more beneath", edit=("KNOWN = {}", "class Third(Second): pass\nKNOWN = {}"))
assumed(
    "finds", "made later", change=lambda s: setattr(s, "kept", type("Late", (s.m.First,), {"scale": 9.0})), after=False
)
assumed("finds", "a value", change=set_("m.Second.scale", 9.0))
assumed("finds", "what is known", change=lambda s: s.m.KNOWN.update({torch.Tensor: 9.0}))
assumed("breaks", "nothing", restores=True)
assumed("breaks", "a global", change=set_("m.FACTOR", 9.0))
assumed("breaks", "its code", edit=("return y * FACTOR * n * by * inner", "return y - FACTOR * n * by * inner"))
assumed("breaks", "its default", edit=("n=2.0", "n=4.0"))
assumed("breaks", "a default that it holds", edit=("by=3.0", "by=4.0"))
assumed("breaks", "what it calls", change=lambda s: setattr(s.m, "inner_scale", lambda: 9.0))
assumed("hands", "nothing", restores=True)
assumed("hands", "a global", change=set_("m.FACTOR", 9.0))
assumed("reads", "nothing", restores=True)
assumed("reads", "another", change=lambda s: s.m.annotated.__annotations__.update(y=typing.Optional[str]))  # noqa: UP045
assumed("reads", "another in the code", edit=("y: typing.Optional[int]", "y: typing.Optional[float]"))
assumed("there", "nothing", restores=True)
assumed("there", "it is there", change=defining, after=False)
