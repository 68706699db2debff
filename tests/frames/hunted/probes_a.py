# ruff: noqa
"""Candidates of the third hunt, part A."""

from __future__ import annotations

import torch
from probe import put

SOURCE = """
import collections, contextlib, dataclasses, enum, functools, inspect, math, operator, re, sys, types, typing, torch
from torch import nn
LIMIT = 1.0
KIND = "fast"
# -- text
class Cfg:
    def __init__(self, n): self.n = n
    def __repr__(self): return f"Cfg({self.n})"
CFG = Cfg(3)
def str_of(x): return x * len(str(CFG))
@dataclasses.dataclass
class DC: n: int = 3
DCO = DC()
def str_of_dataclass(x): return x * len(str(DCO))
def fstring(x): return x * len(f"{DCO}")
@dataclasses.dataclass(frozen=True)
class FDC: n: int = 3
FDCO = FDC()
def str_of_frozen(x): return x * len(str(FDCO))
class Nested:
    def __init__(self, c): self.c = c
    def __repr__(self): return f"N({self.c!r})"
NEST = Nested(Cfg(3))
def str_nested(x): return x * len(str(NEST))
# -- names
PLUG = types.ModuleType("wg_plug"); sys.modules["wg_plug"] = PLUG
PLUG.op_slow = 3.0
def composed(x): return x * getattr(math, "wg_" + KIND, 1.5)
def composed_has(x): return x * 5 if hasattr(math, "wg_" + KIND) else x * 1.5
def composed_user(x): return x * getattr(PLUG, "op_" + KIND, 1.5)
def composed_torch(x): return x * 5 if hasattr(torch, "wg_" + KIND) else x * 1.5
def dir_of(x): return x * (len([n for n in dir(PLUG) if n.startswith("op_")]) + 1)
NAMES = set()
LAZY = types.ModuleType("wg_lazy"); sys.modules["wg_lazy"] = LAZY
def lazy_get(name):
    if name in NAMES: return 3.0
    raise AttributeError(name)
LAZY.__getattr__ = lazy_get
def lazy_has(x): return x * 5 if hasattr(LAZY, "wg_q") else x * 1.5
def lazy_default(x): return x * getattr(LAZY, "wg_q", 1.5)
def lazy_try(x):
    try: return x * LAZY.wg_q
    except AttributeError: return x * 1.5
class PropModule(types.ModuleType):
    @property
    def wg_p(self):
        if NAMES: return 3.0
        raise AttributeError("wg_p")
PROPM = PropModule("wg_propm"); sys.modules["wg_propm"] = PROPM
def prop_module_has(x): return x * 5 if hasattr(PROPM, "wg_p") else x * 1.5
# -- sourceless
ABSENT, OTHER = object(), object()
class Scaled:
    @classmethod
    def scaled(cls, x): return x * 0.25
    @classmethod
    def twice(cls, x): return x * 2.25
class Pt(collections.namedtuple("PtBase", "a")):
    GAIN = 2.0
    PAIR = (2.0, 3.0)
    @property
    def third(self): return self.a / 4
    def scaled(self, x, k=(2.0,)): return x * k[0]
@functools.lru_cache
def cached_a(n): return n * 2.5
@functools.lru_cache
def cached_b(n): return n * 3.5
class Thing:
    def __init__(self, v): self.v = v
    def first(self, x): return x * self.v
    def second(self, x): return x - self.v
T1, T2 = Thing(2.0), Thing(3.0)
class Docs:
    A = 2.0
class Made:
    def clsm(self, x, f=Scaled.scaled): return f(x)
    def wrapper(self, x, f=(2.0).__mul__): return x * f(3.0)
    def union(self, x, t=int | float): return x * 5 if isinstance(1, t) else x * 1.5
    def generic(self, x, t=typing.List[int]): return x * 5 if t.__args__[0] is int else x * 1.5
    def alias(self, x, t=list[int]): return x * 5 if t.__args__[0] is int else x * 1.5
    def sentinel(self, x, d=ABSENT): return x * 5 if d is ABSENT else x * 1.5
    def match(self, x, m=re.match("(a+)", "aab")): return x * m.end()
    def ordered(self, x, s={8, 0}):
        for i in s: x = x * i + 1
        return x
    def nt(self, x, p=Pt(2.0)): return x * p.GAIN
    def nt_pair(self, x, p=Pt(2.0)): return x * p.PAIR[0]
    def nt_prop(self, x, p=Pt(2.0)): return x * p.third
    def nt_meth(self, x, p=Pt(2.0)): return p.scaled(x)
    def attr(self, x): return x
    def pair(self, x): return x
    def noted(self, x: int): 
        "abc"
        return x
    def lru(self, x, f=cached_a): return f(x)
    def bound(self, x, f=T1.first): return f(x)
    def bound_self(self, x, f=T1.first): return f(x)
    def doc(self, x, t=Docs): return x * 5 if t.__doc__ else x * 1.5
    def name(self, x, t=Docs): return x * len(t.__name__)
    def subs(self, x, t=Docs): return x * (len(t.__subclasses__()) + 1)
    def order(self, x, t=Docs):
        for k in t.__dict__:
            if k in ("A", "B"): x = x * ord(k) + 1
        return x
Made.attr.gain = 2.0
Made.pair.gain = (2.0, 1.0)
def clsm(x): return Made().clsm(x)
def wrapper(x): return Made().wrapper(x)
def union(x): return Made().union(x)
def generic(x): return Made().generic(x)
def alias(x): return Made().alias(x)
def sentinel(x): return Made().sentinel(x)
def match(x): return Made().match(x)
def ordered(x): return Made().ordered(x)
def nt(x): return Made().nt(x)
def nt_pair(x): return Made().nt_pair(x)
def nt_prop(x): return Made().nt_prop(x)
def nt_meth(x): return Made().nt_meth(x)
def fn_attr(x): return x * Made().attr.gain
def fn_pair(x): return x * Made().pair.gain[0]
def fn_name(x): return x * len(Made().attr.__name__)
def fn_doc(x): return x * len(Made().noted.__doc__)
def fn_notes(x): return x * 5 if Made().noted.__annotations__["x"] is int else x * 1.5
def fn_sig(x): return x * 5 if inspect.signature(Made().noted).parameters["x"].annotation is int else x * 1.5
def lru(x): return Made().lru(x)
def bound(x): return Made().bound(x) + T1.v + T2.v
def bound_self(x): return Made().bound_self(x) + T1.v + T2.v
def doc(x): return Made().doc(x)
def name(x): return Made().name(x)
def subs(x): return Made().subs(x)
def order(x): return Made().order(x)
def sets_in_code(x):
    for i in {8, 0}: x = x * i + 1
    return x
# -- code that runs while it is traced
class ByEq(type):
    def __eq__(cls, o): return LIMIT > 2.0
    __hash__ = type.__hash__
class E1(metaclass=ByEq): pass
class E2(metaclass=ByEq): pass
def class_eq(x): return x * 5 if E1 == E2 else x * 1.5
ALIASES = {"z": 1.0}
class Alias(enum.EnumMeta):
    def __call__(cls, v, *a, **k): return super().__call__(ALIASES.get(v, v), *a, **k)
class Al(enum.Enum, metaclass=Alias):
    A = 1.0
    B = 2.0
def enum_alias(x): return x * Al("z").value
class Tup(enum.Enum):
    A = 1
    B = 2
    def __init__(self, v): self.gains = (v * LIMIT,); self.op = torch.add if LIMIT < 2 else torch.sub
def enum_tuple(x): return x * Tup(1).gains[0]
def enum_op(x): return Tup(1).op(x, 2.5)
def enum_loop(x):
    for m in Tup: x = x * m.gains[0]
    return x
class ByDir(type):
    def __dir__(cls): return ["a"] * int(LIMIT)
class Dired(metaclass=ByDir): pass
def class_dir(x): return x * len(dir(Dired))
CAP = 4
class Shape(collections.namedtuple("ShapeB", "a b")):
    def __new__(cls, a, b): return super().__new__(cls, min(a, CAP), b)
SHAPE = Shape(4, 1)
CAP = 4
def nt_new(x): return x.sum() + torch.ones(SHAPE)
# -- subclasses
class Count:
    def __get__(self, o, t): return float(len(t.__subclasses__()) + 1)
class Base0: n = Count()
class Kid(Base0): pass
OBJ0 = Base0()
def subclasses(x): return x * OBJ0.n
def subclasses_direct(x): return x * len(Base0.__subclasses__())
# -- descriptors through a class without a source
class PairD:
    def __init__(self, p): self.p = p
    def __get__(self, o, t): return self.p[0]
class OpD:
    def __init__(self, p): self.p = p
    def __get__(self, o, t): return self.p
class ViaOwner:
    def __get__(self, o, t): return t.pair
class ViaOwnerOp:
    def __get__(self, o, t): return t.opd
class OwnerB: pair = PairD((2.0, 1.0)); d = ViaOwner(); opd = OpD(torch.add); e = ViaOwnerOp()
OWB = OwnerB()
def owner_pair(x): return x * OWB.d
def owner_op(x): return OWB.e(x, 2.5)
class OwnerDoc:
    def __get__(self, o, t): return len(t.__doc__ or "")
class OwnerC:
    "abc"
    d = OwnerDoc()
OWC = OwnerC()
def owner_doc(x): return x * OWC.d
# -- fields
@dataclasses.dataclass
class F1:
    a: float = dataclasses.field(default=1.0, metadata={"scale": 2.0})
F1O = F1()
def fields_meta(x):
    for f in dataclasses.fields(F1()): x = x * f.metadata["scale"]
    return x
def fields_meta_global(x):
    for f in dataclasses.fields(F1O): x = x * f.metadata["scale"]
    return x
def fields_type(x):
    for f in dataclasses.fields(F1()): x = x * 5 if f.type is float else x * 1.5
    return x
# -- values under a guard on their type, or under none
CTX = contextlib.nullcontext()
def null(x):
    with CTX as k: return x * 1.5 if k is None else x * k
M, N = T1.first, T1.first
def eq_methods(x): return x * 5 if M == N else x * 1.5
MV, MW = memoryview(b"ab"), memoryview(b"ab")
def eq_views(x): return x * 5 if MV == MW else x * 1.5
D1, D2 = {"a": 1}, {"a": 1}
I1, I2 = D1.items(), D2.items()
def eq_items(x): return x * 5 if I1 == I2 else x * 1.5
F = (2.0).__mul__
def wrapper_global(x): return x * F(3.0)
class Slots:
    __slots__ = ("v", "w")
    def __init__(self): self.v = 2.0; self.w = 3.0
SL = Slots()
MD = Slots.v
def member_global(x): return x * MD.__get__(SL)
GS = types.FunctionType.__dict__["__name__"]
def helper(y): "abcdefgh"; return y
def getset_global(x): return x * len(GS.__get__(helper))
DQ = collections.deque([1.0, 2.0], maxlen=2)
def deque_max(x): DQ.append(3.0); return x * sum(DQ)
class SlotP:
    __slots__ = ("__v", "w")
    def __init__(self): self.w = 2.0
    def get(self):
        try: return self.__v
        except AttributeError: return 1.5
    def set(self, v): self.__v = v
SP = SlotP()
def slot_private(x): return x * SP.get()
class SlotI:
    __slots__ = iter(("v", "w"))
    def get(self):
        try: return self.v
        except AttributeError: return 1.5
SI = SlotI()
def slot_iter(x): return x * SI.get()
PM = functools.partial(operator.mul, 2.0)
class PartMember:
    part = functools.partial(torch.mul, other=2.0)
    pm = functools.partialmethod(Thing.first)
def part_member(x): return PartMember().part(x)
"""


def hunt(entry, name, old, new, **more):
    put(f"hunt: {entry}, {name}", SOURCE, entry, edit=(old, new), **more)


CFG = ("CFG = Cfg(3)", "CFG = Cfg(33333)")
hunt("str_of", "a field", *CFG)
hunt("str_of_dataclass", "a field", "DCO = DC()", "DCO = DC(33333)")
hunt("fstring", "a field", "DCO = DC()", "DCO = DC(33333)")
hunt("str_of_frozen", "a field", "FDCO = FDC()", "FDCO = FDC(33333)")
hunt("str_nested", "a field", "NEST = Nested(Cfg(3))", "NEST = Nested(Cfg(33333))")

hunt("composed", "it appears", 'KIND = "fast"', 'KIND = "fast"; math.wg_fast = 7.0')
hunt("composed_has", "it appears", 'KIND = "fast"', 'KIND = "fast"; math.wg_fast = 7.0')
hunt("composed_user", "it appears", "PLUG.op_slow = 3.0", "PLUG.op_slow = 3.0; PLUG.op_fast = 7.0")
hunt("composed_torch", "it appears", 'KIND = "fast"', 'KIND = "fast"; torch.wg_fast = 7.0')
hunt("dir_of", "one more", "PLUG.op_slow = 3.0", "PLUG.op_slow = 3.0; PLUG.op_fast = 7.0")
NAMES = ("NAMES = set()", 'NAMES = {"wg_q"}')
hunt("lazy_has", "a name more", *NAMES)
hunt("lazy_default", "a name more", *NAMES)
hunt("lazy_try", "a name more", *NAMES)
hunt("prop_module_has", "a name more", *NAMES)

hunt("clsm", "another method", "f=Scaled.scaled)", "f=Scaled.twice)")
hunt("wrapper", "of another number", "f=(2.0).__mul__", "f=(4.0).__mul__")
hunt("wrapper", "another operation", "f=(2.0).__mul__", "f=(2.0).__sub__")
hunt("union", "another", "t=int | float", "t=str | float")
hunt("generic", "another", "t=typing.List[int]", "t=typing.List[str]")
hunt("alias", "another", "t=list[int]", "t=list[str]")
hunt("sentinel", "another", "d=ABSENT)", "d=OTHER)")
hunt("match", "another", '"(a+)", "aab"', '"(a+)", "aaab"')
hunt("ordered", "another order", "s={8, 0}", "s={0, 8}")
hunt("nt", "a class attribute", "GAIN = 2.0", "GAIN = 8.0")
hunt("nt_pair", "a class attribute", "PAIR = (2.0, 3.0)", "PAIR = (8.0, 3.0)")
hunt("nt_prop", "its code", "self.a / 4", "self.a / 8")
hunt("nt_meth", "a default", "k=(2.0,)", "k=(8.0,)")
hunt("fn_attr", "another", "Made.attr.gain = 2.0", "Made.attr.gain = 8.0")
hunt("fn_pair", "another", "Made.pair.gain = (2.0", "Made.pair.gain = (8.0")
hunt("fn_name", "another", "Made.attr.gain = 2.0", 'Made.attr.gain = 2.0; Made.attr.__name__ = "abcdefgh"')
hunt("fn_doc", "another", '"abc"\n        return x', '"abcdef"\n        return x')
hunt("fn_notes", "another", "def noted(self, x: int)", "def noted(self, x: str)")
hunt("fn_sig", "another", "def noted(self, x: int)", "def noted(self, x: str)")
hunt("lru", "another function", "f=cached_a)", "f=cached_b)")
hunt("bound", "another function", "def bound(self, x, f=T1.first)", "def bound(self, x, f=T1.second)")
hunt("bound_self", "another object", "def bound_self(self, x, f=T1.first)", "def bound_self(self, x, f=T2.first)")
hunt("doc", "it has one", "class Docs:\n", 'class Docs:\n    "abc"\n')
hunt("name", "another", "class Docs:\n    A = 2.0", 'class Docs:\n    A = 2.0\nDocs.__name__ = "abcdefgh"')
hunt("subs", "one more", "class Docs:\n    A = 2.0", "class Docs:\n    A = 2.0\nclass Docs2(Docs): pass")
hunt("order", "another", "class Docs:\n    A = 2.0", "class Docs:\n    A = 2.0", agrees=True)
hunt("sets_in_code", "another order", "for i in {8, 0}", "for i in {0, 8}")

LIMIT = ("LIMIT = 1.0", "LIMIT = 4.0")
hunt("class_eq", "a global", *LIMIT)
hunt("enum_alias", "a table", '{"z": 1.0}', '{"z": 2.0}')
hunt("enum_tuple", "a global", *LIMIT)
hunt("enum_op", "a global", *LIMIT)
hunt("enum_loop", "a global", *LIMIT)
hunt("class_dir", "a global", *LIMIT)
hunt("nt_new", "a global", "CAP = 4\ndef", "CAP = 2\ndef")
KID = ("class Kid(Base0): pass", "class Kid(Base0): pass\nclass Kid2(Base0): pass")
hunt("subclasses", "one more", *KID)
hunt("subclasses_direct", "one more", *KID)
hunt("owner_pair", "another", "PairD((2.0", "PairD((8.0")
hunt("owner_op", "another", "OpD(torch.add)", "OpD(torch.sub)")
hunt("owner_doc", "another", 'class OwnerC:\n    "abc"', 'class OwnerC:\n    "abcdef"')
hunt("fields_meta", "another", '{"scale": 2.0}', '{"scale": 8.0}')
hunt("fields_meta_global", "another", '{"scale": 2.0}', '{"scale": 8.0}')
hunt("fields_type", "another", "a: float = dataclasses", "a: int = dataclasses")
hunt("null", "it gives something", "CTX = contextlib.nullcontext()", "CTX = contextlib.nullcontext(4.0)")
hunt("eq_methods", "of another object", "M, N = T1.first, T1.first", "M, N = T1.first, T2.first")
hunt("eq_views", "other bytes", 'memoryview(b"ab"), memoryview(b"ab")', 'memoryview(b"ab"), memoryview(b"cd")')
hunt("eq_items", "another item", 'D1, D2 = {"a": 1}, {"a": 1}', 'D1, D2 = {"a": 1}, {"a": 2}')
hunt("wrapper_global", "another operation", "F = (2.0).__mul__", "F = (2.0).__add__")
hunt("member_global", "another", "MD = Slots.v", "MD = Slots.w")
hunt("getset_global", "another", '__dict__["__name__"]', '__dict__["__doc__"]')
hunt("deque_max", "another", "maxlen=2", "maxlen=3", agrees=True)
put("hunt: slot_private, it appears", SOURCE, "slot_private", change=lambda s: s.m.SP.set(7.0))
put("hunt: slot_iter, it appears", SOURCE, "slot_iter", change=lambda s: setattr(s.m.SI, "v", 7.0))
hunt("part_member", "another", "other=2.0", "other=8.0")

MORE = """
import argparse, collections, contextlib, dataclasses, enum, functools, itertools, math, operator, sys, types, weakref, torch
from torch import nn
BAG = types.SimpleNamespace(a=2.0, b=3.0)
ARGS = argparse.Namespace(a=2.0, b=3.0)
class Bag: pass
OBJ = Bag(); OBJ.a = 2.0; OBJ.b = 3.0
def vars_order(x):
    for k, v in vars(BAG).items(): x = x * v + 1
    return x
def dict_order(x):
    for k, v in OBJ.__dict__.items(): x = x * v + 1
    return x
def names_order(x):
    for k in ARGS.__dict__: x = x * getattr(ARGS, k) + 1
    return x
def values_order(x):
    for v in OBJ.__dict__.values(): x = x * v + 1
    return x
def first_of(x): return x * next(iter(vars(OBJ).values()))
def helper(y): return y
helper.a = 2.0; helper.b = 3.0
def function_order(x):
    for k, v in helper.__dict__.items(): x = x * v + 1
    return x
class Flags(enum.IntFlag):
    A = 1
FL = Flags(8)
def flags(x): return x * int(FL)
def flags_op(x): return x * (FL | 1)
class FlagK(enum.Flag, boundary=enum.KEEP):
    A = 1
FK = FlagK(8)
def flags_value(x): return x * FK.value
class Both(dict):
    tag = 2.0
    def __missing__(self, k): return self.tag
B = Both(a=1.0)
def missing(x): return x * B["z"]
class Sl(list):
    def total(self): return sum(self) * 2
SLI = Sl([1.0, 2.0])
def list_sub(x): return x * SLI.total()
CNT = collections.Counter("aab")
def counter(x): return x * CNT.most_common(1)[0][1]
def counter_missing(x): return x * (CNT["z"] + 1)
CM = collections.ChainMap({"a": 1.0}, {"b": 2.0})
def chain(x): return x * CM["b"]
UD = collections.UserDict(a=1.0)
def user_dict(x): return x * UD.get("b", 1.5)
def user_dict_loop(x):
    for k in UD: x = x * UD[k] + 1
    return x
IT = iter((1.0, 2.0, 3.0))
def partly(x): return x * next(IT)
CO = itertools.count(3)
def counts(x): return x * next(CO)
class Ctx:
    def __init__(self): self.k = 2.0; self.log = []
    def __enter__(self): self.log.append(self.k); return self.k
    def __exit__(self, t, v, tb): return t is ValueError
CTX = Ctx()
def ctx(x):
    with CTX as k:
        x = x * k
        raise ValueError("a")
    return x + len(CTX.log)
STACK = contextlib.ExitStack()
class MyErr(ValueError):
    code = 2.0
    def __init__(self, v=3.0): super().__init__(v); self.v = v
ERRORS = (KeyError, ValueError)
def raises(x): raise MyErr(LEVEL)
LEVEL = 4.0
def handles(x):
    try: return raises(x)
    except ERRORS as e: return x * e.code * e.args[0]
def chained(x):
    try:
        try: raise KeyError("a")
        except KeyError as e: raise MyErr() from e
    except MyErr as e: return x * 5 if isinstance(e.__cause__, KeyError) else x * 1.5
@functools.total_ordering
class Ordered:
    def __init__(self, v): self.v = v
    def __lt__(self, o): return self.v < o.v
    def __eq__(self, o): return self.v == o.v
OA, OB = Ordered(1), Ordered(2)
def total(x): return x * 5 if OA >= OB else x * 1.5
CMP = functools.cmp_to_key(lambda a, b: a - b)
def cmp_key(x): return x * sorted([3, 1, 2], key=CMP)[0]
GETTER = operator.attrgetter("a")
MCALL = operator.methodcaller("get", "b", 1.5)
def methodcaller(x): return x * MCALL({"a": 2.0, "b": 3.0})
class WithProp:
    p = property(operator.attrgetter("a"))
    def __init__(self): self.a = 2.0; self.b = 3.0
WP = WithProp()
def prop_getter(x): return x * WP.p
class Lazy:
    @functools.cached_property
    def k(self): return 2.0
LZ = Lazy()
def cached(x): return x * LZ.k
class Sub1:
    registry = {}
    def __init_subclass__(cls, **kw): Sub1.registry[cls.__name__] = kw.get("gain", 1.0)
class SubA(Sub1, gain=2.0): pass
def registered(x): return x * Sub1.registry["SubA"]
class Meta(type):
    @property
    def gain(cls): return 2.0
    def __len__(cls): return 3
    def __iter__(cls): return iter((1.0, 2.0))
    def __contains__(cls, v): return v == 3
    def __getitem__(cls, k): return k * 2.0
    def __call__(cls, *a): return super().__call__(*a)
class WithMeta(metaclass=Meta): pass
def meta_prop(x): return x * WithMeta.gain
def meta_len(x): return x * len(WithMeta)
def meta_iter(x): return x * sum(list(WithMeta))
def meta_in(x): return x * 5 if 3 in WithMeta else x * 1.5
def meta_item(x): return x * WithMeta[2.0]
class MetaAttr(type):
    def __getattr__(cls, name):
        if name in SHOWN: return 3.0
        raise AttributeError(name)
SHOWN = set()
class Shown(metaclass=MetaAttr): pass
def meta_has(x): return x * 5 if hasattr(Shown, "q") else x * 1.5
class Fr:
    def m(self, x, t=Shown): return x * 5 if hasattr(t, "q") else x * 1.5
def meta_has_sourceless(x): return Fr().m(x)
class Watch:
    def __init__(self): self.__dict__["log"] = []
    def __setattr__(self, n, v): self.log.append(n); self.__dict__[n] = v
WT = Watch()
def watched(x): WT.a = 5; return x * (len(WT.log) + WT.a)
REF = weakref.ref(OBJ)
def dead(x): return x * 5 if REF() is None else x * REF().a
PROXY = weakref.proxy(OBJ)
def proxied(x): return x * PROXY.a
WVD = weakref.WeakValueDictionary(a=OBJ)
def weak_dict(x): return x * 5 if "a" in WVD else x * 1.5
WS = weakref.WeakSet([OBJ])
def weak_set(x): return x * (len(WS) + 1)
class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.a = nn.Linear(4, 4, bias=False); self.k = 2.0
        with torch.no_grad(): self.a.weight.fill_(0.5)
    def forward(self, x): return self.a(x) * self.k
net = Net().requires_grad_(False)
def make_hook(k):
    def hook(m, i, o): return o * k
    return hook
def make_obj_hook(k):
    class H:
        def __init__(self): self.k = k
        def __call__(self, m, i, o): return o * self.k
    return H()
class Hook:
    def __init__(self, k): self.k = k
    def __call__(self, m, i, o): return o * self.k
    def meth(self, m, i, o): return o - self.k
HK = Hook(3.0)
net.a.register_forward_hook(make_hook(3.0))
net.a.register_forward_hook(HK)
net.register_forward_hook(HK.meth)
net.a.register_forward_pre_hook(functools.partial(lambda k, m, i: (i[0] * k,), 2.0))
def hooked(x): return net(x)
class Par(nn.Module):
    def __init__(self, k): super().__init__(); self.k = k
    def forward(self, w): return w * self.k
pnet = Net().requires_grad_(False)
nn.utils.parametrize.register_parametrization(pnet.a, "weight", Par(3.0))
def parametrized(x): return pnet(x)
wnet = Net().requires_grad_(False)
nn.utils.weight_norm(wnet.a)
def normed(x): return wnet(x)
class MyList(nn.ModuleList):
    def forward(self, x):
        for m in self: x = m(x)
        return x
ml = MyList([nn.ReLU(), nn.Sigmoid()])
def mod_list(x): return ml(x)
md = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Sigmoid()})
def mod_dict(x):
    for k, m in md.items(): x = m(x) * len(k)
    return x
pl = nn.ParameterList([torch.ones(4), torch.ones(4) * 2])
def par_list(x):
    for p in pl: x = x * p + 1
    return x
fnet = Net().requires_grad_(False)
fnet.forward = lambda x: x * 3.0
def own_forward(x): return fnet(x)
fnet2 = Net().requires_grad_(False)
fnet2.forward = functools.partial(lambda k, x: x * k, 3.0)
def partial_forward(x): return fnet2(x)
fnet3 = Net().requires_grad_(False)
fnet3.forward = HK.meth
def bound_forward(x): return fnet3(x, x, x)
class CallObj:
    def __init__(self, k): self.k = k
    def __call__(self, x): return x * self.k
fnet4 = Net().requires_grad_(False)
fnet4.forward = CallObj(3.0)
def object_forward(x): return fnet4(x)
"""


def more(entry, name, old=None, new=None, **rest):
    put(f"hunt2: {entry}, {name}", MORE, entry, edit=(old, new) if old else None, **rest)


for entry in ("dict_order", "values_order", "first_of"):
    more(entry, "another", "OBJ.a = 2.0; OBJ.b = 3.0", "OBJ.b = 3.0; OBJ.a = 2.0")
more("vars_order", "another", "SimpleNamespace(a=2.0, b=3.0)", "SimpleNamespace(b=3.0, a=2.0)")
more("names_order", "another", "argparse.Namespace(a=2.0, b=3.0)", "argparse.Namespace(b=3.0, a=2.0)")
more("function_order", "another", "helper.a = 2.0; helper.b = 3.0", "helper.b = 3.0; helper.a = 2.0")
more("flags", "another", "FL = Flags(8)", "FL = Flags(16)")
more("flags_op", "another", "FL = Flags(8)", "FL = Flags(16)")
more("flags_value", "another", "FK = FlagK(8)", "FK = FlagK(16)")
more("missing", "a tag", "B = Both(a=1.0)", "B = Both(a=1.0); B.tag = 8.0")
more("list_sub", "an item", "Sl([1.0, 2.0])", "Sl([1.0, 5.0])")
more("counter", "another", 'Counter("aab")', 'Counter("aaab")')
more("counter_missing", "appears", 'Counter("aab")', 'Counter("aabzz")')
more("chain", "shadowed", 'ChainMap({"a": 1.0}', 'ChainMap({"b": 7.0}')
more("user_dict", "appears", "UserDict(a=1.0)", "UserDict(b=4.0)")
more("user_dict_loop", "order", "UserDict(a=1.0)", "UserDict(b=4.0, a=1.0)")
more("partly", "consumed", "IT = iter((1.0, 2.0, 3.0))", "IT = iter((1.0, 2.0, 3.0)); next(IT)", as_is=True)
more("counts", "consumed", "CO = itertools.count(3)", "CO = itertools.count(3); next(CO)", as_is=True)
more("ctx", "a field", "CTX = Ctx()", "CTX = Ctx(); CTX.k = 7.0", as_is=True)
more("handles", "not handled", "(KeyError, ValueError)", "(KeyError, IndexError)")
more("handles", "class attribute", "code = 2.0", "code = 5.0")
more("handles", "level", "LEVEL = 4.0", "LEVEL = 5.0")
more("chained", "another cause", "from e\n", "from None\n")
more("total", "another", "Ordered(1), Ordered(2)", "Ordered(2), Ordered(2)")
more("cmp_key", "another", "lambda a, b: a - b", "lambda a, b: b - a")
more("methodcaller", "another", 'methodcaller("get", "b"', 'methodcaller("get", "a"')
more("prop_getter", "another", 'attrgetter("a"))', 'attrgetter("b"))')
more("cached", "it is there", "LZ = Lazy()", 'LZ = Lazy(); LZ.__dict__["k"] = 5.0')
more("registered", "another", "gain=2.0)", "gain=5.0)")
for entry, old, new in (
    ("meta_prop", "return 2.0\n    def __len__", "return 5.0\n    def __len__"),
    ("meta_len", "return 3\n", "return 4\n"),
    ("meta_iter", "iter((1.0, 2.0))", "iter((1.0, 4.0))"),
    ("meta_in", "return v == 3", "return v == 4"),
    ("meta_item", "return k * 2.0", "return k * 4.0"),
):
    more(entry, "its code", old, new)
more("meta_has", "a name", "SHOWN = set()", 'SHOWN = {"q"}')
more("meta_has_sourceless", "a name", "SHOWN = set()", 'SHOWN = {"q"}')
more("watched", "longer", "WT = Watch()", "WT = Watch(); WT.log.append(1)", as_is=True)
more("dead", "it is dead", "REF = weakref.ref(OBJ)", "REF = weakref.ref(Bag())")
more("proxied", "another", "PROXY = weakref.proxy(OBJ)", "OBJ2 = Bag(); OBJ2.a = 7.0; PROXY = weakref.proxy(OBJ2)")
more("weak_dict", "gone", "WeakValueDictionary(a=OBJ)", "WeakValueDictionary(a=Bag())")
more("weak_set", "gone", "WeakSet([OBJ])", "WeakSet([Bag()])")
more("hooked", "a cell", "register_forward_hook(make_hook(3.0))", "register_forward_hook(make_hook(7.0))")
more("hooked", "a field", "HK = Hook(3.0)", "HK = Hook(7.0)")
more("hooked", "a partial", "(i[0] * k,), 2.0)", "(i[0] * k,), 7.0)")
more("parametrized", "a field", "Par(3.0)", "Par(7.0)")
more("normed", "its dim", "weight_norm(wnet.a)", "weight_norm(wnet.a, dim=None)")
more("mod_list", "order", "MyList([nn.ReLU(), nn.Sigmoid()])", "MyList([nn.Sigmoid(), nn.ReLU()])", agrees=True)
more("mod_dict", "order", '{"a": nn.ReLU(), "b": nn.Sigmoid()}', '{"b": nn.Sigmoid(), "a": nn.ReLU()}', agrees=True)
more("par_list", "shorter", "torch.ones(4), torch.ones(4) * 2]", "torch.ones(4)]")
more("own_forward", "its code", "lambda x: x * 3.0", "lambda x: x * 5.0")
more("partial_forward", "its argument", "lambda k, x: x * k, 3.0)", "lambda k, x: x * k, 5.0)")
more("bound_forward", "a field", "HK = Hook(3.0)", "HK = Hook(7.0)")
more("object_forward", "a field", "CallObj(3.0)", "CallObj(5.0)")

REPLAY = """
import collections, contextlib, dataclasses, enum, functools, itertools, math, operator, sys, types, weakref, torch
from torch import nn
def show(o):
    d = dict(getattr(o, "__dict__", {}))
    for c in type(o).__mro__:
        for s in getattr(c, "__slots__", ()):
            if hasattr(o, s): d[s] = getattr(o, s)
    return {k: (v.tolist() if isinstance(v, torch.Tensor) else v) for k, v in sorted(d.items())}
class Base:
    def __repr__(self): return f"{type(self).__name__}{show(self)}{list(self) if isinstance(self, (list, dict, collections.deque)) else ''}"
class Sl(Base):
    __slots__ = ("v", "w")
class Prop(Base):
    def __init__(self): self.x = 1.0
    @property
    def p(self): return self.x
    @p.setter
    def p(self, v): self.x = v * 10
    @p.deleter
    def p(self): self.x = -1.0
class Desc:
    def __set_name__(self, o, n): self.n = n
    def __get__(self, o, t): return o.__dict__.get("_" + self.n, 1.0)
    def __set__(self, o, v): o.__dict__["_" + self.n] = v * 3
class WithDesc(Base): d = Desc()
class Watch(Base):
    def __init__(self): self.__dict__["log"] = []
    def __setattr__(self, n, v): self.log.append(n); self.__dict__[n] = v
class LSub(Base, list): pass
class DSub(Base, dict):
    def __setitem__(self, k, v): super().__setitem__(k, v * 2)
class QSub(Base, collections.deque): pass
class Count(Base): total = 0
@dataclasses.dataclass(frozen=True)
class Fr: a: float = 1.0
@dataclasses.dataclass
class Post:
    a: float = 1.0
    items: list = dataclasses.field(default_factory=list)
    def __post_init__(self): self.items.append(self.a); self.b = self.a * SCALE
SCALE = 2.0
G = 1
NT = collections.namedtuple("NT", "a b")
class Err(ValueError):
    def __init__(self, v): super().__init__(v); self.v = v
def slots(x, o): o.v = x * 2; o.w = 5; return x
def prop(x, o): o.p = 4.0; return x * o.p
def prop_del(x, o): del o.p; return x * o.x
def desc(x, o): o.d = 4.0; return x * o.d
def watch(x, o): o.a = 5; o.b = x + 1; return x * len(o.log)
def lsub(x, o): o.append(x * 2); o.name = "n"; return x * len(o)
def dsub(x, o): o["k"] = 3.0; return x * o["k"]
def deq(x, o): o.append(3.0); o.popleft(); o.rotate(1); return x * sum(o)
def ddict(x, o): o["z"].append(x + 1); return x * len(o["z"])
def counter(x, o): o.update("ab"); o["c"] += 2; return x * o["a"]
def odict(x, o): o.move_to_end("a"); o["n"] = x; del o["b"]; return x
def sets(x, o): o.add(5); o.discard(1); return x * len(o)
def klass(x, o): type(o).total += 1; return x * type(o).total
def class_count(x, o): Count.total = Count.total + 1; return x * Count.total
def func_attr(x, o): func_attr.n = 5; return x
def new_global(x, o):
    global NEW
    NEW = x * 2
    return x
def glob(x, o):
    global G
    G += 1
    return x * G
def read_back(x, o): return x, G, globals().get("NEW", None)
def module_attr(x, o): math.wg_set = 4.0; return x * math.wg_set
def deleted(x, o): del o.x; return x * getattr(o, "x", 3.0)
def returned(x, o): return x, NT(x * 2, 3), [Fr(2.0), Post(3.0)], {"k": LSub([1])}
def raised(x, o): raise Err(3.0)
def nested(x, o): o.child = Prop(); o.child.p = 2.0; o.child.parent = o.x; return x
def cyclic(x, o): a = []; a.append(a); o.me = len(a); o.l = [1, [2, x]]; o.l[1].append(o.l[0]); return x
def swapped(x, o, p): o.x, p.x = p.x, o.x; return x * o.x
def listed(x, o): o[1:2] = [7, 8]; o.sort(reverse=True); o.extend([1]); o.insert(0, x); return x
def listed2(x, o): o.clear(); o += [x, 2]; return x * len(o)
def make():
    n = 1.0
    def inc():
        nonlocal n
        n = n * 2 + 1
        return n
    return inc
INC = make()
def cell(x, o): return x * INC() * INC()
def itered(x, o): return x * next(o) + next(o)
def array(x, o): o[0] = 5.0; return x * o[1]
def grad(x, o): o.grad = x * 2; return x
def inplace_attr(x, o): o.t.add_(1); o.t = o.t * 2; return x
class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.register_buffer("n", torch.zeros(1)); self.k = 1; self.hist = []; self.last = None
    def forward(self, x):
        self.n.add_(1); self.k += 1; self.hist.append(self.k); self.last = x * 2
        self.n = self.n * 2
        return x * self.k
    def __repr__(self): return f"Net {self.n} {self.k} {self.hist} {self.last}"
def net(x, o): return o(x)
def netbuf(x, o): o.register_buffer("m", x * 2); return x
def delmod(x, o): o.k = 9; del o.last; return x * o.k
"""


def replay(entry, make, **rest):
    put(f"replay: {entry}", REPLAY, entry, args=make, as_is=True, restores=True, after=False, **rest)


def o(make):
    return lambda s: (torch.arange(4.0), make(s.m))


replay("slots", o(lambda m: m.Sl()))
replay("prop", o(lambda m: m.Prop()))
replay("prop_del", o(lambda m: m.Prop()))
replay("desc", o(lambda m: m.WithDesc()))
replay("watch", o(lambda m: m.Watch()))
replay("lsub", o(lambda m: m.LSub([1])))
replay("dsub", o(lambda m: m.DSub(a=1)))
replay("deq", o(lambda m: m.collections.deque([1.0, 2.0])))
replay("ddict", o(lambda m: m.collections.defaultdict(list)))
replay("counter", o(lambda m: m.collections.Counter("aab")))
replay("odict", o(lambda m: m.collections.OrderedDict(a=1, b=2, c=3)))
replay("sets", o(lambda m: {1, 2}))
replay("klass", o(lambda m: m.Count()))
replay("class_count", o(lambda m: m.Count()))
replay("func_attr", o(lambda m: 1))
replay("new_global", o(lambda m: 1))
replay("glob", o(lambda m: 1))
replay("module_attr", o(lambda m: 1))
replay("deleted", o(lambda m: m.Prop()))
replay("returned", o(lambda m: 1))
replay("raised", o(lambda m: 1))
replay("nested", o(lambda m: m.Prop()))
replay("cyclic", o(lambda m: m.Prop()))
replay("swapped", lambda s: (torch.arange(4.0), s.m.Prop(), s.m.WithDesc().__class__() if 0 else s.m.Prop()))
replay("listed", o(lambda m: [3, 1, 2]))
replay("listed2", o(lambda m: [3, 1, 2]))
replay("cell", o(lambda m: 1))
replay("itered", o(lambda m: iter((1.0, 2.0, 3.0))))
replay("grad", o(lambda m: torch.ones(4)))
replay("inplace_attr", o(lambda m: m.types.SimpleNamespace(t=torch.ones(2))))
replay("net", o(lambda m: m.Net()))
replay("netbuf", o(lambda m: m.Net()))
replay("delmod", o(lambda m: m.Net()))

RUN = """
import collections, dataclasses, enum, functools, math, operator, types, torch
LIMIT = 1.0
PREFIX = "a"
class Scale(float):
    def __mul__(self, o): return float(self) + LIMIT
    def __rmul__(self, o): return float(self) + LIMIT
    def __neg__(self): return -LIMIT
    def __bool__(self): return LIMIT > 2
    def __eq__(self, o): return LIMIT > 2
    def __lt__(self, o): return LIMIT > 2
    def __hash__(self): return 1
    def __round__(self, n=None): return int(LIMIT)
    def __floor__(self): return int(LIMIT)
    def __abs__(self): return LIMIT
    def __float__(self): return LIMIT
    def __str__(self): return "a" * int(LIMIT)
    def __format__(self, s): return "a" * int(LIMIT)
SC = Scale(2.0)
def c_mul(x): return x * (SC * 3.0)
def c_rmul(x): return x * (3.0 * SC)
def c_neg(x): return x * (-SC)
def c_bool(x): return x * 5 if SC else x * 1.5
def c_not(x): return x * 5 if not SC else x * 1.5
def c_eq(x): return x * 5 if SC == 7.0 else x * 1.5
def c_lt(x): return x * 5 if SC < 7.0 else x * 1.5
def c_round(x): return x * round(SC)
def c_floor(x): return x * math.floor(SC)
def c_abs(x): return x * abs(SC)
def c_float(x): return x * float(SC)
def c_str(x): return x * len(str(SC))
def c_fmt(x): return x * len(f"{SC}")
def c_in(x): return x * 5 if SC in (7.0, 8.0) else x * 1.5
def c_max(x): return x * max(SC, 1.0)
def c_tensor(x): return x * SC
class Lev(enum.IntEnum):
    A = 1
    B = 2
    def __add__(self, o): return int.__add__(self, o) * int(LIMIT)
    def __lt__(self, o): return LIMIT > 2
    def __int__(self): return int(LIMIT)
    def __index__(self): return int(LIMIT)
    def __str__(self): return PREFIX * 2
    def __format__(self, s): return PREFIX * 3
    def __len__(self): return int(LIMIT)
    def __getitem__(self, k): return LIMIT
    def __call__(self, x): return x * LIMIT
    def __contains__(self, v): return LIMIT > 2
    def __neg__(self): return int(LIMIT)
LV = Lev.A
def e_add(x): return x * (LV + 1)
def e_lt(x): return x * 5 if LV < 7 else x * 1.5
def e_int(x): return x * int(LV)
def e_proxy(x): return x * LV
def e_str(x): return x * len(str(LV))
def e_fmt(x): return x * len(f"{LV}")
def e_pct(x): return x * len("%s" % LV)
def e_len(x): return x * len(LV)
def e_item(x): return x * LV[0]
def e_call(x): return LV(x)
def e_in(x): return x * 5 if 3 in LV else x * 1.5
def e_neg(x): return x * (-LV)
def e_sorted(x): return x * sorted([Lev.B, Lev.A])[0].value
class Eq(enum.Enum):
    A = 1
    B = 2
    def __eq__(self, o): return LIMIT > 2
    def __hash__(self): return 1
def e_key(x): return x * {Eq.A: 2.0}.get(Eq.B, 3.0)
def e_eq(x): return x * 5 if Eq.A == Eq.B else x * 1.5
def e_in_list(x): return x * 5 if Eq.A in (Eq.B,) else x * 1.5
class Auto(str, enum.Enum):
    A = "a"
    def __str__(self): return PREFIX + self.value
NAMES = {"aa": 2.0, "bbba": 3.0}
def s_str(x): return x * NAMES[str(Auto.A)]
def s_fmt(x): return x * len(f"{Auto.A}")
class Text(str):
    def __eq__(self, o): return LIMIT > 2
    __hash__ = str.__hash__
    def upper(self): return "a" * int(LIMIT)
    def __len__(self): return int(LIMIT)
    def __contains__(self, o): return LIMIT > 2
    def __getitem__(self, k): return "abcdefgh"[int(LIMIT)]
TX = Text("abc")
def t_eq(x): return x * 5 if TX == "zzz" else x * 1.5
def t_upper(x): return x * len(TX.upper())
def t_len(x): return x * len(TX)
def t_in(x): return x * 5 if "z" in TX else x * 1.5
def t_item(x): return x * ord(TX[0])
def t_join(x): return x * len("".join([TX, "b"]))
class Num(int):
    def __index__(self): return int(LIMIT)
    def __int__(self): return int(LIMIT)
    def __add__(self, o): return int(LIMIT)
NM = Num(2)
def n_range(x):
    for i in range(NM): x = x + 1
    return x
def n_index(x): return x * [1.0, 2.0, 3.0, 4.0, 5.0][NM]
def n_add(x): return x * (NM + 1)
def n_size(x): return x.sum() + torch.ones(NM).sum()
def n_sum(x): return x * sum([NM, 1])
"""
import re as _re

for _entry in _re.findall(r"^def ([a-z]_\w+)\(", RUN, _re.M):
    _edit = ('PREFIX = "a"', 'PREFIX = "bbb"') if _entry in "e_str e_fmt e_pct s_str s_fmt".split() else LIMIT
    put(f"run: {_entry}", RUN, _entry, edit=_edit)

LAST = """
import collections, functools, inspect, math, sys, types, torch
def helper(x):
    def inner(y): return y
    return x * len(inner.__name__)
def nested_name(x): return helper(x)
def helper2(x):
    def inner(y): return y
    return x * len(inner.__qualname__)
def nested_qualname(x): return helper2(x)
def deco(f):
    @functools.wraps(f)
    def w(*a): return f(*a) * len(w.__name__)
    return w
def helper3(x):
    @deco
    def inner(y): return y
    return inner(x)
def nested_wraps(x): return helper3(x)
def helper4(x):
    def gen():
        yield 1.0
        yield 2.0
    return x * sum(gen())
def generated(x): return helper4(x)
def helper5(x):
    value = 2.0
    return x * len(locals())  * len(sorted(locals())[0])
def local_names(x): return helper5(x)
TABLE = {"inner": 2.0, "innermost": 3.0}
def helper6(x):
    def inner(y): return y
    return x * TABLE[inner.__name__]
def nested_table(x): return helper6(x)
"""
for _entry, _part in (
    ("nested_name", "helper(x)"),
    ("nested_qualname", "helper2(x)"),
    ("nested_wraps", "helper3(x)"),
    ("nested_table", "helper6(x)"),
):
    _start = LAST.index(f"def {_part}:")
    _end = LAST.index("\ndef ", _start + 1)
    _old = LAST[_start:_end]
    put(f"last: {_entry}", LAST, _entry, edit=(_old, _old.replace("inner", "innermost")))
put("last: local_names", LAST, "local_names", edit=("    value = 2.0", "    a = 2.0"))

LIES = '''
import collections, dataclasses, datetime, decimal, enum, functools, pathlib, sys, types, torch
class Money(decimal.Decimal):
    def __repr__(self): return "***"
LOW, HIGH = Money("0.5"), Money("0.7")
def money(x): return x * 5 if HIGH > LOW else x * 1.5
class Wait(datetime.timedelta):
    def __repr__(self): return "a while"
SHORT = Wait(seconds=3)
def wait(x): return x * 5 if SHORT else x * 1.5
LONG = Wait(seconds=3)
def waits(x): return x * 5 if SHORT < LONG else x * 1.5
class Tag(bytes):
    def __repr__(self): return "tag"
TAG = Tag(b"ab")
def tag(x): return x * 5 if TAG == b"ab" else x * 1.5
class Lvl(enum.IntEnum):
    A = 1
    B = 2
    @property
    def name(self): return "level"
LV = Lvl.A
def level(x): return x * LV
def level_int(x): return x * int(LV)
class Col(enum.Enum):
    A = 1
    B = 2
    @property
    def name(self): return "colour"
CO = Col.A
def colour(x): return x * 5 if CO == Col.B else x * 1.5
def colour_value(x): return x * CO.value
prof = types.ModuleType("profile"); sys.modules["profile"] = prof
exec("""
import enum
LIMIT = 1.0
class Mode(enum.Enum):
    A = 1
    def __init__(self, v): self.gain = v * LIMIT
class Conf: eps = 0.25; pair = (2.0, 1.0)
class Desc:
    def __get__(self, o, t): return t.pair[0] * t.eps
class Owner(Conf): d = Desc()
class Made:
    def run(self, x, p=(3.0, 1.0), t=Conf): return x * p[0] * t.eps
def number(o): return id(o) % 7 + 1
""", prof.__dict__)
Mode, Conf, Owner, Made, number = prof.Mode, prof.Conf, prof.Owner, prof.Made, prof.number
OWN = Owner()
def std_enum(x): return x * Mode(1).gain
def std_owner(x): return x * OWN.d
def std_made(x): return Made().run(x)
'''


def lies(entry, name, old, new, **rest):
    put(f"lies: {entry}, {name}", LIES, entry, edit=(old, new), **rest)


lies("money", "another value", 'Money("0.7")', 'Money("0.3")')
lies("wait", "zero", "SHORT = Wait(seconds=3)", "SHORT = Wait(0)")
lies("waits", "another", "LONG = Wait(seconds=3)", "LONG = Wait(seconds=5)")
lies("tag", "other bytes", 'Tag(b"ab")', 'Tag(b"cd")')
lies("level", "another", "LV = Lvl.A", "LV = Lvl.B")
lies("level_int", "another", "LV = Lvl.A", "LV = Lvl.B")
lies("colour", "another", "CO = Col.A", "CO = Col.B")
lies("colour_value", "another", "CO = Col.A", "CO = Col.B")
lies("std_enum", "a global", "LIMIT = 1.0", "LIMIT = 4.0")
lies("std_owner", "a pair", "pair = (2.0", "pair = (8.0")
lies("std_owner", "an attribute", "eps = 0.25", "eps = 0.5")
lies("std_made", "a default", "p=(3.0", "p=(8.0")
lies("std_made", "an attribute", "eps = 0.25", "eps = 0.5")

EQUAL = """
import enum, torch
class ByName(type):
    def __eq__(cls, o): return isinstance(o, type) and cls.__name__ == o.__name__
    def __hash__(cls): return hash(cls.__name__)
class D:
    def __get__(self, o, t): return t.pair[0] * t.eps
class Cfg(metaclass=ByName): eps = 0.25; pair = (2.0, 1.0); d = D()
First = Cfg
class Cfg(metaclass=ByName): eps = 0.75; pair = (3.0, 1.0); d = D()
Second = Cfg
A, B = First(), Second()
def by_name(x): return x * A.d + B.d
class Mode1(enum.Enum):
    A = 1
class AlwaysEq(type):
    def __eq__(cls, o): return True
    def __hash__(cls): return 1
class Obj(metaclass=AlwaysEq):
    def __init__(self, v): self.v = v
    def __repr__(self): return "Obj"
    def m(self, x): return x * self.v
O1, O2 = Obj(2.0), Obj(3.0)
def always(x): return O1.m(x) + O2.v
"""
put("equal: by_name, the second's", EQUAL, "by_name", edit=("eps = 0.75", "eps = 0.5"))
put("equal: by_name, the second's pair", EQUAL, "by_name", edit=("pair = (3.0", "pair = (4.0"))
put("equal: by_name, the first's", EQUAL, "by_name", edit=("eps = 0.25", "eps = 0.5"))
put("equal: always, a field", EQUAL, "always", edit=("Obj(3.0)", "Obj(4.0)"))

EXTRA = """
import collections, enum, types, torch
ALIASES = {"z": 1.0}
class Alias(enum.EnumMeta):
    def __call__(cls, v, *a, **k): return super().__call__(ALIASES.get(v, v), *a, **k)
class Al(enum.Enum, metaclass=Alias):
    A = 1.0
    B = 2.0
    def __init__(self, v): self.gain = v
def alias_call(x): return x * Al("z").gain
def alias_is(x): return x * 5 if Al("z") is Al.B else x * 1.5
CAP = 4
class Shape(collections.namedtuple("ShapeB", "a b")):
    def __new__(cls, a, b): return super().__new__(cls, min(a, CAP), b)
SHAPE = Shape(4, 1)
CAP = 4
def nt_expand(x): return x.expand(SHAPE)
def nt_eq(x): return x * 5 if SHAPE in [(4, 1)] else x * 1.5
"""
put("extra: alias_call", EXTRA, "alias_call", edit=('{"z": 1.0}', '{"z": 2.0}'))
put("extra: alias_is", EXTRA, "alias_is", edit=('{"z": 1.0}', '{"z": 2.0}'))
put("extra: nt_expand", EXTRA, "nt_expand", edit=("CAP = 4\ndef", "CAP = 2\ndef"), args=lambda: (torch.ones(1, 1),))

TAIL = """
import argparse, collections, dataclasses, enum, functools, inspect, sys, types, torch
from torch import nn
def helper(y):
    value = y
    return value
def code_locals(x): return x * len(helper.__code__.co_varnames[-1])
nn.ReLU.wg_gain = 2.0
argparse.Namespace.wg_gain = 2.0
class Made:
    def tcls(self, x, t=nn.ReLU): return x * t.wg_gain
    def lcls(self, x, t=argparse.Namespace): return x * t.wg_gain
def tcls(x): return Made().tcls(x)
def lcls(x): return Made().lcls(x)
@dataclasses.dataclass
class DC: n: int = 3
DCO = DC()
def percent(x): return x * len("%s" % DCO)
def formatted(x): return x * len("{}".format(DCO))
def in_repr(x): return x * len(f"{DCO!r}")
def in_str(x): return x * len(f"{DCO!s}")
GAINS = {"DC(n=3)": 2.0, "DC(n=4)": 5.0}
def keyed(x): return x * GAINS[str(DCO)]
class Net(nn.Module):
    def __init__(self, cfg): super().__init__(); self.cfg = cfg
    def forward(self, x): return x * len(str(self.cfg))
net = Net(DC(3))
def module_text(x): return net(x)
class Opts(enum.Flag):
    A = 1
    B = 2
class Table:
    def __init__(self, d): self.d = d
    def __get__(self, o, t): return self.d["k"][0]
class Via:
    def __get__(self, o, t): return t.table
class Own: table = Table({"k": [2.0]}); v = Via()
OWN = Own()
def via_table(x): return x * OWN.v
class Chooser:
    def __init__(self, kind): self.kind = kind
    def __get__(self, o, t): return 5.0 if self.kind is Own else 1.5
class Via2:
    def __get__(self, o, t): return t.chooser
class Own2: chooser = Chooser(Own); v = Via2()
OWN2 = Own2()
def via_class(x): return x * OWN2.v
"""


def tail(entry, old, new, **rest):
    put(f"tail: {entry}", TAIL, entry, edit=(old, new), **rest)


tail("code_locals", "    value = y\n    return value", "    a = y\n    return a")
tail("tcls", "nn.ReLU.wg_gain = 2.0", "nn.ReLU.wg_gain = 8.0")
tail("lcls", "Namespace.wg_gain = 2.0", "Namespace.wg_gain = 8.0")
for _entry in ("percent", "formatted", "in_repr", "in_str"):
    tail(_entry, "DCO = DC()", "DCO = DC(33333)")
tail("keyed", "DCO = DC()", "DCO = DC(4)")
tail("module_text", "net = Net(DC(3))", "net = Net(DC(33333))")
tail("via_table", '{"k": [2.0]}', '{"k": [8.0]}')
tail("via_class", "chooser = Chooser(Own)", "chooser = Chooser(Via)")
