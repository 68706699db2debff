"""Probes of what a record names: classes and their methods, named tuples, transforms; and of the order of sets."""

from __future__ import annotations

import sys

import torch
from probe import args, put, set_

SOURCE = """
import collections, dataclasses, io, operator, random, torch, typing
import numpy as np
from torch.func import grad, jvp, vmap
FACTOR = 2.0
def fresh(): return [1.0]
def other(): return [5.0]
@dataclasses.dataclass
class Record:
    value: object
    more: list = dataclasses.field(default_factory=fresh)
Pair = collections.namedtuple("Pair", "a b")
Triple = collections.namedtuple("Pair", "a b")
class Named(typing.NamedTuple):
    a: torch.Tensor
    b: torch.Tensor
    c: float = 3.0
    def scaled(self): return self.a * FACTOR
def makes_record(x): return x * Record(x).more[0]
def gives_pair(x): return Pair(x + 1, x * 2)
ALIAS = Pair
def gives_alias(x): return type(x).__name__, ALIAS(x + 1, x * 2)
def gives_named(x): return Named(x + 1, x * 2)
def scales_named(x): return Named(x + 1, x * 2).scaled()
def gives_class(x): return x + 1, Record
def gives_deque(x): return collections.deque([x * 3, x], maxlen=2)
def gives_iterator(x): return iter([x * 5])
def loss(x): return (x.sin() * FACTOR).sum()
def differentiates(x): return grad(loss)(x)
def maps(x): return vmap(loss)(x.reshape(2, 2))
def pushes(x): return jvp(loss, (x,), (x,))[1]
def yes(x): return x * 2
def no(x): return x - 1
def chooses(x): return torch.cond(x.sum() > 3, yes, no, (x,))
def reduces(x): return x * float(np.prod((2, 3)))
def with_numpy(x): return torch.from_numpy(np.sin(x.numpy()) * np.float32(2.0))
class Shifts(torch.nn.Module):
    def forward(self, x):
        self.register_buffer("shift", torch.ones(4))
        return x + self.shift
def shifts(x): return Shifts()(x)
def united(x, a, b, c):
    for name in {a}.union([b, c]): x = x * 2 + len(name)
    return x
def shared_keys(x, a, b, c):
    for name in {a: 1, b: 2, c: 3}.keys() & {c: 1, b: 2, a: 3}.keys(): x = x * 2 + len(name)
    return x
def popped(x, a, b, c):
    names = {a, b}
    names.add(c)
    return x * len(names.pop())
def pairs(x):
    for name, number in {("x", 1), ("yy", 2), ("zzz", 3), ("wwww", 4)}: x = x * 2 + number
    return x
def nothings(x):
    for number, nothing in {(1, None), (2, None), (3, None), (4, None)}: x = x * 2 + number
    return x
def functions(x): return {yes, no, loss}.pop()(x)
def known(x):
    names = {"cpu", "cuda", "xpu", "hpu"}
    if x.device.type not in names: raise ValueError(x.device.type)
    return x * 2
def formatted(x, a, b, c): return x * ord("{}".format({a, b, c})[2])
def drawn(x): return x * random.Random().sample(range(1000), 1)[0]
Row = collections.namedtuple("Row", "price volume")
Row.target = Row.price
def aims(x): return Row(x + 1, x * 2).target * 3
def asks_and_gives(x):
    row = Row(x + 1, x * 2)
    return row, row.price * 2
DEQUE = collections.deque
deque = DEQUE
def gives_own_deque(x): return DEQUE([x * 3, x], maxlen=2)
class Base: pass
class Derived(Base): pass
class Counts:
    def go(self, x, base=Base): return x * len(base.__subclasses__())
def counts(x): return Counts().go(x)
def prints(x):
    from torch._dynamo.comptime import comptime
    comptime.print("tracing")
    return x * 2
def encoded(x): return x * 2 if io.text_encoding(None) == "utf-8" else x * 3
"""

NAMES = ("a", "bbbbb", "ccccccccccccc")


def carried(entry, name, *edit, **more):
    put(f"carried: {entry}, {name}", SOURCE, entry, edit=edit or None, **more)


def names(*given):
    return lambda: (torch.arange(4.0), *(given or NAMES))


def unchanged(entry, **more):
    carried(entry, "nothing", restores=True, after=False, **more)


OTHERS = args(names("a", "bb", "ccc"))

carried("makes_record", "another factory", "default_factory=fresh", "default_factory=other")
carried("makes_record", "what the factory gives", "def fresh(): return [1.0]", "def fresh(): return [7.0]")
unchanged("makes_record")
carried("gives_pair", "another class", change=lambda scene: setattr(scene.m, "Pair", scene.m.Named), after=False)
carried("gives_pair", "one all alike", change=lambda scene: setattr(scene.m, "Pair", scene.m.Triple), restores=True)
carried("gives_alias", "one alike", change=lambda scene: setattr(scene.m, "ALIAS", scene.m.Triple), seen=True)
unchanged("gives_pair")
carried("gives_named", "another default", "c: float = 3.0", "c: float = 4.0")
carried("gives_named", "another field", "a: torch.Tensor\n    b", "z: torch.Tensor\n    b", seen=True)
carried("scales_named", "a global", "FACTOR = 2.0", "FACTOR = 3.0")
unchanged("gives_class")
carried("gives_deque", "another length", "maxlen=2", "maxlen=1")
unchanged("gives_deque")
unchanged("gives_iterator", random=True)  # its text is an address
carried("differentiates", "a global", "FACTOR = 2.0", "FACTOR = 3.0")
carried("differentiates", "the function", "x.sin() * F", "x.cos() * F")
carried("maps", "a global of the module", change=set_("m.FACTOR", 5.0))
carried("maps", "another dtype", change=args(lambda: (torch.arange(4.0).double(),)))
carried("pushes", "the function", "x.sin() * F", "x.cos() * F")
carried("chooses", "a branch", "def yes(x): return x * 2", "def yes(x): return x * 7")
carried("chooses", "other data", change=args(lambda: (torch.zeros(4),)), restores=True)
carried("with_numpy", "another function", "np.sin(", "np.cos(", since=(2, 13))
# torch makes a table of its own functions by these names, once.
carried(
    "with_numpy",
    "a replaced one",
    change=lambda scene: setattr(scene.m.np, "sin", scene.m.np.cos),
    seen=True,
    after=False,
    since=(2, 13),
)
carried("reduces", "another function", "np.prod(", "np.sum(", since=(2, 13))
carried("reduces", "a replaced one", change=lambda scene: setattr(scene.m.np, "prod", scene.m.np.sum), since=(2, 13))
unchanged("reduces", since=(2, 13))
carried("shifts", "another shift", "torch.ones(4)", "torch.full((4,), 3.0)")
unchanged("shifts")
carried("united", "other names", change=OTHERS, args=names())
carried("shared_keys", "other names", change=OTHERS, args=names())
carried("popped", "other names", change=args(names("aaaa", "bb", "cccccc")), args=names())
carried("pairs", "another number", '("x", 1)', '("x", 9)')
# None lies where its address says, and since Python 3.12 at the same place in each process.
by_address = {"refused": "whose order"} if sys.version_info < (3, 12) else {}
carried("nothings", "another number", "(1, None)", "(9, None)", **by_address)
carried("functions", "nothing", random=True, refused="the order of a set")
unchanged("known")
carried("formatted", "other names", change=args(names("q", "q", "q")), args=names(), refused="a set as text")
carried("drawn", "nothing", random=True, refused="random")
unchanged("encoded")
carried("aims", "another field", "Row.target = Row.price", "Row.target = Row.volume")
carried("asks_and_gives", "another order of fields", '"price volume"', '"volume price"')
unchanged("asks_and_gives")
carried("gives_own_deque", "a global that only Dynamo asks for", "deque = DEQUE\n", "deque = list\n", seen=True)
carried("gives_own_deque", "which is gone", "deque = DEQUE\n", "", seen=True)
carried(
    "counts",
    "one more",
    "class Derived(Base): pass",
    "class Derived(Base): pass\nclass More(Base): pass",
    refused="which subclasses",
)
carried("prints", "nothing", agrees=True, refused="comptime")
