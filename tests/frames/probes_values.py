"""Probes of values that a function reads: what is there, and what a trace looked for and did not find."""

from __future__ import annotations

import numpy as np
import torch
from probe import args, put, set_

SOURCE = """
import collections, math, numpy, torch
DTYPE = numpy.dtype("float32")
TENSOR = torch.arange(4.0)
D = {"a": 2.0}
S = {1, 2}
T = {8, 0}
LST = [1.0]
class Thing:
    def __init__(self): self.v = 2.0
    def __call__(self, x): return x * self.v
    def meth(self, x): return x * self.v + 1
THING = Thing()
class Other: pass
OTHER = Other()
class Sub(dict): pass
SUB = Sub(a=1.0)
DD = collections.defaultdict(lambda: 2.0)
OD = collections.OrderedDict(a=1.0, b=2.0)
NT = collections.namedtuple("NT", "p q")
POINT = NT(1.0, 2.0)
def helper2(y): return y * 3
class Meta(type):
    def __instancecheck__(cls, o): return False
class WithMeta(metaclass=Meta): pass
class Desc:
    def __init__(self, v=3.0): self.v = v
    def __get__(self, o, t): return 3.0
class DescOfValue:
    def __init__(self, v): self.v = v
    def __get__(self, o, t): return self.v
class HasDesc:
    d = Desc()
    e = DescOfValue(3.0)
HD = HasDesc()
class Slots:
    __slots__ = ("v", "w")
    def __init__(self): self.v = 2.0
SL = Slots()
class GA:
    def __getattr__(self, name): return 4.0
GAO = GA()
class GAB:
    def __init__(self): self.v = 2.0
    def __getattribute__(self, name): return object.__getattribute__(self, name)
GABO = GAB()
def dtype_of_numpy(x): return x * 2 if DTYPE == numpy.float32 else x * 3
def converted(x): return torch.from_numpy(x.numpy().astype(DTYPE)) + 1
def use_tensor(x): return x + TENSOR
def lists(xs): return xs[0] + xs[1] if len(xs) == 2 else xs[0] * 3
def use_thing(x): return THING(x) + THING.meth(x)
def use_math(x): return x * math.floor(2.5)
def missing_try(x):
    try: return x * D["b"]
    except KeyError: return x * 1.5
def missing_get(x): return x * D.get("b", 1.0)
def missing_in(x): return x * D["b"] if "b" in D else x * 1.5
def missing_pop(x, d): return x * d.pop("b", 1.0)
def missing_attr(x): return x * getattr(THING, "w", 1.0)
def missing_attr_try(x):
    try: return x * THING.w
    except AttributeError: return x * 1.5
def missing_global(x):
    try: return x * NOTHERE
    except NameError: return x * 1.5
def missing_mod(x): return x * getattr(torch, "wg_nothing", 1.0)
def missing_func(x): return x * 5 if hasattr(math, "wg_nothing") else x * 1.5
def index_try(x):
    try: return x * LST[1]
    except IndexError: return x * 1.5
def in_set(x): return x * 5 if 3 in S else x * 1.5
def set_order(x):
    for i in T: x = x * i + 1
    return x
def dict_order(x):
    for k in D: x = x * D[k] + 1
    return x
def od_order(x):
    for k, v in OD.items(): x = x * v + 1
    return x
def named(x): return x * POINT.p + POINT.q
def has_fn_attr(x): return x * 5 if hasattr(helper2, "flag") else x * 1.5
def has_class_attr(x): return x * 5 if hasattr(Thing, "flag") else x * 1.5
def try_class_attr(x):
    try: return x * Thing.flag
    except AttributeError: return x * 1.5
def try_fn_attr(x):
    try: return x * helper2.flag
    except AttributeError: return x * 1.5
def has_tensor_attr(x): return x * 5 if hasattr(TENSOR, "flag") else x * 1.5
def try_tensor_attr(x):
    try: return x * TENSOR.flag
    except AttributeError: return x * 1.5
def sub_try(x):
    try: return x * SUB["b"]
    except KeyError: return x * 1.5
def dd(x): return x * DD["z"]
def isinst(x): return x * 5 if isinstance(THING, int) else x * 1.5
def is_other(x): return x * 5 if isinstance(THING, Other) else x * 1.5
def is_none(x): return x * 5 if OTHER is None else x * 1.5
def eqs(x): return x * 5 if THING == OTHER else x * 1.5
def truth(x): return x * 5 if THING else x * 1.5
def calls_len(x): return x * (len(D) + 1)
def total(x): return x * sum(D.values())
def text_of(x): return x * len(str(THING.v))
def lowest(x): return x * sorted(LST)[0]
def isinst_meta(x): return x * 5 if isinstance(THING, WithMeta) else x * 1.5
def desc(x): return x * HD.d
def desc_value(x): return x * HD.e
def slots(x): return x * SL.v
def slots_try(x):
    try: return x * SL.w
    except AttributeError: return x * 1.5
def getattr_dyn(x): return x * GAO.anything
def getattribute(x): return x * GABO.v
def annotations(x): return x * (len(helper2.__annotations__) + 1)
def name_of(x): return x * len(helper2.__name__)
def doc_of(x): return x * 5 if helper2.__doc__ else x * 1.5
def class_name(x): return x * len(Thing.__name__)
def mro(x): return x * len(Thing.__mro__)
def kind(x): return x * 5 if type(THING) is Thing else x * 1.5
def sub(x): return x * 5 if issubclass(Thing, Other) else x * 1.5
def shape_of(x): return x * TENSOR.shape[0]
def dtype_of(x): return x * 5 if TENSOR.dtype is torch.float64 else x * 1.5
def device_of(x): return x * 5 if TENSOR.device.type == "meta" else x * 1.5
def grad_of(x): return x * 5 if TENSOR.grad is None else x * 1.5
def leaf_of(x): return x * 5 if TENSOR.is_leaf else x * 1.5
def requires(x): return x * 5 if TENSOR.requires_grad else x * 1.5
def contiguous(x, y): return x * 5 if y.is_contiguous() else x * 1.5
def offset(x, y): return x * (y.storage_offset() + 1)
def strided(x, y): return x + torch.as_strided(y, (4,), (1,), 0)
def dynamic(x): return x * x.shape[0]
"""


def value(entry, name, **more):
    put(f"value: {entry}, {name}", SOURCE, entry, **more)


def both(make):
    return lambda: (torch.arange(4.0), make())


value("use_tensor", "other numbers", change=set_("m.TENSOR", torch.full((4,), 2.0)), agrees=True)
value("use_tensor", "another size", change=set_("m.TENSOR", torch.full((1,), 2.0)))
value("use_tensor", "another type", change=set_("m.TENSOR", torch.arange(4.0).double()))
value("use_tensor", "a parameter", change=set_("m.TENSOR", torch.nn.Parameter(torch.arange(4.0))), agrees=True)
value("use_tensor", "a number", change=set_("m.TENSOR", 3.0))
value(
    "lists",
    "a shorter list",
    args=lambda: ([torch.ones(4), torch.ones(4)],),
    change=args(lambda: ([torch.ones(4)],)),
)
value("lists", "a tuple", args=lambda: ([torch.ones(4)] * 3,), change=args(lambda: ((torch.ones(4),) * 2,)))
value("use_thing", "an attribute", change=set_("m.THING.v", 9.0))
value("use_thing", "__call__", change=lambda s: setattr(s.m.Thing, "__call__", lambda self, x: x - 1))
value("use_thing", "a method", change=lambda s: setattr(s.m.Thing, "meth", lambda self, x: x - 1))
value("use_thing", "a method of the instance", change=lambda s: setattr(s.m.THING, "meth", lambda x: x * 50))
value("use_thing", "an instance of another class", change=lambda s: setattr(s.m.THING, "__class__", s.m.Other))
value("use_math", "math.floor", change=lambda s: setattr(s.m.math, "floor", lambda v: 40))
value("missing_try", "it appears", change=lambda s: s.m.D.update(b=7.0))
value("missing_get", "it appears", change=lambda s: s.m.D.update(b=7.0))
value("missing_in", "it appears", change=lambda s: s.m.D.update(b=7.0))
value("missing_pop", "it appears", args=both(lambda: {"a": 1.0}), change=args(both(lambda: {"b": 4.0})))
value("missing_attr", "it appears", change=set_("m.THING.w", 7.0))
value("missing_attr_try", "it appears", change=set_("m.THING.w", 7.0))
value("missing_attr_try", "it appears on the class", change=set_("m.Thing.w", 7.0))
value("missing_global", "it appears", change=set_("m.NOTHERE", 7.0))
value("missing_mod", "it appears", change=lambda s: setattr(torch, "wg_nothing", 7.0))
value("missing_func", "it appears", change=lambda s: setattr(s.m.math, "wg_nothing", 7.0))
value("index_try", "it appears", change=lambda s: s.m.LST.append(7.0))
value("in_set", "it appears", change=lambda s: s.m.S.add(3))
value("set_order", "another order", edit=("T = {8, 0}", "T = {0, 8}"))
value("dict_order", "another order", edit=('D = {"a": 2.0}', 'D = {"b": 3.0, "a": 2.0}'))
value("od_order", "another order", change=lambda s: s.m.OD.move_to_end("a"))
value("od_order", "a value", change=lambda s: s.m.OD.update(a=5.0))
value("named", "another", change=lambda s: setattr(s.m, "POINT", s.m.NT(1.0, 5.0)))
value("has_fn_attr", "it appears", change=set_("m.helper2.flag", 7.0))
value("has_class_attr", "it appears", change=set_("m.Thing.flag", 7.0))
value("try_class_attr", "it appears", change=set_("m.Thing.flag", 7.0))
value("try_fn_attr", "it appears", change=set_("m.helper2.flag", 7.0))
NOTICES = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 12)  # 2.11 does not trace again, with any backend
value("has_tensor_attr", "it appears", change=set_("m.TENSOR.flag", 7.0), after=NOTICES)
value("try_tensor_attr", "it appears", change=set_("m.TENSOR.flag", 7.0))
value("sub_try", "it appears", change=lambda s: s.m.SUB.update(b=7.0))
value("dd", "it appears", change=lambda s: s.m.DD.update(z=7.0))
value("dd", "its factory", edit=("lambda: 2.0", "lambda: 4.0"))
value("isinst", "an int", change=set_("m.THING", 3))
value("is_other", "of that class", change=lambda s: setattr(s.m, "THING", s.m.Other()))
value("is_none", "None", change=set_("m.OTHER", None))
value("eqs", "__eq__ appears", change=lambda s: setattr(s.m.Thing, "__eq__", lambda a, b: True))
value("truth", "__bool__ appears", change=lambda s: setattr(s.m.Thing, "__bool__", lambda a: False))
value("truth", "__len__ appears", change=lambda s: setattr(s.m.Thing, "__len__", lambda a: 0))
value("calls_len", "longer", change=lambda s: s.m.D.update(b=7.0))
value("total", "another value", change=lambda s: s.m.D.update(a=7.0))
value("lowest", "another value", change=lambda s: s.m.LST.append(0.5))
value(
    "isinst_meta",
    "__instancecheck__",
    edit=("def __instancecheck__(cls, o): return False", "def __instancecheck__(cls, o): return True"),
    refused="isinstance",
)
value("desc", "its code", edit=("def __get__(self, o, t): return 3.0", "def __get__(self, o, t): return 4.0"))
value("desc", "its class", change=lambda s: setattr(s.m.Desc, "__get__", lambda self, o, t: 9.0))
value("desc_value", "its value", edit=("DescOfValue(3.0)", "DescOfValue(4.0)"))
value("desc_value", "its value, set", change=lambda s: setattr(vars(s.m.HasDesc)["e"], "v", 9.0))
value("slots", "a value", change=set_("m.SL.v", 7.0))
value("slots_try", "it appears", change=set_("m.SL.w", 7.0))
value(
    "getattr_dyn",
    "its code",
    edit=("def __getattr__(self, name): return 4.0", "def __getattr__(self, name): return 5.0"),
)
value("getattr_dyn", "the attribute appears", change=set_("m.GAO.anything", 7.0))
value(
    "getattribute", "its code", edit=("return object.__getattribute__(self, name)", 'return 9.0 if name == "v" else 1')
)
value("annotations", "more", edit=("def helper2(y):", "def helper2(y: int):"))
# torch 2.15 takes both from the code, which the change leaves as it is.
OF_CODE = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 15)
value("name_of", "another", change=set_("m.helper2.__name__", "abc"), agrees=OF_CODE)
value("doc_of", "it has one", change=set_("m.helper2.__doc__", "abc"), agrees=OF_CODE)
value("class_name", "another", change=set_("m.Thing.__name__", "abc"))
value("mro", "another base", edit=("class Thing:", "class Base0: pass\nclass Thing(Base0):"))
value("kind", "a subclass", change=lambda s: setattr(s.m, "THING", type("Thing", (s.m.Thing,), {})()))
value("sub", "a base more", edit=("class Thing:", "class Other: pass\nclass Thing(Other):"), agrees=True)
value("shape_of", "another", change=set_("m.TENSOR", torch.ones(5)))
value("dtype_of", "another", change=set_("m.TENSOR", torch.ones(4).double()))
value("dtype_of_numpy", "another", change=set_("m.DTYPE", np.dtype("int64")))
value("dtype_of_numpy", "made again", change=set_("m.DTYPE", np.dtype(np.float32)), restores=True)
value("dtype_of_numpy", "a class instead", change=set_("m.DTYPE", np.float32), agrees=True)
value("converted", "another", change=set_("m.DTYPE", np.dtype("float64")))
value("device_of", "another", change=set_("m.TENSOR", torch.ones(4, device="meta")))
value("grad_of", "it has one", change=lambda s: setattr(s.m.TENSOR, "grad", torch.ones(4)), agrees=True)
value("leaf_of", "no leaf", change=lambda s: setattr(s.m, "TENSOR", s.m.TENSOR.clone().requires_grad_() * 1))
value("requires", "it does", change=lambda s: s.m.TENSOR.requires_grad_(), after=NOTICES)
value(
    "contiguous", "it is not", args=both(lambda: torch.ones(2, 2)), change=args(both(lambda: torch.ones(2, 4)[:, ::2]))
)
value("offset", "another", args=both(lambda: torch.arange(8.0)[:4]), change=args(both(lambda: torch.arange(8.0)[2:6])))
value(
    "strided",
    "another",
    args=both(lambda: torch.arange(8.0)[:4]),
    change=args(both(lambda: torch.arange(8.0)[2:6])),
    agrees=True,
)
value("dynamic", "another size", change=args(lambda: (torch.ones(6),)))
value("dynamic", "marked", change=lambda s: torch._dynamo.mark_dynamic(s.args[0], 0), agrees=True)


def marked(*dims, most=None):
    def make():
        x = torch.arange(12.0).reshape(3, 4)
        for dim in dims:
            torch._dynamo.mark_dynamic(x, dim, max=most)
        return (x,)

    return make


value("dynamic", "two marked", args=marked(0, 1), change=args(marked(1, 0)), restores=True)
value("dynamic", "a mark less", args=marked(0, 1), change=args(marked(1)), agrees=True)
value("dynamic", "another range", args=marked(0, 1), change=args(marked(0, 1, most=64)), agrees=True)
