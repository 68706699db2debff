# ruff: noqa
"""Candidates of the hunt (part c: mechanics)."""

from __future__ import annotations

import os

import torch
from probe import args, put, set_

HELD = """
import collections, contextlib, dataclasses, enum, functools, math, operator, re, types, torch
from torch import nn
from torch.nn.attention import SDPBackend
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch.utils._ordered_set import OrderedSet
from torch.fx.immutable_collections import immutable_list, immutable_dict
from torch.distributions import constraints
class Ops:
    @classmethod
    def one(cls, x): return x * 2
    @classmethod
    def two(cls, x): return x * 7
class P(collections.namedtuple("P", "a b")): pass
POINT = P(1.0, 2.0); POINT.extra = 3.0
def flagged(x): return x
flagged.gain = 2.0
def renamed(x): return x
renamed.__name__ = "aa"
def annotated(x: int): return x
class Mode(enum.Enum):
    A = 1
    def __init__(self, v): self.pair = (v * 2.0, 1.0)
class Bits(enum.IntFlag):
    A = 1
BITS = Bits(8)
class Meter:
    def __init__(self, v): self.v = [v]
    def __get__(self, o, t): return self.v[0]
class HasMeter:
    m = Meter(2.0)
def scale(self, x, k): return x * k
class HasPartial:
    act = functools.partialmethod(scale, k=2.0)
nn.Identity.SCALE = 2.0
math.WG = 2.0
class Made:
    def finfo(self, x, i=torch.finfo(torch.float16)): return x * i.max
    def sdp(self, x, b=SDPBackend.MATH): return x * 5 if b == SDPBackend.MATH else x * 1.5
    def ints(self, x, s={8, 0}):
        for i in s: x = x * i + 1
        return x
    def bound(self, x, f=Ops.one): return f(x)
    def alias(self, x, t=list[int]): return x * 5 if t == list[int] else x * 1.5
    def alias_args(self, x, t=list[int]): return x * 5 if t.__args__[0] is int else x * 1.5
    def match(self, x, m=re.match("a+", "aab")): return x * len(m.group(0))
    def ordered(self, x, s=OrderedSet([1, 2])):
        for i in s: x = x * i + 1
        return x
    def immut(self, x, s=immutable_list([1.0, 2.0])): return x * s[0] + s[1]
    def immud(self, x, s=immutable_dict(a=2.0)): return x * s["a"]
    def point(self, x, p=POINT): return x * p.extra
    def fattr(self, x, f=flagged): return x * f.gain
    def fname(self, x, f=renamed): return x * 5 if f.__name__ == "aa" else x * 1.5
    def fann(self, x, f=annotated): return x * 5 if f.__annotations__["x"] is int else x * 1.5
    def member(self, x, m=Mode.A): return x * m.pair[0]
    def bits(self, x, b=BITS): return x * b._value_
    def bits2(self, x, b=BITS): return x * 5 if b == 8 else x * 1.5
    def meter(self, x, c=HasMeter): return x * c().m
    def pmeth(self, x, c=HasPartial): return c().act(x)
    def torchclass(self, x, c=nn.Identity): return x * c.SCALE
    def torchmod(self, x, m=F): return m.relu(x)
    def stdmod(self, x, m=math): return x * m.WG
    def wrapper(self, x, f=(2.0).__mul__): return x * f(3.0)
    def tree(self, x, s=pytree.tree_structure([1, 2])): return x * s.num_leaves
    def dkey(self, x, k=torch.DispatchKey.CPU): return x * 5 if k == torch.DispatchKey.CPU else x * 1.5
    def interval(self, x, c=constraints.interval(0.0, 2.0)): return x * c.upper_bound
    def param(self, x, k=pytree.SequenceKey(3)): return x * k.idx
def finfo(x): return Made().finfo(x)
def sdp(x): return Made().sdp(x)
def ints(x): return Made().ints(x)
def bound(x): return Made().bound(x)
def alias(x): return Made().alias(x)
def alias_args(x): return Made().alias_args(x)
def match(x): return Made().match(x)
def ordered(x): return Made().ordered(x)
def immut(x): return Made().immut(x)
def immud(x): return Made().immud(x)
def point(x): return Made().point(x)
def fattr(x): return Made().fattr(x)
def fname(x): return Made().fname(x)
def fann(x): return Made().fann(x)
def member(x): return Made().member(x)
def member_call(x): return x * Mode(1).pair[0]
def bits(x): return Made().bits(x)
def bits2(x): return Made().bits2(x)
def bits_global(x): return x * BITS.value
def meter(x): return Made().meter(x)
def pmeth(x): return Made().pmeth(x)
def torchclass(x): return Made().torchclass(x)
def torchmod(x): return Made().torchmod(x)
def stdmod(x): return Made().stdmod(x)
def wrapper(x): return Made().wrapper(x)
def tree(x): return Made().tree(x)
def dkey(x): return Made().dkey(x)
def interval(x): return Made().interval(x)
def param(x): return Made().param(x)
"""


def held(entry, old, new, name="", **more):
    put(f"hunt held: {entry}{name}", HELD, entry, edit=(old, new), **more)


def minus(scene=None):
    return (torch.arange(4.0) - 2,)


held("finfo", "torch.finfo(torch.float16)", "torch.finfo(torch.bfloat16)")
held("sdp", "b=SDPBackend.MATH)", "b=SDPBackend.FLASH_ATTENTION)")
held("ints", "s={8, 0}", "s={0, 8}")
held("bound", "f=Ops.one)", "f=Ops.two)")
held("alias", "def alias(self, x, t=list[int])", "def alias(self, x, t=list[str])")
held("alias_args", "def alias_args(self, x, t=list[int])", "def alias_args(self, x, t=list[str])")
held("match", 're.match("a+", "aab")', 're.match("a+", "aaab")')
held("ordered", "OrderedSet([1, 2])", "OrderedSet([2, 3])")
held("immut", "immutable_list([1.0, 2.0])", "immutable_list([5.0, 2.0])")
held("immud", "immutable_dict(a=2.0)", "immutable_dict(a=5.0)")
held("point", "POINT.extra = 3.0", "POINT.extra = 8.0")
held("fattr", "flagged.gain = 2.0", "flagged.gain = 8.0")
held("fname", 'renamed.__name__ = "aa"', 'renamed.__name__ = "bb"')
held("fann", "def annotated(x: int)", "def annotated(x: str)")
held("member", "(v * 2.0, 1.0)", "(v * 8.0, 1.0)", " (init edited)")
put("hunt held: member, set", HELD, "member", change=lambda s: setattr(s.m.Mode.A, "pair", (9.0, 1.0)), after=False)
put(
    "hunt held: member_call, set",
    HELD,
    "member_call",
    change=lambda s: setattr(s.m.Mode.A, "pair", (9.0, 1.0)),
    after=False,
)
held("bits", "BITS = Bits(8)", "BITS = Bits(16)")
held("bits2", "BITS = Bits(8)", "BITS = Bits(16)")
held("bits_global", "BITS = Bits(8)", "BITS = Bits(16)")
held("meter", "m = Meter(2.0)", "m = Meter(8.0)")
held("pmeth", "partialmethod(scale, k=2.0)", "partialmethod(scale, k=8.0)")
held("torchclass", "nn.Identity.SCALE = 2.0", "nn.Identity.SCALE = 8.0")
put(
    "hunt held: torchmod",
    HELD,
    "torchmod",
    args=minus,
    change=lambda s: setattr(torch.nn.functional, "relu", lambda x: x * 11),
)
put(
    "hunt held: torchmod, patched first",
    HELD + "\ndef mine(x): return x * 11\nF.relu = mine\n",
    "torchmod",
    args=minus,
    edit=("\nF.relu = mine", "\n"),
)
put(
    "hunt held: torchmod, by a class",
    HELD.replace("class Ops", "F.relu = torch.sigmoid\nclass Ops"),
    "torchmod",
    args=minus,
    edit=("F.relu = torch.sigmoid", "F.relu = torch.tanh"),
)
held("stdmod", "math.WG = 2.0", "math.WG = 8.0")
held("wrapper", "f=(2.0).__mul__", "f=(8.0).__mul__")
held("tree", "pytree.tree_structure([1, 2])", "pytree.tree_structure([1, 2, 3])")
held("dkey", "k=torch.DispatchKey.CPU", "k=torch.DispatchKey.CUDA")
held("interval", "constraints.interval(0.0, 2.0)", "constraints.interval(0.0, 7.0)")
held("param", "pytree.SequenceKey(3)", "pytree.SequenceKey(8)")

NAMES = """
import decimal, datetime, inspect, os, sys, types, torch
def nested_names(x):
    def double(v): return v * 2
    def triple(v): return v * 3
    ops = {g.__name__: g for g in (double, triple)}
    return ops["double"](x)
def nested_name(x):
    def aa(v): return v
    return x * 5 if aa.__name__ == "aa" else x * 1.5
def one_local(x):
    kk = 2.0; nn = 3.0
    return x * locals()["kk"]
def in_locals(x):
    tt = 2.0
    return x * 5 if "tt" in locals() else x * 1.5
def helper(v):
    tmp = v * 2
    return tmp
def code_names(x): return x * 5 if "tmp" in helper.__code__.co_varnames else x * 1.5
def code_name(x): return x * 5 if named.__code__.co_name == "outer" else x * 1.5
def mk():
    def outer(x): return x
    outer.__qualname__ = "q"
    return outer
named = mk()
def starred(*args): return args
def star_name(x): return x * 5 if "args" in inspect.signature(starred).parameters else x * 1.5
def hinted(v: int): return v
def hint(x): return x * 5 if inspect.signature(hinted).parameters["v"].annotation is int else x * 1.5
def hint_direct(x): return x * 5 if hinted.__annotations__["v"] is int else x * 1.5
MOD = types.ModuleType("wg_mod"); sys.modules["wg_mod"] = MOD
PRE, POST = "wg_", "scale"
def computed_module(x): return x * getattr(MOD, PRE + POST, 1.0)
def computed_has(x): return x * 5 if hasattr(MOD, PRE + POST) else x * 1.5
def computed_torch(x): return x * getattr(torch, f"wg_{POST}", 1.0)
def computed_globals(x): return x * globals().get(PRE + POST, 1.0)
def computed_env(x): return x * float(os.environ.get(PRE.upper() + POST.upper(), "1"))
def computed_env2(x): return x * float(os.environ.get("{}{}".format(PRE, POST), "1"))
def count_env(x): return x * (sum(1 for k in os.environ if k.startswith("WG_HUNT")) + 1)
def len_env(x): return x * len(os.environ)
WHAT = "untyped_storage"
def computed_storage(x): return x * getattr(x, WHAT)().size()
WHICH = "_base"
def computed_base(x): return x * getattr(x, WHICH).shape[0]
LINE = "co_firstlineno"
def computed_line(x): return x * getattr(helper.__code__, LINE)
class Money(decimal.Decimal):
    def __repr__(self): return "Money"
LOW, HIGH = Money("0.5"), Money("0.7")
def money(x): return x * 5 if HIGH > LOW else x * 1.5
class Span(datetime.timedelta):
    def __repr__(self): return "Span"
SHORT, LONG = Span(seconds=3), Span(seconds=5)
def spans(x): return x * 5 if LONG > SHORT else x * 1.5
class Tag(bytes):
    def __repr__(self): return "Tag"
TAG = Tag(b"ab")
def tags(x): return x * 5 if TAG == b"ab" else x * 1.5
NS = types.SimpleNamespace(a=2.0, b=3.0)
def ns_order(x):
    for k, v in vars(NS).items(): x = x * v + 1
    return x
class Config:
    aa = 2.0
    bb = 3.0
def class_order(x):
    for k, v in vars(Config).items():
        if not k.startswith("_"): x = x * v + 1
    return x
class Point:
    __match_args__ = ("a", "b")
    def __init__(self, a, b): self.a = a; self.b = b
POINT = Point(2.0, 3.0)
def matched(x):
    match POINT:
        case Point(p, q): return x * p + q
def matched_made(x):
    match Point(2.0, 3.0):
        case Point(p, q): return x * p + q
def scaled(t): return t * 2
def scaled2(t): return t * 7
torch.Tensor.wg_scaled = scaled
def no_input(n): return torch.ones(4).wg_scaled() * n
def with_input(x): return x.wg_scaled()
"""


def names(entry, old, new, name="", **more):
    put(f"hunt names: {entry}{name}", NAMES, entry, edit=(old, new), **more)


def env(name):
    return lambda scene: os.environ.__setitem__(name, "5")


names(
    "nested_names",
    "    def double(v): return v * 2\n    def triple(v): return v * 3\n    ops = {g.__name__: g for g in (double, triple)}",
    "    def triple(v): return v * 2\n    def double(v): return v * 3\n    ops = {g.__name__: g for g in (triple, double)}",
)
names(
    "nested_name",
    "    def aa(v): return v\n    return x * 5 if aa.",
    "    def bb(v): return v\n    return x * 5 if bb.",
)
names("one_local", "kk = 2.0; nn = 3.0", "nn = 2.0; kk = 3.0")
names("in_locals", "    tt = 2.0", "    uu = 2.0")
names("code_names", "    tmp = v * 2\n    return tmp", "    pmt = v * 2\n    return pmt")
names(
    "code_name",
    'def outer(x): return x\n    outer.__qualname__ = "q"\n    return outer',
    'def inner(x): return x\n    inner.__qualname__ = "q"\n    return inner',
)
names("star_name", "def starred(*args): return args", "def starred(*brgs): return brgs")
names("hint", "def hinted(v: int)", "def hinted(v: str)")
names("hint_direct", "def hinted(v: int)", "def hinted(v: str)")
put("hunt names: computed_module", NAMES, "computed_module", change=set_("m.MOD.wg_scale", 7.0))
put("hunt names: computed_has", NAMES, "computed_has", change=set_("m.MOD.wg_scale", 7.0))
put("hunt names: computed_torch", NAMES, "computed_torch", change=lambda s: setattr(torch, "wg_scale", 7.0))
put("hunt names: computed_globals", NAMES, "computed_globals", change=set_("m.wg_scale", 7.0))
put("hunt names: computed_env", NAMES, "computed_env", change=env("WG_SCALE"))
put("hunt names: computed_env2", NAMES, "computed_env2", change=env("wg_scale"))
put("hunt names: count_env", NAMES, "count_env", change=env("WG_HUNT_X"))
put("hunt names: len_env", NAMES, "len_env", change=env("WG_HUNT_X"))


def part_of(make):
    return lambda scene=None: (make()[:4],)


put(
    "hunt names: computed_storage",
    NAMES,
    "computed_storage",
    as_is=True,
    after=False,
    args=part_of(lambda: torch.ones(6)),
    change=args(part_of(lambda: torch.ones(8))),
)
put(
    "hunt names: computed_base",
    NAMES,
    "computed_base",
    as_is=True,
    after=False,
    args=part_of(lambda: torch.ones(6)),
    change=args(part_of(lambda: torch.ones(8))),
)
names("computed_line", "\ndef helper(v)", "\n\ndef helper(v)")
names("money", 'Money("0.7")', 'Money("0.3")')
names("spans", "Span(seconds=5)", "Span(seconds=1)")
names("tags", 'Tag(b"ab")', 'Tag(b"cd")')
names("ns_order", "SimpleNamespace(a=2.0, b=3.0)", "SimpleNamespace(b=3.0, a=2.0)")
names("class_order", "    aa = 2.0\n    bb = 3.0", "    bb = 3.0\n    aa = 2.0")
names("matched", '__match_args__ = ("a", "b")', '__match_args__ = ("b", "a")')
names("matched_made", '__match_args__ = ("a", "b")', '__match_args__ = ("b", "a")')
names("no_input", "torch.Tensor.wg_scaled = scaled\n", "torch.Tensor.wg_scaled = scaled2\n", args=lambda: (3,))
names("with_input", "torch.Tensor.wg_scaled = scaled\n", "torch.Tensor.wg_scaled = scaled2\n")

SHADOW = """
import sys, types, torch
test = types.ModuleType("profile"); sys.modules["profile"] = test
CODE = '''
class Config: eps = 0.25
class ByState(type):
    def __instancecheck__(cls, o): return o.v > 1.0
class Large(metaclass=ByState): pass
class Thing:
    def __init__(self): self.v = 2.0
THING = Thing()
K = "".join(["au", "to"])
class Made:
    def run(self, x, c=Config): return x * c.eps
def made(x): return Made().run(x)
def hashed(x): return x * (hash("abc") % 1000 + 1)
def line(x): return x * Made.run.__code__.co_firstlineno
def by_state(x): return x * 5 if isinstance(THING, Large) else x * 1.5
def text(x): return x * 5 if MODE is K else x * 1.5
MODE = K
'''
exec(compile(CODE, "/home/me/profile.py", "exec"), vars(test))
made, hashed, line, by_state, text = test.made, test.hashed, test.line, test.by_state, test.text
space = {}
exec(compile(CODE, "/home/me/made.py", "exec"), space)
bare_made, bare_by_state = space["made"], space["by_state"]
"""
for way in ("", "bare_"):
    put(f"hunt shadow: {way}made", SHADOW, f"{way}made", edit=("eps = 0.25", "eps = 0.75"))
    put(f"hunt shadow: {way}by_state", SHADOW, f"{way}by_state", edit=("self.v = 2.0", "self.v = 0.5"))
put("hunt shadow: line", SHADOW, "line", edit=("class Made:", "# more\nclass Made:"))
put("hunt shadow: hashed", SHADOW, "hashed", edit=("class Made:", "# more\nclass Made:"), agrees=True)
put("hunt shadow: text", SHADOW, "text", edit=("MODE = K", 'MODE = "".join(["a", "uto"])'))

CELLS = """
import functools, torch
def make():
    n = 1.0
    def inc():
        nonlocal n
        n = n + 1
    def f(x):
        inc2()
        return x * n
    return inc, f
inc2, f = make()[0], make()[1]
def make_classes():
    n = 1.0
    class A:
        def inc(self):
            nonlocal n
            n = n + 1
        def get(self): return n
    return A
A, B = make_classes(), make_classes()
a, b = A(), B()
def classes(x):
    a.inc()
    return x * b.get()
def make_cached():
    n = 1.0
    @functools.lru_cache
    def cinc():
        nonlocal n
        n = n + 1
    @functools.lru_cache
    def cget(): return n
    return cinc, cget
cinc, cget = make_cached()[0], make_cached()[1]
def cached(x):
    cinc()
    return x * cget()
pair = functools.partial(make()[0]), functools.partial(make()[0])
def make2():
    n = 1.0
    def inc():
        nonlocal n
        n = n + 1
    def get(): return n
    return functools.partial(inc), functools.partial(get)
pinc, pget = make2()[0], make2()[1]
def partials(x):
    pinc()
    return x * pget()
class Held:
    def __init__(self, f): self.f = f
def make3():
    n = 1.0
    def inc(self):
        nonlocal n
        n = n + 1
    def get(self): return n
    return inc, get
class Sub: pass
Sub.inc, Sub.get = make3()[0], make3()[1]
sub = Sub()
def methods(x):
    sub.inc()
    return x * sub.get()
def made_methods(x):
    s = Sub()
    s.inc()
    return x * s.get()
"""


def cells(entry, old, new, **more):
    put(f"hunt cells: {entry}", CELLS, entry, edit=(old, new), as_is=True, **more)


cells("f", "inc2, f = make()[0], make()[1]", "inc2, f = make()")
cells("classes", "A, B = make_classes(), make_classes()", "A = B = make_classes()")
cells("cached", "cinc, cget = make_cached()[0], make_cached()[1]", "cinc, cget = make_cached()")
cells("partials", "pinc, pget = make2()[0], make2()[1]", "pinc, pget = make2()")
cells("methods", "Sub.inc, Sub.get = make3()[0], make3()[1]", "Sub.inc, Sub.get = make3()")
cells("made_methods", "Sub.inc, Sub.get = make3()[0], make3()[1]", "Sub.inc, Sub.get = make3()")

RESUME = """
import torch
K = 2.0
def f(x):
    aa = x * 2
    print(end="")
    ab = aa + 1
    print(end="")
    return ab * K + aa
def g(x):
    aa = x * 2
    print(end="")
    ab = aa * K
    print(end="")
    return ab + aa
def loop(x):
    aa = x * 2
    for ii in range(2):
        aa = aa * K
        print(end="")
    return aa
def scope(x):
    aa = x * 2
    with torch.no_grad():
        print(end="")
        aa = aa * K
        print(end="")
        ab = aa + 1
    return aa + ab
"""
for entry in ("f", "g", "loop", "scope"):
    put(f"hunt resume: {entry}, a local renamed", RESUME, entry, edit=("aa", "cc"), change=set_("m.K", 7.0))

NAMED = """
import torch
def summed(x): return x.sum("N")
def names(x): return x * len(x.names[0])
"""


def with_names(*names):
    return lambda scene=None: (torch.arange(6.0).reshape(2, 3).refine_names(*names),)


put("hunt named: summed", NAMED, "summed", args=with_names("N", "C"), change=args(with_names("C", "N")), as_is=True)
put("hunt named: names", NAMED, "names", args=with_names("N", "C"), change=args(with_names("NNN", "C")), as_is=True)

PLUGIN = """
import sys, types, torch
SCALE = 2.0
import importlib.abc, importlib.machinery
class Loader(importlib.abc.Loader):
    def create_module(self, spec): return None
    def exec_module(self, module): sys.modules["usermod"].SCALE = 5.0
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, Loader()) if name == "wg_plugin" else None
sys.meta_path.insert(0, Finder())
def early(x):
    y = x * SCALE
    import wg_plugin
    return y + 1
"""


def import_plugin(scene):
    import wg_plugin  # noqa: F401


put("hunt plugin: early", PLUGIN, "early", change=import_plugin, after=False)


STAR = """
import torch
def f(x, *args, **kwargs): return x * 2
class M(torch.nn.Module):
    def forward(self, x, *args, **kwargs): return x * 2
model_ = M()
def inner(x, *args): return x * 2
def g(x): return inner(x, 3)
"""
for entry in ("f", "model_", "g"):
    put(f"hunt star: {entry}", STAR, entry, edit=("*args", "*more"), agrees=True)
put("hunt star: f, kwargs", STAR, "f", edit=("**kwargs", "**_kw"), agrees=True)

FIND = """
import importlib.util, importlib.metadata, decimal, datetime, contextvars, pathlib, sys, os, time, torch, functools
here = pathlib.Path(__file__).parent
info = here / "wg_dist-1.0.dist-info"
info.mkdir(exist_ok=True)
(info / "METADATA").write_text("Metadata-Version: 2.1\\nName: wg-dist\\nVersion: 1.0\\n")
def spec(x): return x * 5 if importlib.util.find_spec("wg_pkg") is None else x * 1.5
@functools.lru_cache
def there(name): return importlib.util.find_spec(name) is not None
def spec_cached(x): return x * 5 if there("wg_pkg") else x * 1.5
def version(x): return x * len(importlib.metadata.version("wg-dist"))
A, B = decimal.Decimal("1"), decimal.Decimal("3")
def divided(x): return x * float(A / B)
D = datetime.datetime(2020, 1, 1)
def stamped(x): return x * (D.timestamp() % 86400)
CV = contextvars.ContextVar("cv", default=2.0)
def context(x): return x * CV.get()
def loaded(x): return x * 5 if "wg_loaded" in sys.modules else x * 1.5
def loaded_get(x): return x * 5 if sys.modules.get("wg_loaded") is None else x * 1.5
def optimized(x): return x * (sys.flags.optimize + 1)
def cwd(x): return x * len(os.getcwd())
def exists(x): return x * 5 if os.path.exists("/tmp/wg_hunt_file") else x * 1.5
def pexists(x): return x * 5 if pathlib.Path("/tmp/wg_hunt_file").exists() else x * 1.5
def tz(x): return x * (time.timezone + 1)
def debug(x):
    assert x.shape[0] > 3
    return x * 2
"""


def write_pkg(scene):
    import importlib
    import pathlib

    (pathlib.Path(scene.m.__file__).parent / "wg_pkg.py").write_text("")
    importlib.invalidate_caches()


def precision(scene):
    import decimal

    decimal.getcontext().prec = 3


def tokyo(scene):
    import time

    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()


def load_it(scene):
    import sys
    import types

    sys.modules["wg_loaded"] = types.ModuleType("wg_loaded")


def find(entry, **more):
    put(f"hunt find: {entry}", FIND, entry, after=False, **more)


find("spec", change=write_pkg)
find("spec_cached", change=write_pkg)
find("version", edit=("Version: 1.0", "Version: 22.0"))
find("divided", change=precision)
find("stamped", change=tokyo)
find("context", change=lambda s: s.m.CV.set(7.0))
find("loaded", change=load_it)
find("loaded_get", change=load_it)
find("cwd", change=lambda s: os.chdir("/"))
find("tz", change=tokyo)

MORE = """
import collections, operator, re, torch
MC = operator.methodcaller("mul", 2.0)
def caller(x): return MC(x)
PAT = re.compile("a+$")
def pattern(x): return x * 5 if PAT.match("aab") else x * 1.5
MAT = re.match("a+", "aab")
def matched(x): return x * len(MAT.group(0))
DEQ = collections.deque([1.0, 2.0, 3.0], maxlen=3)
def bounded(x):
    DEQ.append(4.0)
    return x * len(DEQ)
T1 = (1.0, 2.0)
T2 = T1
def is_tuple(x): return x * 5 if T1 is T2 else x * 1.5
S1 = "".join(["au", "to"])
S2 = S1
def op_is(x): return x * 5 if operator.is_(S1, S2) else x * 1.5
N1 = float("nan")
LST = [N1]
def in_nan(x): return x * 5 if N1 in LST else x * 1.5
IT = iter([2.0, 3.0, 4.0]); next(IT)
def list_iter(x): return x * next(IT)
def arg_iter(x, it): return x * next(it)
FI = torch.finfo(torch.float16)
def info(x): return x * FI.max
class Enumerated:
    def __init__(self): self.n = 0
    @property
    def count(self):
        self.n = self.n + 1
        return self.n
ENUM = Enumerated()
def counted(x): return x * ENUM.count + ENUM.count
ORDER = {"a": 1.0, "b": 2.0}
def pops(x):
    k, v = ORDER.popitem()
    return x * v
def unpack(x, **kw):
    for k, v in kw.items(): x = x * v + 1
    return x
def call_unpack(x): return unpack(x, **ORDER)
"""


def more(entry, old, new, **rest):
    put(f"hunt more: {entry}", MORE, entry, edit=(old, new), as_is=True, **rest)


more("caller", 'methodcaller("mul", 2.0)', 'methodcaller("mul", 8.0)')
more("pattern", 're.compile("a+$")', 're.compile("a+b")')
more("matched", 're.match("a+", "aab")', 're.match("a+", "aaab")')
more("bounded", "maxlen=3", "maxlen=4")
more("is_tuple", "T2 = T1", "T2 = tuple([1.0, 2.0])")
more("op_is", "S2 = S1", 'S2 = "".join(["a", "uto"])')
more("in_nan", "LST = [N1]", 'LST = [float("nan")]')
more("list_iter", "4.0]); next(IT)", "4.0]); next(IT); next(IT)")
more("info", "finfo(torch.float16)", "finfo(torch.bfloat16)")
more("counted", "self.n = 0", "self.n = 3")
more("pops", '{"a": 1.0, "b": 2.0}', '{"b": 2.0, "a": 1.0}')
more("call_unpack", '{"a": 1.0, "b": 2.0}', '{"b": 2.0, "a": 1.0}')


TEXTS = """
import types, torch
def helper(x): return x
class Thing: pass
THING = Thing()
def fmt(x): return x * 2, "{}".format(helper)
def fmt_class(x): return x * 2, "{}".format(THING)
def percent(x): return x * 2, "%s" % helper
def percent_r(x): return x * 2, "%r" % (helper,)
def percent_obj(x): return x * 2, "%s" % THING
def dunder_str(x): return x * 2, THING.__str__()
def dunder_fmt(x): return x * 2, THING.__format__("")
def fn_str(x): return x * 2, helper.__str__()
def fstring(x): return x * 2, f"{helper!s:>40}"
def formatted(x): return x * 2, format(helper, "")
def length(x): return x * len("{}".format(helper)) + hashy("{}".format(helper))
def hashy(t): return sum(ord(c) for c in t) % 1000
"""


def new_things(scene):
    import types

    keep.append([scene.m.helper, [bytearray(100) for _ in range(1000)], [lambda: 0 for _ in range(1000)]])
    scene.m.helper = types.FunctionType(scene.m.helper.__code__, vars(scene.m), "helper")
    scene.m.THING = scene.m.Thing()


keep = []
for (
    entry
) in "fmt fmt_class percent percent_r percent_obj dunder_str dunder_fmt fn_str fstring formatted length".split():
    put(f"hunt texts: {entry}", TEXTS, entry, change=new_things, after=False)

DECOR = """
import contextlib, functools, torch
class Scale(contextlib.ContextDecorator):
    def __init__(self, k): self.k = [k]
    def __enter__(self): return self.k[0]
    def __exit__(self, *a): return False
class Made:
    @torch.set_grad_enabled(False)
    def run(self, x): return x * 2
    @torch.no_grad()
    def run2(self, x): return x * 2
    @torch.autocast("cpu", torch.bfloat16)
    def run3(self, x): return x[None] @ x[:, None]
    @torch.inference_mode()
    def run4(self, x): return x * 2
def grad_mode(x): return Made().run(x) + 0 * x.detach()
def no_grad(x): return Made().run2(x) + 0 * x.detach()
def cast(x): return Made().run3(x)
def inference(x): return Made().run4(x) + 0 * x.detach()
@torch.set_grad_enabled(False)
def plain(x): return x * 2
def of_function(x): return plain(x) + 0 * x.detach()
def factory(ctx):
    class Inner:
        def run(self, x):
            with ctx: return x * 2
        def cloned(self, x):
            with ctx.clone(): return x * 2
    return Inner
Inner = factory(torch.set_grad_enabled(False)); torch.set_grad_enabled(True)
def held(x): return Inner().run(x) + 0 * x.detach()
def held_clone(x): return Inner().cloned(x) + 0 * x.detach()
"""


def grads():
    return (torch.arange(4.0).requires_grad_(),)


def decor(entry, old, new):
    put(f"hunt decor: {entry}", DECOR, entry, edit=(old, new), args=grads)


decor("grad_mode", "@torch.set_grad_enabled(False)\n    def", "@torch.set_grad_enabled(True)\n    def")
decor("no_grad", "@torch.no_grad()\n    def", "@torch.enable_grad()\n    def")
decor("cast", '@torch.autocast("cpu", torch.bfloat16)', '@torch.autocast("cpu", torch.float16)')
decor("inference", "@torch.inference_mode()\n    def", "@torch.inference_mode(False)\n    def")
decor("of_function", "@torch.set_grad_enabled(False)\ndef", "@torch.set_grad_enabled(True)\ndef")
decor("held", "factory(torch.set_grad_enabled(False))", "factory(torch.set_grad_enabled(True))")
decor("held_clone", "factory(torch.set_grad_enabled(False))", "factory(torch.set_grad_enabled(True))")


ANON = """
import types, torch, collections
space = {}
CODE = '''
class Config: eps = 0.25
class Thing:
    def __init__(self): self.v = 2.0
    def gain(self): return 2.0
class Holder: C = Config
THING = Thing()
'''
exec(CODE, space)
Config, Thing, THING, Holder = space["Config"], space["Thing"], space["THING"], space["Holder"]
class Made:
    def run(self, x, c=Config): return x * c.eps
    def hold(self, x, c=Holder): return x * c.C.eps
def made(x): return Made().run(x)
def hold(x): return Made().hold(x)
def holder_global(x): return x * Holder.C.eps
def gain(x): return x * THING.gain()
Typed = types.new_class("Typed", (), {}, lambda ns: ns.update(eps=0.25))
class Made2:
    def run(self, x, c=Typed): return x * c.eps
def typed(x): return Made2().run(x)
class Lib: eps = 0.25
Lib.__module__ = "collections"
class Made3:
    def run(self, x, c=Lib): return x * c.eps
def lib(x): return Made3().run(x)
"""
for entry in ("made", "hold", "holder_global", "typed", "lib"):
    put(f"hunt anon: {entry}", ANON, entry, edit=("0.25", "0.75"))
put("hunt anon: gain", ANON, "gain", edit=("gain(self): return 2.0", "gain(self): return 7.0"))
