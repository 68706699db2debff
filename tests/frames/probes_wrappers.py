"""Probes of tensor subclasses that wrap tensors: their code runs while a frame is traced, and is not traced itself."""

from __future__ import annotations

import torch
from probe import args, put, set_

SOURCE = """
import collections, dataclasses, enum, os, types, torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import return_and_correct_aliasing
aten = torch.ops.aten
FACTOR = 2.0
class Kind(enum.Enum):
    ONE = 1
    TWO = 2
@dataclasses.dataclass
class How:
    scale: float = 3.0
    kind: Kind = Kind.ONE
    def apply(self, x): return x * self.scale if self.kind is Kind.ONE else x - self.scale
class Options:
    gain = 4.0
OPTIONS = Options()
TABLE = {}
LIST = [1.0]
RING = collections.deque([1.0, 2.0, 3.0])
def shift(x, by=1.0): return x + by
def closing(by):
    def moved(x): return x - by
    return moved
MOVED = closing(5.0)
def implements(*ops):
    def put(function):
        TABLE.update(dict.fromkeys(ops, function))
        return function
    return put
class Held(torch.Tensor):
    BIAS = 0.5
    @staticmethod
    def __new__(cls, data, how, *more):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=data.dtype, device=data.device)
    def __init__(self, data, how, *more):
        self.data_, self.how = data, how
    def __repr__(self): return f"Held({self.data_}, {self.how})"
    def __tensor_flatten__(self): return ["data_"], self.how
    @classmethod
    def __tensor_unflatten__(cls, inner, how, size, stride): return cls(inner["data_"], how)
    def others(self): return []
    def plain(self):
        return shift(self.how.apply(self.data_) * FACTOR) + self.BIAS + MOVED(self.data_)
    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func in TABLE: return TABLE[func](*args, **(kwargs or {}))
        if func in (aten.detach.default, aten.clone.default, aten.alias.default):
            return cls(func(args[0].data_), args[0].how, *map(func, args[0].others()))
        args = pytree.tree_map_only(Held, cls.plain, args)
        return func(*args, **(kwargs or {}))
class Other(Held):
    def plain(self): return self.data_ * 7
class Two(Held):
    def __tensor_flatten__(self): return ["data_", "more"], self.how
    def __init__(self, data, how, more): super().__init__(data, how); self.more = more
    @classmethod
    def __tensor_unflatten__(cls, inner, how, size, stride): return cls(inner["data_"], how, inner["more"])
    def plain(self): return self.data_ * 2 + self.more * 3
    def others(self): return [self.more]
class Functional(Held):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.mul: return super().__torch_function__(func, types, args, kwargs or {}) * 3
        return super().__torch_function__(func, types, args, kwargs or {})
class Asking(Held):
    def plain(self): return self.data_ * float(os.environ.get("WG_HELD", "1"))
class Counting(Held):
    def plain(self):
        LIST.append(1.0)
        return self.data_ * len(LIST)
class Adding(Held):
    def plain(self, found=LIST):
        found += [1.0]
        return self.data_ * len(found)
class Marking(Held):
    def plain(self):
        self.how.scale = self.how.scale + 1
        return self.data_ * self.how.scale
class Turning(Held):
    def plain(self):
        RING.rotate(1)
        return self.data_ * RING[0]
class Backs(Held):
    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func is aten.tanh_backward.default: return Times.grow(*args)
        return super().__torch_dispatch__(func, types, args, kwargs)
class Times:
    n = 1.0
    @classmethod
    def grow(cls, g, out):
        cls.n = cls.n + 1
        return Held.plain(g) * cls.n if isinstance(g, Held) else g * cls.n
class Boxed(Held):
    box = types.SimpleNamespace(v=2.0)
class Asks(Held):
    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func is aten.mul.Tensor: return args[0].data_ * args[1].box.v
        return super().__torch_dispatch__(func, types, args, kwargs)
def decorates(by):
    def decorate(function):
        def inner(*args): return function(*args) * by.v
        return inner
    return decorate
ONE, TWO = types.SimpleNamespace(v=2.0), types.SimpleNamespace(v=2.0)
class Decorated(Held):
    @decorates(ONE)
    def plain(self): return self.data_ * 2
class Meta(type):
    def __eq__(cls, other): return cls.box.v > 2
    __hash__ = type.__hash__
class Elsewhere(metaclass=Meta): box = types.SimpleNamespace(v=2.0)
class Told(metaclass=Meta): box = types.SimpleNamespace(v=2.0)
class Equal(Held):
    def plain(self): return self.data_ * Told.box.v
class Reading(Held):
    def plain(self): return self.data_ * OPTIONS.gain
@implements(aten.copy_.default)
def copy_(w, other):
    w.data_.copy_(other.data_ if isinstance(other, Held) else other)
    return return_and_correct_aliasing(aten.copy_.default, (w, other), {}, w)
@implements(aten.sub.Tensor)
def sub(x, w): return x - w.data_ * 3
def ones(): return torch.ones(4)
def times(x, w): return torch.mul(x, w)
def minus(x, w): return x - w
def adds_scale(x, w): return x * w + w.how.scale
def gives(x, w): return x + 1, w.detach()
def writes(x, w, v):
    w.copy_(x + 3)
    return x * v
def asks(x, w, v): return w * v
def tanh(x, w): return torch.tanh(w)
def compares(x, w): return x * w * (2 if Elsewhere == float else 7)
def both(x, w, v): return x * w + x * v
def makes(x): return x * Held(x, How())
class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(Held(ones(), How()), requires_grad=False)
    def forward(self, x): return x * self.weight
"""


def given(kind: str = "Held", how: str = "How()", data: str = "ones()"):
    """Arguments: a tensor, and one of `kind`; each in the words of the module above."""

    def make(scene):
        space = vars(scene.m)
        return torch.arange(4.0), eval(f"{kind}({data}, {how}{', ones()' if kind == 'Two' else ''})", space)

    return make


def wrapper(entry, name, *edit, made=None, **more):
    held = {"args": made or given(), "as_is": True}
    put(f"wrapper: {entry}, {name}", SOURCE, entry, edit=edit or None, **{**held, **more})


def unchanged(entry, name="nothing", **more):
    wrapper(entry, name, restores=True, agrees=True, after=False, **more)


unchanged("times")
unchanged("minus")
unchanged("adds_scale")
unchanged("gives")
unchanged("model", args=lambda scene: (torch.arange(4.0),))
unchanged("times", "nothing of two", made=given("Two"))
unchanged("times", "other data", change=args(given(data="torch.ones(4)")))

wrapper("times", "what it does", "self.data_) * FACTOR)", "self.data_) - FACTOR)")
wrapper("times", "what it calls", "def shift(x, by=1.0): return x + by", "def shift(x, by=1.0): return x - by")
wrapper("times", "a default of what it calls", "by=1.0", "by=9.0")
wrapper("times", "a closure of what it calls", "closing(5.0)", "closing(6.0)")
wrapper("times", "a global", "FACTOR = 2.0", "FACTOR = 3.0")
wrapper("times", "a global of the module", change=set_("m.FACTOR", 5.0), after=False)
wrapper("times", "an attribute of its class", "BIAS = 0.5", "BIAS = 1.5")
wrapper("times", "one of its class that is set", change=set_("m.Held.BIAS", 2.5), after=False)
wrapper("times", "one of its object's that is not kept", change=lambda s: setattr(s.args[1], "BIAS", 9.0), agrees=True)
wrapper("times", "a method that is replaced", change=lambda s: setattr(s.m.Held, "plain", s.m.Other.plain), after=False)
wrapper("times", "what its metadata does", "x * self.scale if", "x * self.scale * 2 if")
wrapper("times", "another number in its metadata", change=args(given(how="How(4.0)")))
wrapper("times", "-0.0 in its metadata", change=args(given(how="How(-0.0)")), made=given(how="How(0.0)"), agrees=True)
wrapper("times", "another member in its metadata", change=args(given(how="How(kind=Kind.TWO)")))
wrapper("times", "a member's value", "ONE = 1", "ONE = 5", agrees=True)
wrapper("times", "another class", change=args(given("Other")))
wrapper("times", "a class above it", "class Two(Held):", "class Two(Other):", made=given("Two"), agrees=True)
wrapper("times", "another dtype within", change=args(given(data="ones().double()")))
wrapper("times", "other sizes within", change=args(given(data="torch.ones(1)")), agrees=True)
wrapper("times", "other strides within", change=args(given(data="torch.ones(8)[::2]")), agrees=True)
wrapper("times", "a plain tensor", change=args(lambda scene: (torch.arange(4.0), torch.ones(4))))
wrapper("times", "a tensor more", '["data_"], self.how', '["data_"], How(8.0)')
wrapper("minus", "what a table leads to", "x - w.data_ * 3", "x - w.data_ * 4")
wrapper("minus", "a table without it", change=lambda s: s.m.TABLE.clear(), after=False)
wrapper("times", "a table with more", change=lambda s: s.m.implements(s.m.aten.mul.Tensor)(s.m.sub), after=False)
wrapper("adds_scale", "another number", change=args(given(how="How(4.0)")))
wrapper("times", "its function", "kwargs or {}) * 3", "kwargs or {}) * 4", made=given("Functional"))
wrapper("times", "what it reads", change=set_("m.Options.gain", 5.0), made=given("Reading"), after=False)
wrapper("model", "what it does", "self.data_) * FACTOR)", "self.data_) - FACTOR)", args=lambda s: (torch.arange(4.0),))
wrapper("model", "a plain weight", args=lambda s: (torch.arange(4.0),), change=lambda s: s.model.__setattr__(
    "weight", torch.nn.Parameter(torch.full((4,), 3.0), requires_grad=False)))  # fmt: skip
for name, *edit in (
    ("what it does", "self.data_) * FACTOR)", "self.data_) - FACTOR)"),
    ("a default in its metadata", "kind: Kind = Kind.ONE", "kind: Kind = Kind.TWO"),
    ("a member that is gone", "Kind.ONE\n    def apply", "Kind.TWO\n    def apply"),
):
    wrapper("makes", name, *edit, args=lambda s: (torch.arange(4.0),), since=(2, 12))
for name, values in (("a member's value", "ONE = 5\n    TWO = 2\n@"), ("two members that are one", "ONE = TWO = 2\n@")):
    wrapper("makes", name, "ONE = 1\n    TWO = 2\n@", values, args=lambda s: (torch.arange(4.0),),
        agrees=True, since=(2, 12))  # fmt: skip
wrapper("times", "nothing, and it counts", made=given("Counting"), random=True, refused="changes what it reads")
for changing in ("Adding", "Marking", "Turning"):
    wrapper("times", f"nothing of {changing}", made=given(changing), random=True, refused="changes what it reads")
wrapper("times", "what a decorator holds", change=set_("m.ONE.v", 5.0), made=given("Decorated"), after=False)
wrapper("compares", "nothing", made=given("Equal"), agrees=True, refused="__eq__")
wrapper("times", "nothing, and it asks", made=given("Asking"), agrees=True, refused="is not kept")


def tied(one: bool):
    def make(scene):
        m, data = scene.m, torch.ones(4)
        first = m.Held(data, m.How())
        return torch.arange(4.0), first, first if one else m.Held(data, m.How())

    return make


def within(one: bool):
    """Two wrappers, of one tensor or of two."""

    def make(scene):
        m, data = scene.m, torch.ones(4)
        return torch.arange(4.0), m.Held(data, m.How()), m.Held(data if one else data.clone(), m.How())

    return make


unchanged("both", made=tied(True))
unchanged("writes", made=within(False))
wrapper("writes", "what they hold is one", change=args(within(True)), made=within(False))
wrapper("writes", "what they hold is two", change=args(within(False)), made=within(True))
wrapper("both", "they are two", change=args(tied(False)), made=tied(True), agrees=True)
wrapper("both", "they are one", change=args(tied(True)), made=tied(False), agrees=True)


def two_classes(scene):
    m = scene.m
    return torch.arange(4.0), m.Asks(torch.ones(4), m.How()), m.Boxed(torch.ones(4), m.How())


wrapper("asks", "what another's class holds", change=set_("m.Boxed.box.v", 5.0), made=two_classes, after=False)
unchanged("asks", made=two_classes)
