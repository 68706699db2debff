# ruff: noqa
"""Candidates of the fourth hunt, part B: the same files, other data (`edit`: what a config file, the environment or a
checkpoint gave). Modules, tensors, iterators, registries."""

from __future__ import annotations

import torch
from probe import put

SOURCE = """
import collections, dataclasses, functools, inspect, os, re, threading, types, torch
import torch.utils._pytree as pytree
from torch import nn
PICK = "first"
ORDER = ["first", "second"]
REGISTER = False
SCALE = 2.0
WIDTH = 2
WORD = "ab+"
DTYPE_NAME = "float32"
METHOD = "neg"
KINDS = "int"
SAME = True

# -- 1. what a function without a source holds, and a trace knows already: by identity of the object or of the cell
class Gain(nn.Module):
    def __init__(self, gain): super().__init__(); self.gain = gain
    def forward(self, x): return x * self.gain + 1
NETS = {"first": Gain(2.0), "second": Gain(7.0)}
NET_A, NET_B = NETS["first"], NETS["second"]
class Weighted(nn.Module):
    def __init__(self, w): super().__init__(); self.w = nn.Parameter(torch.full((4,), w), requires_grad=False)
    def forward(self, x): return x * self.w
WEIGHTED = {"first": Weighted(2.0), "second": Weighted(7.0)}
W_A, W_B = WEIGHTED["first"], WEIGHTED["second"]
class Cfg:
    def __init__(self, **values): vars(self).update(values)
class Scaler:
    def __init__(self, cfg): self.cfg = cfg
    def run(self, x): return x * self.cfg.k
SCALERS = {"first": Scaler(Cfg(k=2.0)), "second": Scaler(Cfg(k=7.0))}
S_A, S_B = SCALERS["first"], SCALERS["second"]
class OfTensor:
    def __init__(self, t): self.t = t
    def run(self, x): return x * self.t
TENSORS = {"first": torch.full((4,), 2.0), "second": torch.full((4,), 7.0)}
OF_TENSORS = {name: OfTensor(t) for name, t in TENSORS.items()}
T_A, T_B = OF_TENSORS["first"], OF_TENSORS["second"]
def using(f):
    class Inner:
        def go(self, x): return f(x)
    return Inner
def using_all(fs):
    class Inner:
        def go(self, x):
            for f in fs: x = f(x)
            return x
    return Inner
def using_table(fs):
    class Inner:
        def go(self, x): return fs["act"](x)
    return Inner
OfModule = using(NETS[PICK].forward)
OfWeighted = using(WEIGHTED[PICK].forward)
OfNested = using(SCALERS[PICK].run)
OfTensors = using(OF_TENSORS[PICK].run)
Stages = using_all([NETS[name].forward for name in ORDER])
Table = using_table({"act": NETS[PICK].forward})
def bound_module(x):
    y = NET_A(x) + NET_B(x)
    return y + 100 * OfModule().go(x)
def bound_weights(x):
    y = W_A(x) + W_B(x)
    return y + 100 * OfWeighted().go(x)
def bound_nested(x):
    y = S_A.run(x) + S_B.run(x)
    return y + 100 * OfNested().go(x)
def bound_tensor(x):
    y = T_A.run(x) + T_B.run(x)
    return y + 100 * OfTensors().go(x)
def bound_order(x):
    y = NET_A(x) + NET_B(x)
    return y + 100 * Stages().go(x)
def bound_table(x):
    y = NET_A(x) + NET_B(x)
    return y + 100 * Table().go(x)
class Defaulted:
    def go(self, x, f=NETS[PICK].forward): return f(x)
    def attribute(self, x): return self.attribute.step(x)
    attribute.step = NETS[PICK].forward
def bound_default(x):
    y = NET_A(x) + NET_B(x)
    return y + 100 * Defaulted().go(x)
def bound_attribute(x):
    y = NET_A(x) + NET_B(x)
    return y + 100 * Defaulted().attribute(x)
class Settings:
    def __init__(self, cfg): self.cfg = cfg
    def scale(self): return self.cfg.k
SETTINGS = {"first": Settings(Cfg(k=2.0)), "second": Settings(Cfg(k=7.0))}
SET_A, SET_B = SETTINGS["first"], SETTINGS["second"]
@dataclasses.dataclass
class Out:
    scale: float = dataclasses.field(default_factory=SETTINGS[PICK].scale)
def bound_factory(x):
    y = x * SET_A.scale() + x * SET_B.scale()
    return y + 100 * x * Out().scale

def of_module(net):
    def f(x): return net(x)
    return f
def of_value(t):
    def f(x): return x * t
    return f
def of_config(cfg):
    def f(x): return x * cfg.inner.k
    return f
FUNCS = {name: of_module(net) for name, net in NETS.items()}
F_A, F_B = FUNCS["first"], FUNCS["second"]
T_FUNCS = {name: of_value(t) for name, t in TENSORS.items()}
TF_A, TF_B = T_FUNCS["first"], T_FUNCS["second"]
C_FUNCS = {name: of_config(Cfg(inner=Cfg(k=k))) for name, k in (("first", 2.0), ("second", 7.0))}
CF_A, CF_B = C_FUNCS["first"], C_FUNCS["second"]
CellModule, CellTensor, CellConfig = using(FUNCS[PICK]), using(T_FUNCS[PICK]), using(C_FUNCS[PICK])
CellOrder = using_all([FUNCS[name] for name in ORDER])
def cell_module(x):
    y = F_A(x) + F_B(x)
    return y + 100 * CellModule().go(x)
def cell_tensor(x):
    y = TF_A(x) + TF_B(x)
    return y + 100 * CellTensor().go(x)
def cell_config(x):
    y = CF_A(x) + CF_B(x)
    return y + 100 * CellConfig().go(x)
def cell_order(x):
    y = F_A(x) + F_B(x)
    return y + 100 * CellOrder().go(x)
def asks(f):
    class Inner:
        def go(self, x): return x * 5 if f is F_A else x * 1.5
    return Inner
Asks = asks(FUNCS[PICK])
def which_function(x): return Asks().go(x)
class FunctionDefault:
    def go(self, x, f=FUNCS[PICK]): return f(x)
    def attribute(self, x): return self.attribute.step(x)
    attribute.step = FUNCS[PICK]
def cell_default(x):
    y = F_A(x) + F_B(x)
    return y + 100 * FunctionDefault().go(x)
def cell_attribute(x):
    y = F_A(x) + F_B(x)
    return y + 100 * FunctionDefault().attribute(x)

INDEX = {F_A: 5.0}
def in_index(f):
    class Inner:
        def go(self, x): return x * INDEX[f] if f in INDEX else x * 1.5
    return Inner
InIndex = in_index(FUNCS[PICK])
def which_key(x): return InIndex().go(x)
class Routes:
    act = NETS[PICK].forward
    fun = staticmethod(FUNCS[PICK])
class Takes:
    def bound(self, x, c=Routes): return c.act(x)
    def static(self, x, c=Routes): return c.fun(x)
def class_bound(x):
    y = NET_A(x) + NET_B(x)
    return y + 100 * Takes().bound(x)
def class_static(x):
    y = F_A(x) + F_B(x)
    return y + 100 * Takes().static(x)
def gain_of(net):
    def gain(self): return net.gain
    return gain
GAINS = {name: gain_of(net) for name, net in NETS.items()}
G_A, G_B = GAINS["first"], GAINS["second"]
class Layer:
    gain = property(GAINS[PICK])
def cell_property(x):
    y = x * G_A(None) + x * G_B(None)
    return y + 100 * x * Layer().gain

# -- 2. the registry of pytree, which a trace asks natively
class Box:
    def __init__(self, t): self.t = t
if REGISTER:
    pytree.register_pytree_node(Box, lambda b: ([b.t], None), lambda v, c: Box(v[0]))
BOX = Box(torch.full((4,), 3.0))
def double(v): return v.t * 10 if isinstance(v, Box) else v * 2
def taken(out): return out.t if isinstance(out, Box) else out
def tree_leaf(x): return x * taken(pytree.tree_map(double, BOX))
def tree_leaf_new(x): return taken(pytree.tree_map(double, Box(x)))
def tree_leaves(x):
    first, second = pytree.tree_map(double, [BOX, Box(x)])
    return taken(first) * 100 + taken(second)
def tree_path(x): return x * taken(pytree.tree_map_with_path(lambda path, v: double(v), BOX))
def tree_only(x): return x * taken(pytree.tree_map_only(Box, double, BOX))

# -- 3. what lies on a function that has no source: held.py:_text says of these the type
def tagged(**tags):
    def wrap(f):
        for name, value in tags.items(): setattr(f, name, value)
        return f
    return wrap
METHODS = {"neg": torch.Tensor.neg, "sigmoid": torch.Tensor.sigmoid}
TYPES = {"int": int | None, "float": float | None}
LABELS = {f"label{i}": float(i) for i in range(3000)}
LABELS["scale"] = SCALE
class Made:
    @tagged(window=slice(0, WIDTH), pattern=re.compile(WORD), info=torch.finfo(getattr(torch, DTYPE_NAME)),
            act=METHODS[METHOD], kinds=TYPES[KINDS], labels=LABELS,
            _dynamo_opts={"scale": SCALE}, param=inspect.Parameter("n", inspect.Parameter.KEYWORD_ONLY, default=SCALE))
    def run(self, x): return x * 2
def tag_slice(x): return x[Made().run.window].sum() + x
def tag_pattern(x): return x * 5 if Made().run.pattern.match("abb") is not None else x * 1.5
def tag_finfo(x): return x * Made().run.info.bits
def tag_method(x): return Made().run.act(x)
def tag_union(x): return x * 5 if isinstance(2, Made().run.kinds) else x * 1.5
def tag_labels(x): return x * Made().run.labels["scale"]
def tag_marked(x): return x * Made().run._dynamo_opts["scale"]
def tag_parameter(x): return x * Made().run.param.default

# -- 4. identity of what is immutable
RAW = b"raw bytes"
KEY = RAW if SAME else bytes(bytearray(RAW))
def which_bytes(x): return x * 5 if KEY is RAW else x * 1.5
ONE = 1.5 + 2j
OTHER = ONE if SAME else complex(1.5, 2.0)
def which_complex(x): return x * 5 if OTHER is ONE else x * 1.5
"""

PICK = ('PICK = "first"', 'PICK = "second"')
ORDER = ('ORDER = ["first", "second"]', 'ORDER = ["second", "first"]')
REGISTER = ("REGISTER = False", "REGISTER = True")
SCALE = ("SCALE = 2.0", "SCALE = 8.0")
SAME = ("SAME = True", "SAME = False")


def data(entry, edit, **more):
    put(f"d4b: {entry}", SOURCE, entry, edit=edit, **more)


# -- 1. SourcelessBuilder.create, MethodType: `side_effects.id_to_variable[id(value.__self__)]`: which of two known objects
# it is bound to has no guard. values.py:_object says "method:.. of <self>": of a module nothing (_attributes returns ""),
# of an object its *plain* attributes, of an attribute that is an object or a tensor the type (held.py:_text). So the
# text of both is one. (d4a's bound_in_closure had a plain dict, which is said now.)
data("bound_module", PICK)  # builder.py:SourcelessBuilder.create; values.py:_attributes -> "" for nn.Module
data("bound_weights", PICK)  # the same, they differ in a parameter
data("bound_nested", PICK)  # attribute is a config object: held.py:_text says its type
data("bound_tensor", PICK)  # attribute is a tensor
data("bound_order", ORDER)  # a list of stages in the order of a config: each text is the same
data("bound_table", PICK)  # in a dict
data("bound_default", PICK)  # a default instead of a cell: functions.py:bind_args, wrap_bound_arg without a source
data("bound_attribute", PICK)  # functions.py:fn_var_getattr; held.py:_text says "builtins.method" of any bound method
data(
    "bound_factory", PICK
)  # dataclass: default_factory in a cell of the generated __init__; classes.py:_field says no more

# functions.py:UserFunctionVariable.bind_args: `cell in side_effects` gives the contents of a cell that is known by
# another function. sharing.py:_cells knows cells of functions with a source and of methods of classes, not of a function
# within such a cell; the text of F_A and F_B is one where what they close over is a module, a tensor, a nested config.
data("cell_module", PICK)
data("cell_tensor", PICK)
data("cell_config", PICK)
data("cell_order", ORDER)  # a list of them
data("cell_default", PICK)  # as a default
data("cell_attribute", PICK)  # as an attribute of a function
data(
    "which_function", PICK
)  # `f is F_A`: object_protocol.py:vt_identity_compare; f has no source, so one_text misses it
data(
    "which_key", PICK
)  # (perhaps refused: DICT_CONTAINS with a function) hashable.py:HashableTracker of a function without a source: by its id, which nothing says
data(
    "class_bound", PICK
)  # resolve_cls_plain_attr of a class that is a default; refuse_partly_said lets builtins.method pass
data("class_static", PICK)  # the same, a function whose cell is known
data("cell_property", PICK)  # functions.py:PropertyVariable of an object made in the frame

# -- 2. user_defined.py:UserDefinedObjectVariable.call_tree_map_branch: `value_type in pytree.SUPPORTED_NODES`, natively
# and under no guard: DICT_KEYS_MATCH/DICT_VERSION on SUPPORTED_NODES comes only where pytree's own code is traced, as for a
# tensor among the leaves; for objects alone it is not. No rule, word or surface says which
# classes are registered.
data("tree_leaf", REGISTER)
data("tree_leaf_new", REGISTER)  # of an object made in the frame
data("tree_path", REGISTER)  # call_tree_map_with_path_branch, the same
data("tree_only", REGISTER)  # functions.py:_rewrite_tree_map_only_call, then the same
data("tree_leaves", REGISTER)  # in a list: lists.py:call_tree_map_branch asks nobody

# -- 3. functions.py:fn_var_getattr without a source, SourcelessBuilder.create of the value; values.py:_hung ->
# held.py:plain_text, which says the type of all but plain data; `watch._UNSAID` knows none of these.
data("tag_slice", ("WIDTH = 2", "WIDTH = 4"))  # SliceVariable; values.constant would say it, _text does not ask it
data("tag_pattern", ('WORD = "ab+"', 'WORD = "ac+"'))  # ConstantLikeVariable.call_method runs it at once
data("tag_finfo", ('DTYPE_NAME = "float32"', 'DTYPE_NAME = "float64"'))  # common_constant_types has finfo and iinfo
data("tag_method", ('METHOD = "neg"', 'METHOD = "sigmoid"'))  # method_descriptor: not in held._CALLED
data("tag_union", ('KINDS = "int"', 'KINDS = "float"'))  # TypingVariable
data("tag_labels", SCALE)  # more than held._LARGEST items: "dict"
data("tag_marked", SCALE)  # values.py:_hung drops names that begin with _dynamo; marks_of says the name alone
data("tag_parameter", SCALE)  # handlers[inspect.Parameter]: UserDefinedObjectVariable without a source

# -- 4. object_protocol.py:vt_identity_compare compares the live objects; sharing.py:one_text adds str, int and float
# where code says `is`, and leaves out bytes and complex (a tuple is built anew: never one, in any process)
data("which_bytes", SAME)
data("which_complex", SAME)
