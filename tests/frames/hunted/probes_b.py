# ruff: noqa
"""Candidates of the third hunt (b): what torch's own functions and libraries fold in."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import torch
from probe import args, put, set_

# ---------------------------------------------------------------- values with no guard at all
BARE = """
import torch
from torch import nn
ADD = torch.Tensor.add
OPS = {"k": torch.Tensor.add}
class Slots:
    __slots__ = ("v", "w")
    def __init__(self): self.v = 2.0; self.w = 7.0
SL = Slots()
FIELD = Slots.v
STEP = (2.0).__add__
SLOT = float.__add__
UP = str.upper
GET = torch.Tensor.data
def tensor_method(x): return ADD(x, 2.5)
def tensor_method_in_dict(x): return OPS["k"](x, 2.5)
def member(x): return x * FIELD.__get__(SL)
def wrapper(x): return x * STEP(3.0)
def slot(x): return x * SLOT(2.0, 3.0)
def text_method(x): return x * 5 if UP("ab") == "AB" else x * 1.5
def getset(x): return GET.__get__(x) + 1
class Net(nn.Module):
    def __init__(self): super().__init__(); self.act = torch.Tensor.add
    def forward(self, x): return self.act(x, 2.5)
NET = Net()
def attribute(x): return NET(x)
def argument(x, op): return op(x, 2.5)
class MLP(nn.Module):
    def __init__(self, act=torch.Tensor.sigmoid):
        super().__init__(); torch.manual_seed(0)
        self.a = nn.Linear(4, 4); self.act = act
    def forward(self, x): return self.act(self.a(x))
"""


def bare(entry, name, old, new, **more):
    put(f"bare: {entry}, {name}", BARE, entry, edit=(old, new), **more)


bare("tensor_method", "another", "ADD = torch.Tensor.add", "ADD = torch.Tensor.mul")
bare("tensor_method_in_dict", "another", '"k": torch.Tensor.add', '"k": torch.Tensor.mul')
bare("member", "another", "FIELD = Slots.v", "FIELD = Slots.w")
bare("wrapper", "another", "(2.0).__add__", "(2.0).__mul__")
bare("slot", "another", "float.__add__", "float.__mul__")
bare("text_method", "another", "UP = str.upper", "UP = str.lower")
bare("getset", "another", "GET = torch.Tensor.data", "GET = torch.Tensor.mT", args=lambda: (torch.randn(4, 4),))
bare("attribute", "another", "self.act = torch.Tensor.add", "self.act = torch.Tensor.mul")
bare(
    "model",
    "another activation",
    "act=torch.Tensor.sigmoid",
    "act=torch.Tensor.tanh",
    args=lambda: (torch.randn(4, 4),),
)
put(
    "bare: argument, another",
    BARE,
    "argument",
    as_is=True,
    args=lambda s: (torch.arange(4.0), torch.Tensor.add),
    change=args(lambda s: (torch.arange(4.0), torch.Tensor.mul)),
    after=False,
)

# ---------------------------------------------------------------- what torch folds of installed packages
PACKAGES = """
import importlib.util, importlib.metadata, importlib, torch
from importlib.util import find_spec
from importlib.metadata import version
import functools
@functools.lru_cache
def is_there(): return find_spec("wg_extra") is not None
def has_package(x): return x * 5 if importlib.util.find_spec("wg_extra") is not None else x * 1.5
def has_package_by_name(x): return x * 5 if find_spec("wg_extra") is not None else x * 1.5
def has_package_cached(x): return x * 5 if is_there() else x * 1.5
def version_of(x): return x * 5 if importlib.metadata.version("wg-extra") == "1.0" else x * 1.5
def origin(x): return x * len(find_spec("wg_here").origin)
"""


def install(scene):
    root = Path("/tmp/warmgraph-hunted") / f"package{os.getpid()}"
    root.mkdir(parents=True, exist_ok=True)
    (root / "wg_extra.py").write_text("A = 1\n")
    sys.path.append(str(root))
    importlib.invalidate_caches()


def put_dist(version):
    root = Path("/tmp/warmgraph-hunted") / f"dists{os.getpid()}"
    info = root / "wg_extra-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: wg-extra\nVersion: {version}\n")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    importlib.invalidate_caches()


for entry in ("has_package", "has_package_by_name", "has_package_cached"):
    put(f"packages: {entry}", PACKAGES, entry, change=install, after=False)
put(
    "packages: version_of",
    PACKAGES,
    "version_of",
    before=lambda: put_dist("1.0"),
    change=lambda s: put_dist("2.0"),
    after=False,
)

# ---------------------------------------------------------------- sourceless values of which nothing is said
SOURCELESS = """
import argparse, dataclasses, enum, functools, operator, torch, typing
from torch.nn.attention import SDPBackend
from torch.utils._ordered_set import OrderedSet
from torch.fx.immutable_collections import immutable_list, immutable_dict
from torch.utils._pytree import tree_structure
argparse.Namespace.wg_eps = 0.25
torch.nn.Linear.wg_eps = 0.25
class Config:
    "a text"
    a: int
    b: int
    __match_args__ = ("a", "b")
class More(Config): pass
# more
class Made:
    def info(self, x, i=torch.finfo(torch.float32)): return x * i.eps
    def integers(self, x, i=torch.iinfo(torch.int8)): return x * i.max
    def alias(self, x, t=list[int]): return x * 5 if t == list[int] else x * 1.5
    def alias_args(self, x, t=list[int]): return x * 5 if t.__args__[0] is int else x * 1.5
    def union(self, x, t=int | None): return x * 5 if t == (int | None) else x * 1.5
    def optional(self, x, t=typing.Optional[int]): return x * 5 if t == typing.Optional[int] else x * 1.5
    def ordered(self, x, s=OrderedSet([1.0, 2.0])):
        for i in s: x = x * i
        return x
    def immutable(self, x, s=immutable_list([2.0])): return x * s[0]
    def immutable_map(self, x, s=immutable_dict({"a": 2.0})): return x * s["a"]
    def spec(self, x, s=tree_structure([1, 2])): return x * s.num_leaves
    def backend(self, x, b=SDPBackend.MATH): return x * 5 if b == SDPBackend.MATH else x * 1.5
    def dispatch(self, x, b=torch.DispatchKey.CPU): return x * 5 if b == torch.DispatchKey.CPU else x * 1.5
    def helper(self): "a text"
    helper.scale = 2.0
    def flagged(self, x): return x * self.helper.scale
    def documented(self, x): return x * len(self.helper.__doc__)
    def hinted(self, y: int) -> float: pass
    def annotated(self, x): return x * (len(self.hinted.__annotations__) + 1)
    def annotated_type(self, x): return x * 5 if self.hinted.__annotations__["y"] is int else x * 1.5
    def renamed(self): pass
    renamed.__name__ = "ab"
    def named(self, x): return x * len(self.renamed.__name__)
    def doc_of_class(self, x, c=Config): return x * len(c.__doc__)
    def hints_of_class(self, x, c=Config): return x * len(c.__annotations__)
    def match_args(self, x, c=Config): return x * (3 if c.__match_args__[0] == "a" else 2)
    def subclasses(self, x, c=Config): return x * len(c.__subclasses__())
    def of_library(self, x, c=argparse.Namespace): return x * c.wg_eps
    def of_torch(self, x, c=torch.nn.Linear): return x * c.wg_eps
    def tensor_op(self, x, o=torch.Tensor.add): return o(x, 2.5)
    def partial(self, x, o=functools.partial(torch.add, 2.5)): return o(x)
    def getter(self, x, o=operator.itemgetter(0)): return x * o((2.0, 7.0))
def info(x): return Made().info(x)
def integers(x): return Made().integers(x)
def alias(x): return Made().alias(x)
def alias_args(x): return Made().alias_args(x)
def union(x): return Made().union(x)
def optional(x): return Made().optional(x)
def ordered(x): return Made().ordered(x)
def immutable(x): return Made().immutable(x)
def immutable_map(x): return Made().immutable_map(x)
def spec(x): return Made().spec(x)
def backend(x): return Made().backend(x)
def dispatch(x): return Made().dispatch(x)
def flagged(x): return Made().flagged(x)
def documented(x): return Made().documented(x)
def annotated(x): return Made().annotated(x)
def annotated_type(x): return Made().annotated_type(x)
def named(x): return Made().named(x)
def doc_of_class(x): return Made().doc_of_class(x)
def hints_of_class(x): return Made().hints_of_class(x)
def match_args(x): return Made().match_args(x)
def subclasses(x): return Made().subclasses(x)
def of_library(x): return Made().of_library(x)
def of_torch(x): return Made().of_torch(x)
def tensor_op(x): return Made().tensor_op(x)
def partial(x): return Made().partial(x)
def getter(x): return Made().getter(x)
@dataclasses.dataclass
class Opt: a: float = dataclasses.field(default=1.0, metadata={"k": 2.0})
OPT = Opt(1.0)
def field_meta(x): return x * dataclasses.fields(Opt(1.0))[0].metadata["k"]
def field_type(x): return x * 5 if dataclasses.fields(Opt(1.0))[0].type is float else x * 1.5
def field_meta_of(x): return x * dataclasses.fields(OPT)[0].metadata["k"]
def patched_by(o):
    old = argparse.Namespace.__contains__
    @functools.wraps(old)
    def __contains__(self, key): return o(old(self, key))
    return __contains__
argparse.Namespace.__contains__ = patched_by(operator.truth)
def contains(x): return x * 5 if "a" in argparse.Namespace(a=1) else x * 1.5
"""


def less(entry, name, old, new, **more):
    put(f"unsaid: {entry}, {name}", SOURCELESS, entry, edit=(old, new), **more)


less("info", "another type", "torch.finfo(torch.float32)", "torch.finfo(torch.float16)")
less("integers", "another type", "torch.iinfo(torch.int8)", "torch.iinfo(torch.int16)")
less("alias", "another", "alias(self, x, t=list[int])", "alias(self, x, t=list[float])")
less("alias_args", "another", "alias_args(self, x, t=list[int])", "alias_args(self, x, t=list[float])")
less("union", "another", "t=int | None)", "t=float | None)")
less("optional", "another", "x, t=typing.Optional[int]", "x, t=typing.Optional[float]")
less("ordered", "another", "[1.0, 2.0]", "[1.0, 3.0]")
less("immutable", "another", "immutable_list([2.0])", "immutable_list([3.0])")
less("immutable_map", "another", 'immutable_dict({"a": 2.0})', 'immutable_dict({"a": 3.0})')
less("spec", "another", "tree_structure([1, 2])", "tree_structure([1, 2, 3])")
less("backend", "another", "b=SDPBackend.MATH", "b=SDPBackend.FLASH_ATTENTION")
less("dispatch", "another", "b=torch.DispatchKey.CPU", "b=torch.DispatchKey.CUDA")
less("flagged", "another value", "helper.scale = 2.0", "helper.scale = 3.0")
less("documented", "another text", 'def helper(self): "a text"', 'def helper(self): "a long text"')
less("annotated", "one less", "y: int) -> float", "y: int)")
less("annotated_type", "another", "y: int)", "y: float)")
less("named", "another", 'renamed.__name__ = "ab"', 'renamed.__name__ = "abc"')
less("doc_of_class", "another text", '    "a text"\n    a: int', '    "a long text"\n    a: int')
less("hints_of_class", "one more", "    b: int\n", "    b: int\n    c: int\n")
less("match_args", "another order", '("a", "b")', '("b", "a")')
less("subclasses", "one more", "# more", "class Others(Config): pass")
less("of_library", "another value", "Namespace.wg_eps = 0.25", "Namespace.wg_eps = 0.5")
less("of_torch", "another value", "Linear.wg_eps = 0.25", "Linear.wg_eps = 0.5")
less("tensor_op", "another", "o=torch.Tensor.add", "o=torch.Tensor.mul")
less("partial", "another", "functools.partial(torch.add, 2.5)", "functools.partial(torch.mul, 2.5)")
less("getter", "another", "itemgetter(0)", "itemgetter(1)")
less("field_meta", "another", '{"k": 2.0}', '{"k": 3.0}')
less("field_meta_of", "another", '{"k": 2.0}', '{"k": 3.0}')
less("field_type", "another", "class Opt: a: float", "class Opt: a: int")
less("contains", "another", "patched_by(operator.truth)", "patched_by(operator.not_)")

# ---------------------------------------------------------------- enums and metaclasses, modules' __getattr__
RUN = """
import enum, sys, types, torch
LIMIT = 1.0
OP = torch.add
ALIAS = {"x": 1}
SKIP = {"B"}
KNOWN = {"a"}
class Mode(enum.Enum):
    A = 1
    def __init__(self, v): self.pair = (v * LIMIT, 2.0); self.op = OP; self.table = {"k": LIMIT}
def enum_tuple(x): return x * Mode(1).pair[0]
def enum_op(x): return Mode(1).op(x, 2.5)
def enum_table(x): return x * Mode(1).table["k"]
def enum_loop_tuple(x):
    for m in Mode: x = x * m.pair[0]
    return x
class Calls(enum.EnumMeta):
    def __call__(cls, value, *a, **k): return super().__call__(ALIAS.get(value, value), *a, **k)
class Loose(enum.Enum, metaclass=Calls):
    A = 1
    B = 2
def enum_alias(x): return x * Loose("x").value
class Skipping(enum.EnumMeta):
    def __iter__(cls): return iter([m for n, m in cls.__members__.items() if n not in SKIP])
class Some(enum.Enum, metaclass=Skipping):
    A = 2
    B = 3
def enum_loop(x):
    for m in Some: x = x * m.value
    return x
class Finds(type):
    def __getattr__(cls, name):
        if name in KNOWN: return 1.0
        raise AttributeError(name)
class Found(metaclass=Finds): pass
class Made:
    def has(self, x, c=Found): return x * 5 if hasattr(c, "wg_z") else x * 1.5
def meta_has(x): return Made().has(x)
def meta_has_global(x): return x * 5 if hasattr(Found, "wg_z") else x * 1.5
OTHER = types.ModuleType("wg_other"); sys.modules["wg_other"] = OTHER
def look(name):
    if name in KNOWN: return 7.0
    raise AttributeError(name)
OTHER.__getattr__ = look
def module_has(x): return x * 5 if hasattr(OTHER, "wg_z") else x * 1.5
def module_get(x): return x * getattr(OTHER, "wg_z", 1.5)
def module_try(x):
    try: return x * OTHER.wg_z
    except AttributeError: return x * 1.5
class Lazy(types.ModuleType):
    def __getattr__(self, name): return look(name)
LAZY = Lazy("wg_lazy"); sys.modules["wg_lazy"] = LAZY
def lazy_has(x): return x * 5 if hasattr(LAZY, "wg_z") else x * 1.5
class Bits(enum.IntFlag):
    A = 1
FLAG = Bits(8)
def flag_value(x): return x * FLAG.value
def flag_int(x): return x * int(FLAG)
def flag_times(x): return x * FLAG
def flag_equal(x): return x * 5 if FLAG == 8 else x * 1.5
class Plain(enum.Flag, boundary=enum.KEEP):
    A = 1
PLAIN = Plain(8)
def plain_equal(x): return x * 5 if PLAIN is Plain(8) else x * 1.5
def plain_value(x): return x * PLAIN.value
"""


def ran(entry, name, **more):
    put(f"ran: {entry}, {name}", RUN, entry, **more)


for entry in ("enum_tuple", "enum_table", "enum_loop_tuple"):
    ran(entry, "made of a global", edit=("LIMIT = 1.0", "LIMIT = 4.0"))
ran("enum_op", "made of a global", edit=("OP = torch.add", "OP = torch.sub"))
ran("enum_alias", "another table", edit=('ALIAS = {"x": 1}', 'ALIAS = {"x": 2}'))
ran("enum_loop", "another table", edit=('SKIP = {"B"}', 'SKIP = {"A"}'))
KNOWS = ('KNOWN = {"a"}', 'KNOWN = {"a", "wg_z"}')
for entry in ("meta_has", "meta_has_global", "module_has", "module_get", "module_try", "lazy_has"):
    ran(entry, "another table", edit=KNOWS)
    ran(entry, "another table, added", change=lambda s: s.m.KNOWN.add("wg_z"), after=False)
for entry in ("flag_value", "flag_int", "flag_times", "flag_equal"):
    ran(entry, "another without a name", edit=("Bits(8)\ndef", "Bits(16)\ndef"))
for entry in ("plain_equal", "plain_value"):
    ran(entry, "another without a name", edit=("PLAIN = Plain(8)", "PLAIN = Plain(16)"))

# ---------------------------------------------------------------- a user's module with a name of the library's
SHADOW = '''
import os, sys, torch
TEXT = """
import torch
LIMIT = 0.25
class Config: eps = 0.25
class Made:
    def klass(self, x, c=Config): return x * c.eps
class Scaled:
    factor = 0.25
    @classmethod
    def scaled(cls, x): return x * cls.factor
class Holder:
    made = Scaled
def bound(x): return Holder.made.scaled(x)
THING = object()
number = id
def use_id(x): return x * (number(THING) % 7 + 1)
def ask(x):
    try: return x * NOTHERE
    except NameError: return x * 1.5
"""
path = os.path.join(os.path.dirname(__file__), "wave.py")
open(path, "w").write(TEXT)
sys.modules.pop("wave", None)
import wave
assert wave.__file__ == path
def klass(x): return wave.Made().klass(x)
def bound(x): return wave.bound(x)
def use_id(x): return wave.use_id(x)
def ask(x): return wave.ask(x)
'''

put("shadow: klass", SHADOW, "klass", edit=("class Config: eps = 0.25", "class Config: eps = 0.5"))
put("shadow: bound", SHADOW, "bound", edit=("factor = 0.25", "factor = 0.5"))
put("shadow: ask", SHADOW, "ask", edit=("THING = object()", "THING = object(); NOTHERE = 7.0"))

# ---------------------------------------------------------------- states of torch that no key knows
STATES = """
import numpy, torch
import torch.nn.functional as F
def halves(a): return torch.from_numpy(a / 2)
def mean(a): return torch.from_numpy(a.mean(axis=0))
def attends(q): return F.scaled_dot_product_attention(q, q, q, is_causal=True)
def exporting(x): return x * 5 if torch.compiler.is_exporting() else x * 1.5
def cuda_type(x): return x * 5 if torch.get_autocast_dtype("cuda") is torch.bfloat16 else x * 1.5
def interop(x): return x * torch.get_num_interop_threads()
def version(x): return x * len(torch.__version__)
"""


def integers():
    import numpy

    return (numpy.arange(8).reshape(2, 4),)


def numpy_defaults(scene):
    import torch._numpy as tnp
    from torch._numpy._dtypes import set_default_dtype

    tnp.arange(3)
    set_default_dtype(fp_dtype="pytorch")


def order(scene):
    torch._C._set_sdp_priority_order([2, 0, 1, 3, 4])


for entry in ("halves", "mean"):
    put(f"states: {entry}, numpy's default type", STATES, entry, args=integers, change=numpy_defaults, after=False)
put(
    "states: attends, another order",
    STATES,
    "attends",
    args=lambda: (torch.randn(1, 2, 16, 8),),
    change=order,
    after=False,
    agrees=True,
)
put(
    "states: exporting",
    STATES,
    "exporting",
    change=lambda s: setattr(torch.compiler, "_is_exporting_flag", True),
    after=False,
)
put(
    "states: cuda_type",
    STATES,
    "cuda_type",
    change=lambda s: torch.set_autocast_dtype("cuda", torch.bfloat16),
    after=False,
)

# ---------------------------------------------------------------- user's code that Dynamo runs, with constants
NATIVE = """
import array, enum, functools, math, operator, torch, types
RANK = {"A": 1, "B": 2}
class Level(enum.Enum):
    A = 1
    B = 2
    def rank(self): return RANK[self.name]
    def __lt__(self, o): return RANK[self.name] < (RANK[o.name] if isinstance(o, Level) else o)
    def __gt__(self, o): return RANK[self.name] > (RANK[o.name] if isinstance(o, Level) else o)
    def __abs__(self): return RANK[self.name]
    def __index__(self): return RANK[self.name]
    def __int__(self): return RANK[self.name]
    def __float__(self): return float(RANK[self.name])
    def __round__(self, n=None): return RANK[self.name]
    def __floor__(self): return RANK[self.name]
    def __str__(self): return "a" * RANK[self.name]
    def __repr__(self): return "b" * RANK[self.name]
    def __format__(self, spec): return "c" * RANK[self.name]
    def __len__(self): return RANK[self.name]
    def __getitem__(self, i): return RANK[self.name]
    def __add__(self, o): return RANK[self.name] + o
    def __radd__(self, o): return RANK[self.name] + o
    def __mod__(self, o): return RANK[self.name] % o
    def __divmod__(self, o): return divmod(RANK[self.name], o)
    def __pow__(self, o): return RANK[self.name] ** o
    def __neg__(self): return -RANK[self.name]
    def __call__(self, v): return RANK[self.name] * v
    def __contains__(self, v): return RANK[self.name] == v
    def __hash__(self): return RANK[self.name]
class Same(enum.Enum):
    A = 1
    B = 2
    def __eq__(self, o): return RANK[self.name] == (RANK[o.name] if isinstance(o, Same) else o)
    def __hash__(self): return RANK[self.name]
L = Level.A
def biggest(x): return x * 5 if max(Level.A, Level.B) is Level.B else x * 1.5
def biggest_of_list(x): return x * 5 if max([Level.A, Level.B]) is Level.B else x * 1.5
def less(x): return x * 5 if Level.A < Level.B else x * 1.5
def less_op(x): return x * 5 if operator.lt(Level.A, Level.B) else x * 1.5
def less_int(x): return x * 5 if 1.5 > Level.A else x * 1.5
def less_int_op(x): return x * 5 if operator.gt(1.5, Level.A) else x * 1.5
def equal(x): return x * 5 if Same.A == Same.B else x * 1.5
def equal_int(x): return x * 5 if 1 == Same.A else x * 1.5
def equal_in(x): return x * 5 if 1 in (Same.A,) else x * 1.5
def equal_in_consts(x): return x * 5 if Same.A in (1, 7) else x * 1.5
def equal_key(x): return x * {1: 2.0, 3: 5.0}.get(Same.A, 7.0)
def hexed(x): return x * len(hex(Level.A))
def ordinal(x): return x * len(oct(Level.A))
def charred(x): return x * (ord(chr(Level.A)) + 1)
def absolute(x): return x * abs(Level.A)
def rounded(x): return x * round(Level.A)
def floored(x): return x * math.floor(Level.A)
def integer(x): return x * int(Level.A)
def floating(x): return x * float(Level.A)
def sine(x): return x * math.sin(Level.A)
def text(x): return x * len(str(Level.A))
def represented(x): return x * len(repr(Level.A))
def as_ascii(x): return x * len(ascii(Level.A))
def f_string(x): return x * len(f"{Level.A}")
def f_string_spec(x): return x * len(f"{Level.A:>3}")
def formatted(x): return x * len("{}".format(Level.A))
def format_call(x): return x * len(format(Level.A))
def percent(x): return x * len("%s" % Level.A)
def joined(x): return x * len("-".join([str(Level.A), "a"]))
def length(x): return x * len(Level.A)
def item(x): return x * Level.A[0]
def item_op(x): return x * operator.getitem(Level.A, 0)
def added(x): return x * (Level.A + 1)
def added_op(x): return x * operator.add(Level.A, 1)
def added_right(x): return x * (1 + Level.A)
def summed(x): return x * sum([1, Level.A])
def modulo(x): return x * (operator.mod(Level.A, 7) + 1)
def both(x): return x * (divmod(Level.A, 3)[1] + 1)
def power(x): return x * pow(Level.A, 2)
def negative(x): return x * -Level.A
def negative_op(x): return x * operator.neg(Level.A)
def called(x): return x * Level.A(2.0)
def contained(x): return x * 5 if 1 in Level.A else x * 1.5
def index_of(x): return x * [10.0, 20.0, 30.0][Level.A]
def ranged(x): return x * (len(range(Level.A)) + 1)
def repeated(x): return x * len("ab" * Level.A)
def hash_key(x): return x * {Level.A: 2.0}[Level.A]
def order(x): return x * 5 if sorted([Level.B, Level.A])[0] is Level.A else x * 1.5
def method(x): return x * Level.A.rank()
def sized(x): return x[:Level.A].sum() + x
def reshaped(x): return x.repeat(Level.A)
class Meta(type):
    def __len__(cls): return RANK["A"]
    def __repr__(cls): return "a" * RANK["A"]
    def __str__(cls): return "a" * RANK["A"]
    def __format__(cls, spec): return "a" * RANK["A"]
    def __eq__(cls, o): return RANK["A"] == 1
    def __hash__(cls): return 7
    def __or__(cls, o): return float(RANK["A"])
    def __add__(cls, o): return RANK["A"] + o
    def __lt__(cls, o): return RANK["A"] < 2
    def __getitem__(cls, i): return RANK["A"]
    def __contains__(cls, i): return RANK["A"] == i
    def __iter__(cls): return iter([RANK["A"]])
    def __bool__(cls): return RANK["A"] == 1
    def __dir__(cls): return ["a"] * RANK["A"]
    def __neg__(cls): return -RANK["A"]
    def __call__(cls, *a): return RANK["A"]
class Found(metaclass=Meta): pass
class Other(metaclass=Meta): pass
def class_equal(x): return x * 5 if Found == Other else x * 1.5
def class_unequal(x): return x * 5 if Found != Other else x * 1.5
def class_equal_op(x): return x * 5 if operator.eq(Found, Other) else x * 1.5
def class_in(x): return x * 5 if Found in (Other, int) else x * 1.5
def class_key(x): return x * {Other: 2.0, int: 3.0}.get(Found, 5.0)
def class_or(x): return x * (Found | Other)
def class_add(x): return x * (Found + 1)
def class_add_op(x): return x * operator.add(Found, 1)
def class_less(x): return x * 5 if Found < Other else x * 1.5
def class_max(x): return x * 5 if max(Found, Other) is Found else x * 1.5
def class_len(x): return x * len(Found)
def class_text(x): return x * len(str(Found))
def class_repr(x): return x * len(repr(Found))
def class_f(x): return x * len(f"{Found}")
def class_format(x): return x * len("{}".format(Found))
def class_percent(x): return x * len("%s" % Found)
def class_item(x): return x * Found[0]
def class_contains(x): return x * 5 if 1 in Found else x * 1.5
def class_iter(x):
    for i in Found: x = x * i
    return x + 1
def class_bool(x): return x * 5 if Found else x * 1.5
def class_dir(x): return x * len(dir(Found))
def class_neg(x): return x * -Found
def class_call(x): return x * Found()
MV = memoryview(b"ab")
D1, D2 = {"a": 1}, {"a": 1}
V1, V2 = D1.items(), D2.items()
K1, K2 = D1.keys(), D2.keys()
AR1, AR2 = array.array("i", [1, 2]), array.array("i", [1, 2])
if hasattr(torch._dynamo, "allow_c_slot"): torch._dynamo.allow_c_slot(array.array)  # since 2.13
NS1, NS2 = types.SimpleNamespace(a=1), types.SimpleNamespace(a=1)
if hasattr(torch._dynamo, "allow_c_slot"): torch._dynamo.allow_c_slot(types.SimpleNamespace)  # since 2.13
def memory(x): return x * 5 if MV == b"ab" else x * 1.5
def views(x): return x * 5 if V1 == V2 else x * 1.5
def arrays(x): return x * 5 if AR1 == AR2 else x * 1.5
def spaces(x): return x * 5 if NS1 == NS2 else x * 1.5
"""
RANKS = ('RANK = {"A": 1, "B": 2}', 'RANK = {"A": 4, "B": 3}')
for entry in """biggest biggest_of_list less less_op less_int less_int_op equal_int equal_in equal_in_consts equal_key
    hexed ordinal charred absolute rounded floored integer floating sine text represented as_ascii f_string
    f_string_spec formatted format_call percent joined length item item_op added added_op added_right summed modulo
    both power negative negative_op called contained ranged repeated order method sized reshaped
    class_equal class_unequal class_equal_op class_in class_key class_or class_add class_add_op class_less class_len
    class_text class_repr class_f class_format class_percent class_item class_contains class_iter class_bool class_dir
    class_neg class_call""".split():
    more = {"agrees": True} if entry in ("hexed", "ordinal", "class_key") else {}
    put(f"native: {entry}", NATIVE, entry, edit=RANKS, **more)
put("native: equal", NATIVE, "equal", edit=('RANK = {"A": 1, "B": 2}', 'RANK = {"A": 3, "B": 3}'))
put("native: memory", NATIVE, "memory", edit=('memoryview(b"ab")', 'memoryview(b"cd")'))
put("native: views", NATIVE, "views", edit=('D1, D2 = {"a": 1}, {"a": 1}', 'D1, D2 = {"a": 1}, {"a": 2}'))
put(
    "native: arrays",
    NATIVE,
    "arrays",
    edit=(
        'AR2 = array.array("i", [1, 2]), array.array("i", [1, 2])',
        'AR2 = array.array("i", [1, 2]), array.array("i", [1, 3])',
    ),
)
put(
    "native: spaces",
    NATIVE,
    "spaces",
    edit=("SimpleNamespace(a=1), types.SimpleNamespace(a=1)", "SimpleNamespace(a=1), types.SimpleNamespace(a=2)"),
)

# ---------------------------------------------------------------- modules that are imported, or listed, in the frame
IMPORTS = """
import sys, types, torch, colorsys
MOD = types.ModuleType("wg_mod"); sys.modules["wg_mod"] = MOD
MOD.op_a = 1.0
# more
def local_has(x):
    import wg_mod
    return x * 5 if hasattr(wg_mod, "flag") else x * 1.5
def local_get(x):
    import wg_mod
    return x * getattr(wg_mod, "flag", 1.5)
def local_try(x):
    import wg_mod
    try: return x * wg_mod.flag
    except AttributeError: return x * 1.5
def local_from(x):
    from wg_mod import op_a
    return x * op_a
def local_dir(x):
    import wg_mod
    return x * len([n for n in dir(wg_mod) if n.startswith("op_")])
def global_dir(x): return x * len([n for n in dir(MOD) if n.startswith("op_")])
def global_vars(x): return x * len([n for n in vars(MOD) if n.startswith("op_")])
def global_dict(x): return x * len([n for n in MOD.__dict__ if n.startswith("op_")])
def has_op(x): return x * 5 if hasattr(torch.ops.wg_lib, "foo") else x * 1.5
def get_op(x): return x * 5 if getattr(torch.ops.wg_lib, "foo", None) is not None else x * 1.5
def local_torch(x):
    import torch.nn.functional as F
    return x * 5 if hasattr(F, "wg_flag") else x * 1.5
NAME = "op_b"
def by_name(x): return x * getattr(MOD, NAME, 1.5)
def has_by_name(x): return x * 5 if hasattr(MOD, NAME) else x * 1.5
def has_by_made_name(x): return x * 5 if hasattr(MOD, "op" + "_" + str("c")) else x * 1.5
def has_by_joined(x): return x * 5 if hasattr(MOD, "_".join(["op", "d"])) else x * 1.5
def get_by_format(x):
    for n in range(2, 3): x = x * getattr(MOD, f"op{n}", 1.5)
    return x
class Thing: pass
THING = Thing()
def object_by_format(x): return x * 5 if hasattr(THING, f"op{2}") else x * 1.5
def class_by_format(x): return x * 5 if hasattr(Thing, f"op{2}") else x * 1.5
def torch_by_format(x): return x * 5 if hasattr(torch, f"wg{2}") else x * 1.5
def functional_by_format(x): return x * 5 if hasattr(torch.nn.functional, f"wg{2}") else x * 1.5
def global_by_format(x): return x * 5 if f"WG{2}" in globals() else x * 1.5
"""


def imports(entry, name, change, **more):
    put(f"imports: {entry}, {name}", IMPORTS, entry, change=change, **{"after": False, **more})


for entry in ("local_has", "local_get", "local_try"):
    imports(entry, "it appears", set_("m.MOD.flag", 7.0))
imports("local_from", "another value", set_("m.MOD.op_a", 7.0))
for entry in ("local_dir", "global_dir", "global_vars", "global_dict"):
    imports(entry, "one more", set_("m.MOD.op_z", 7.0))
for entry in ("by_name", "has_by_name"):
    imports(entry, "it appears", set_("m.MOD.op_b", 7.0))
imports("has_by_made_name", "it appears", set_("m.MOD.op_c", 7.0))
imports("has_by_joined", "it appears", set_("m.MOD.op_d", 7.0))
imports("get_by_format", "it appears", set_("m.MOD.op2", 7.0))
imports("object_by_format", "it appears", set_("m.THING.op2", 7.0))
imports("class_by_format", "it appears", set_("m.Thing.op2", 7.0))
imports("torch_by_format", "it appears", lambda s: setattr(torch, "wg2", 7.0))
imports("functional_by_format", "it appears", lambda s: setattr(torch.nn.functional, "wg2", 7.0))
imports("global_by_format", "it appears", set_("m.WG2", 7.0))
imports("local_torch", "it appears", lambda s: setattr(torch.nn.functional, "wg_flag", 7.0))
_kept = []


def define(scene):
    lib = torch.library.Library("wg_lib", "FRAGMENT")
    lib.define("foo(Tensor x) -> Tensor")
    _kept.append(lib)


for entry in ("has_op", "get_op"):
    imports(entry, "it is defined", define)

DESCRIBED = """
import torch
LIMIT = 2.0
class Desc:
    def __init__(self): self.table = {"k": LIMIT}; self.pair = (LIMIT,)
    def __get__(self, o, t): return self.table["k"]
class Pair(Desc):
    def __get__(self, o, t): return self.pair[0]
class Owner:
    d = Desc()
    p = Pair()
class Made:
    def table(self, x, c=Owner): return x * c.d
    def pair(self, x, c=Owner): return x * c.p
def table(x): return Made().table(x)
def pair(x): return Made().pair(x)
def table_of_class(x): return x * Owner.d
def table_of_new(x): return x * Owner().d
class Meta(type):
    def __getattr__(cls, name): return TABLE[name]
TABLE = {"a": LIMIT}
class Has(metaclass=Meta): pass
def meta(x): return x * Has.a
class MadeMeta:
    def get(self, x, c=Has): return x * c.a
def meta_less(x): return MadeMeta().get(x)
"""
for entry in ("table", "pair", "table_of_class", "table_of_new", "meta", "meta_less"):
    put(f"described: {entry}", DESCRIBED, entry, edit=("LIMIT = 2.0", "LIMIT = 3.0"))

HELD = """
import functools, math, operator, torch, types
LIMIT = 2.0
class Scaled:
    factor = 0.25
    @classmethod
    def scaled(cls, x): return x * cls.factor
    @classmethod
    def other(cls, x): return x - cls.factor
    @staticmethod
    def fixed(x): return x * 3
    @staticmethod
    def fixed_other(x): return x * 4
    def plain(self, x): return x * 5
    def plain_other(self, x): return x * 6
@functools.lru_cache
def cached(n): return n * 2.0
@functools.lru_cache
def cached_other(n): return n * 7.0
def one(x): return x * 8
def two(x): return x * 9
class Made:
    def bound(self, x, f=Scaled.scaled): return f(x)
    def static(self, x, f=Scaled.fixed): return f(x)
    def unbound(self, x, f=Scaled.plain): return f(None, x)
    def lru(self, x, f=cached): return x * f(3)
    def wrapper(self, x, f=(2.0).__add__): return x * f(3.0)
    def slot(self, x, f=float.__add__): return x * f(2.0, 3.0)
    def many(self, x, f=(one, two)): return f[0](x)
    def table(self, x, f={"k": one}): return f["k"](x)
    def bounds(self, x, f=(Scaled.scaled,)): return f[0](x)
    def kind(self, x, f=types.SimpleNamespace): return x * f(a=2.0).a
    def tensor(self, x, t=torch.Tensor): return x * 5 if isinstance(x, t) else x * 1.5
    def dtype(self, x, t=torch.float32): return x.to(t)
    def sliced(self, x, s=slice(0, 2)): return x[s] + 1
    def ranged(self, x, s=range(3)):
        for i in s: x = x + i
        return x
    def nested(self, x, s=((1.0, (2.0, [3.0])),)): return x * s[0][1][1][0]
    def sets(self, x, s={1.0, 2.0}):
        for i in s: x = x * i
        return x
    def named(self, x, f=one):
        return x * len(f.__name__)
    def module_of(self, x, f=one):
        return x * len(f.__module__)
def make(entry):
    pass
def bound(x): return Made().bound(x)
def static(x): return Made().static(x)
def unbound(x): return Made().unbound(x)
def lru(x): return Made().lru(x)
def wrapper(x): return Made().wrapper(x)
def slot(x): return Made().slot(x)
def many(x): return Made().many(x)
def table(x): return Made().table(x)
def bounds(x): return Made().bounds(x)
def tensor(x): return Made().tensor(x)
def dtype(x): return Made().dtype(x)
def sliced(x): return Made().sliced(x)
def ranged(x): return Made().ranged(x)
def nested(x): return Made().nested(x)
def named(x): return Made().named(x)
class Parts:
    def run(self, k, x): return x * k
    part = functools.partialmethod(run, 2.0)
class HasParts:
    def get(self, x, c=Parts): return c.part(None, x)
def parts(x): return HasParts().get(x)
def parts_of_new(x): return Parts().part(x)
PARTS = Parts()
def parts_of_global(x): return PARTS.part(x)
def closing(f):
    class Inner:
        def run(self, x): return f(x)
    return Inner
Closed = closing(Scaled.scaled)
def closed(x): return Closed().run(x)
def deco(f):
    @functools.wraps(f)
    def inner(*a): return f(*a)
    return inner
class Wrapped:
    run = deco(Scaled.scaled)
def wrapped(x): return Wrapped.run(x)
class Aliased:
    go = Scaled.scaled
def aliased(x): return Aliased().go(x)
def aliased_class(x): return Aliased.go(x)
class Optional:
    def __init__(self, f=Scaled.scaled): self.f = f
    def run(self, x): return self.f(x)
def optional(x): return Optional().run(x)
@property
def prop(self): return 2.0
class Prop:
    def __init__(self, p=(prop,)): self.p = p
"""


def held(entry, old, new, **more):
    put(f"held: {entry}", HELD, entry, edit=(old, new), **more)


held("bound", "x, f=Scaled.scaled): return f(x)\n    def static", "x, f=Scaled.other): return f(x)\n    def static")
held("static", "f=Scaled.fixed)", "f=Scaled.fixed_other)")
held("unbound", "f=Scaled.plain)", "f=Scaled.plain_other)")
held("lru", "f=cached)", "f=cached_other)")
held("wrapper", "f=(2.0).__add__", "f=(2.0).__mul__")
held("slot", "f=float.__add__", "f=float.__mul__")
held("many", "f=(one, two)", "f=(two, one)")
held("table", '{"k": one}', '{"k": two}')
held("bounds", "f=(Scaled.scaled,)", "f=(Scaled.other,)")
held("tensor", "t=torch.Tensor", "t=torch.nn.Parameter")
held("dtype", "t=torch.float32", "t=torch.float64")
held("sliced", "slice(0, 2)", "slice(0, 3)")
held("ranged", "range(3)", "range(4)")
held("nested", "[3.0]", "[4.0]")
held("parts", "(run, 2.0)", "(run, 3.0)")
held("parts_of_new", "(run, 2.0)", "(run, 3.0)")
held("parts_of_global", "(run, 2.0)", "(run, 3.0)")
held("closed", "Closed = closing(Scaled.scaled)", "Closed = closing(Scaled.other)")
held("wrapped", "run = deco(Scaled.scaled)", "run = deco(Scaled.other)")
held("aliased", "go = Scaled.scaled", "go = Scaled.other")
held("aliased_class", "go = Scaled.scaled", "go = Scaled.other")
held("optional", "def __init__(self, f=Scaled.scaled)", "def __init__(self, f=Scaled.other)")
held("named", "def named(self, x, f=one)", "def named(self, x, f=cached_other)", agrees=True)
put("bare: attribute, set", BARE, "attribute", change=lambda s: setattr(s.m.NET, "act", torch.Tensor.mul), after=False)
put(
    "bare: model, activation set",
    BARE,
    "model",
    change=lambda s: setattr(s.model, "act", torch.Tensor.tanh),
    after=False,
    args=lambda: (torch.randn(4, 4),),
)

CLEAN = "\n".join(
    line for line in NATIVE.splitlines() if "def __eq__(cls" not in line and "def __hash__(cls" not in line
)
for entry in """class_or class_add class_add_op class_less class_max class_len class_text class_repr class_f class_format class_percent
    class_item class_contains class_iter class_bool class_dir class_neg class_call""".split():
    put(f"clean: {entry}", CLEAN, entry, edit=RANKS)
ONLY = NATIVE.replace("    def __hash__(cls): return 7\n", "    def __hash__(cls): return id(cls)\n")
