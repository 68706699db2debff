"""Probes of functions that torch reaches without a source, since the object was made in the frame: what they hold has
no guards.
"""

from __future__ import annotations

import torch
from probe import put

SOURCE = """
import collections, contextlib, dataclasses, enum, functools, math, re, types, torch
from torch import nn
P = collections.namedtuple("P", "a b")
LIMIT = 1.0
class Mode(enum.Enum):
    A = 1
    def __init__(self, v): self.gain = v * LIMIT
class Config: eps = 0.25
class Scaled:
    factor = 0.25
    @classmethod
    def scaled(cls, x): return x * cls.factor
TOOLS = types.ModuleType("tools"); TOOLS.SCALE = 2.0
def decorated_by(o):
    def wrap(f):
        @functools.wraps(f)
        def inner(*a): return o(f(*a), 2.5)
        return inner
    return wrap
class Made:
    def named(self, x, p=P(2.0, 3.0)): return x * p.a
    def klass(self, x, c=Config): return x * c.eps
    def module(self, x, m=TOOLS): return x * m.SCALE
    def operator(self, x, o=torch.add): return o(x, 2.5)
    def pattern(self, x, r=re.compile("a+$")): return x * 5 if r.match("aab") else x * 1.5
    def member(self, x, m=Mode.A): return x * m.gain
    def keyword(self, x, *, o=math.floor): return x * o(2.5)
    def bound(self, x, f=Scaled.scaled): return f(x)
    def pair(self, x, o=(torch.add, 1.0)): return o[0](x, 2.5)
    def method_of(self, x, t=Scaled): return t.scaled(x)
    @property
    def prop(self, p=P(5.0, 3.0)): return p.a
    @decorated_by(torch.add)
    def decorated(self, x): return x * 2
def named(x): return Made().named(x)
def klass(x): return Made().klass(x)
def module(x): return Made().module(x)
def operator(x): return Made().operator(x)
def pattern(x): return Made().pattern(x)
def member(x): return Made().member(x)
def keyword(x): return Made().keyword(x)
def bound(x): return Made().bound(x)
def pair(x): return Made().pair(x)
def method_of(x): return Made().method_of(x)
def prop(x): return x * Made().prop
def decorated(x): return Made().decorated(x)
@decorated_by(torch.add)
def inner(x): return x * 2
def decorated_global(x): return inner(x)
def factory(op, c):
    class Inner:
        def run(self, x): return op(x, 2.5) * c.eps
    return Inner
Inner = factory(torch.add, Config)
def closure(x): return Inner().run(x)
@dataclasses.dataclass
class Opt:
    p: P = P(4.0, 3.0)
    op: object = torch.mul
def data(x): return x * Opt().p.a
def data_operator(x): return Opt().op(x, 2.5)
class Scope:
    def __init__(self, p=P(6.0, 1.0)): self.p = p
    def __enter__(self): return self.p.a
    def __exit__(self, *a): pass
def scope(x):
    with Scope() as k: return x * k
class Number:
    def __init__(self, v): self.v = v
    def __add__(self, other, o=torch.sub): return o(other, self.v)
def special(x): return Number(2.5) + x
class MadeModule(nn.Module):
    def __init__(self, o=torch.add):
        super().__init__()
        self.o = o
    def forward(self, x, p=P(9.0, 1.0)): return self.o(x, p.a)
def submodule(x): return MadeModule()(x)
class Descriptor:
    def __get__(self, o, t): return t.POINT.a * t.CONF.eps
class Owner:
    POINT = P(7.0, 1.0)
    CONF = Config
    d = Descriptor()
OWNER = Owner()
def owner(x): return x * OWNER.d
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): ctx.save_for_backward(x); return x * x
    @staticmethod
    def backward(ctx, g, o=torch.add, p=P(2.5, 1.0)): (x,) = ctx.saved_tensors; return o(g * x, p.a)
def gradient(x): return Square.apply(x)
def function_of(op):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x): ctx.save_for_backward(x); return x * x * x
        @staticmethod
        def backward(ctx, g): (x,) = ctx.saved_tensors; return op(g * x, 2.5)
    return Cube
Cube = function_of(torch.add)
def gradient_of_closure(x): return Cube.apply(x)
SHOWN = set()
class Shows(type):
    def __getattr__(cls, name):
        if name in SHOWN: return 3.0
        raise AttributeError(name)
class Shown(metaclass=Shows): pass
class Asks:
    def has(self, x, c=Shown): return x * 5 if hasattr(c, "q") else x * 1.5
    def get(self, x, c=Shown): return x * getattr(c, "q", 1.5)
def has_by_metaclass(x): return Asks().has(x)
def get_by_metaclass(x): return Asks().get(x)
"""

EPS = ("class Config: eps = 0.25", "class Config: eps = 0.5")
FACTOR = ("    factor = 0.25", "    factor = 0.5")


def sourceless(entry, name, old, new, **more):
    put(f"sourceless: {entry}, {name}", SOURCE, entry, edit=(old, new), **more)


def wanted():
    return (torch.arange(4.0).requires_grad_(),)


# -- defaults of methods
sourceless("named", "a named tuple", "p=P(2.0, 3.0)", "p=P(8.0, 3.0)")
sourceless("klass", "an attribute of a class", *EPS)
sourceless("module", "an attribute of a module", "TOOLS.SCALE = 2.0", "TOOLS.SCALE = 8.0", refused="holds")
sourceless("operator", "a function of torch", "o=torch.add): return o(x", "o=torch.sub): return o(x")
sourceless("pattern", "a regular expression", 're.compile("a+$")', 're.compile("a+b")')
sourceless("member", "an attribute of an enum's member", "LIMIT = 1.0", "LIMIT = 4.0")
sourceless("keyword", "a keyword's default", "o=math.floor", "o=math.ceil")
sourceless("bound", "an attribute of a method's class", *FACTOR)
sourceless("pair", "a function of torch in a tuple", "o=(torch.add", "o=(torch.sub")
sourceless("method_of", "an attribute of a class with methods", *FACTOR)
sourceless("prop", "of a property", "p=P(5.0, 3.0)", "p=P(8.0, 3.0)")
sourceless("scope", "of a context's __init__", "p=P(6.0, 1.0)", "p=P(8.0, 1.0)")
sourceless("special", "of an operator", "other, o=torch.sub", "other, o=torch.mul")
sourceless("submodule", "of a module's __init__", "def __init__(self, o=torch.add", "def __init__(self, o=torch.sub")
sourceless("submodule", "of a module's forward", "p=P(9.0, 1.0)", "p=P(8.0, 1.0)")

# -- cells
sourceless("decorated", "its decorator's", "@decorated_by(torch.add)\n    def", "@decorated_by(torch.sub)\n    def")
sourceless("decorated_global", "its decorator's", "@decorated_by(torch.add)\ndef", "@decorated_by(torch.sub)\ndef")
sourceless("closure", "a function of torch", "factory(torch.add", "factory(torch.sub")
sourceless("closure", "an attribute of a class", *EPS)

# -- fields of dataclasses, attributes of owners
sourceless("data", "a field's default", "P(4.0, 3.0)", "P(8.0, 3.0)")
sourceless("data_operator", "a field's default", "object = torch.mul", "object = torch.div")
sourceless("owner", "a named tuple", "POINT = P(7.0, 1.0)", "POINT = P(8.0, 1.0)", since=(2, 12))
sourceless("owner", "an attribute of a class", *EPS, since=(2, 12))

# -- backward of autograd functions
sourceless("gradient", "a function of torch", "g, o=torch.add", "g, o=torch.sub", args=wanted)
sourceless("gradient", "a named tuple", "p=P(2.5, 1.0)", "p=P(9.5, 1.0)", args=wanted)
sourceless("gradient_of_closure", "a function of torch", "function_of(torch.add", "function_of(torch.sub", args=wanted)

# -- a metaclass's __getattr__
for entry in ("has_by_metaclass", "get_by_metaclass"):
    put(f"sourceless: {entry}, a name", SOURCE, entry, change=lambda s: s.m.SHOWN.add("q"), refused="metaclass finds")
