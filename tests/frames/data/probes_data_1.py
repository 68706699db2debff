# ruff: noqa
"""Candidates of the fourth hunt, part A: the same files, other data (`edit`: what a config file or the environment
gave). In every program the edit is one literal; in the field it is json.load(...)/os.environ and no file differs."""

from __future__ import annotations

import torch
from probe import put

SOURCE = """
import abc, collections, collections.abc, enum, functools, inspect, math, types, torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity
ACT_NAME = "relu"
NORM_NAME = "batch"
ACT_NAMES = ["relu", "silu"]
SHARE = "first"
PICK = "first"
SCALE = 2.0
KIND_NAME = "A"
DTYPE_NAME = "float32"
ACTIVITY = "CPU"
ORDER = [8.0, 0.0]
CASTS = False
def my_relu(x): return x * 3
def my_silu(x): return x * 4
def my_gelu(x): return x * 6
ACTS = {"relu": my_relu, "silu": my_silu, "gelu": my_gelu}
TORCH_ACTS = {"relu": F.relu, "silu": F.silu, "gelu": F.gelu}
NORMS = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}
DTYPES = {"float32": torch.float32, "float64": torch.float64}
class Kind(enum.Enum):
    A = 1
    B = 2
P = collections.namedtuple("P", "a b")

# -- 1. hashed without being realized: HashableTracker, hash(vt.original_value())
ACT = ACTS[ACT_NAME]
TORCH_ACT = TORCH_ACTS[ACT_NAME]
NORM = NORMS[NORM_NAME]
SMOOTH = {my_gelu: 2.0, my_silu: 4.0}
SMOOTH_TORCH = {F.gelu: 2.0}
SMOOTH_SET = {my_gelu, my_silu}
PER_SAMPLE = {nn.LayerNorm: 5.0}
PAIR = (ACTS[ACT_NAME], my_relu)
LAYERS = [ACTS[name] for name in ACT_NAMES]
FIRST, SECOND = LAYERS
class Act:
    def __init__(self, act): self.act = act
HOLDER = Act(ACT)
class Net(nn.Module):
    def __init__(self, act, norm): super().__init__(); self.act = act; self.norm = norm
    def forward(self, x): return x * (5 if self.act in SMOOTH else 1.5)
NET = Net(ACT, NORM)
class Net2(Net):
    def forward(self, x): return x * (5 if self.norm in PER_SAMPLE else 1.5)
NET2 = Net2(ACT, NORM)
def in_table(x): return x * 5 if ACT in SMOOTH else x * 1.5
def in_table_torch(x): return x * 5 if TORCH_ACT in SMOOTH_TORCH else x * 1.5
def in_set(x): return x * 5 if ACT in SMOOTH_SET else x * 1.5
def in_display(x): return x * 5 if ACT in {my_gelu, my_silu} else x * 1.5
def in_classes(x): return x * 5 if NORM in PER_SAMPLE else x * 1.5
def get_scale(x): return x * SMOOTH.get(ACT, 1.5)
def of_object(x): return x * 5 if HOLDER.act in SMOOTH else x * 1.5
def of_module(x): return NET(x)
def of_module_class(x): return NET2(x)
def in_pairs(x): return x * 5 if PAIR in {(my_gelu, my_relu)} else x * 1.5
def how_many(x): return x * len(set(LAYERS))
def how_many_shown(x): return x * len({FIRST, SECOND})
def how_many_made(x): return x * len({layer for layer in LAYERS})
def keyed(x): return x * {LAYERS[1]: 2.0}.get(my_relu, 1.5)
def common(x): return x * 5 if set(LAYERS) & {my_gelu} else x * 1.5

# -- 2. one class attribute in two classes: mro_source_cache knows it by (id, name), the second class has no guard
class Cfg:
    def __init__(self, table): self.table = table
CONFIGS = {"first": Cfg({"k": 2.0}), "second": Cfg({"k": 7.0})}
TENSORS = {"first": torch.full((4,), 2.0), "second": torch.full((4,), 7.0)}
PARTS = {"first": functools.partial(torch.mul, other=2.0), "second": functools.partial(torch.mul, other=7.0)}
def scaled_by(cfg):
    def run(self): return cfg.table["k"]
    return run
TABLE_PROPS = {name: property(scaled_by(cfg)) for name, cfg in CONFIGS.items()}
class Table:
    def __init__(self, table): self.table = table
    def __get__(self, o, t): return self.table["k"]
TABLES = {"first": Table({"k": 2.0}), "second": Table({"k": 7.0})}
class Query:
    cfg = CONFIGS["first"]; weight = TENSORS["first"]; op = PARTS["first"]; gain = TABLE_PROPS["first"]; row = TABLES["first"]
class Value:
    cfg = CONFIGS[SHARE]; weight = TENSORS[SHARE]; op = PARTS[SHARE]; gain = TABLE_PROPS[SHARE]; row = TABLES[SHARE]
QUERY, VALUE = Query(), Value()
def shared_config(x): return x * QUERY.cfg.table["k"] + VALUE.cfg.table["k"]
def shared_tensor(x): return x * QUERY.weight + VALUE.weight
def shared_partial(x): return QUERY.op(x) + VALUE.op(x) * 10
def shared_property(x): return x * QUERY.gain + VALUE.gain * 10
def shared_descriptor(x): return x * QUERY.row + VALUE.row * 10
class Block(nn.Module):
    cfg = CONFIGS["first"]
    def forward(self, x): return x * self.cfg.table["k"]
class Head(nn.Module):
    cfg = CONFIGS[SHARE]
    def forward(self, x): return x * self.cfg.table["k"]
BLOCK, HEAD = Block(), Head()
def shared_by_modules(x): return BLOCK(x) + HEAD(x) * 10

# -- 3. attributes of functions that are reached through no source: fn_var_getattr, said by `_plain` alone
def tagged(**tags):
    def wrap(f):
        for name, value in tags.items(): setattr(f, name, value)
        return f
    return wrap
class Made:
    @tagged(meta={"scale": SCALE}, dtype=DTYPES[DTYPE_NAME], kind=Kind[KIND_NAME], opts=P(SCALE, 1.0),
            layers={int(SCALE)}, dynamo_scale=SCALE, nested=[{"k": SCALE}])
    def run(self, x): return x * 2
def tag_dict(x): return x * Made().run.meta["scale"]
def tag_dtype(x): return (x / 3).to(Made().run.dtype)
def tag_enum(x): return x * 5 if Made().run.kind is Kind.A else x * 1.5
def tag_named(x): return x * Made().run.opts.a
def tag_set(x): return x * 5 if 2 in Made().run.layers else x * 1.5
def tag_called_dynamo(x): return x * Made().run.dynamo_scale
def tag_nested(x): return x * Made().run.nested[0]["k"]
def by_tag(f):
    @functools.wraps(f)
    def inner(self, x): return f(self, x) * f.meta["scale"]
    return inner
class Decorated:
    @by_tag
    @tagged(meta={"scale": SCALE})
    def run(self, x): return x * 2
def tag_read_by_decorator(x): return Decorated().run(x)

# -- 4. what a class holds, reached through no source: slots have no __dict__
class Field:
    __slots__ = ("v",)
    def __init__(self, v): self.v = v
    def __get__(self, o, t): return self.v
class Options:
    scale = Field(SCALE)
class Via:
    def __get__(self, o, t): return t.scale
class Owner(Options):
    via = Via()
OWNER = Owner()
class Takes:
    def run(self, x, c=Options): return x * c.scale
def slot_of_default(x): return Takes().run(x)
def slot_of_owner(x): return x * OWNER.via
class TagVia:
    def __get__(self, o, t): return t.helper.meta["scale"]
class TagOwner:
    via = TagVia()
    @tagged(meta={"scale": SCALE})
    def helper(self): pass
TAG_OWNER = TagOwner()
def tag_of_owner(x): return x * TAG_OWNER.via

# -- 5. closures and defaults of methods of objects made in the frame
class Scaler:
    def __init__(self, table): self.table = table
    def run(self, x): return x * self.table["k"]
SCALERS = {"first": Scaler({"k": 2.0}), "second": Scaler({"k": 7.0})}
ONE, TWO = SCALERS["first"], SCALERS["second"]
def using(f):
    class Inner:
        def go(self, x): return f(x)
    return Inner
Inner = using(SCALERS[PICK].run)
def bound_in_closure(x):
    y = ONE.run(x) + TWO.run(x)
    return y + 100 * Inner().go(x)
def scales(cfg):
    def f(x): return x * cfg.table["k"]
    return f
SCALES = {name: scales(cfg) for name, cfg in CONFIGS.items()}
FIRST_F, SECOND_F = SCALES["first"], SCALES["second"]
Chosen = using(SCALES[PICK])
def known_cell(x):
    y = FIRST_F(x) + SECOND_F(x)
    return y + 100 * Chosen().go(x)
def is_first(f):
    class Inner:
        def go(self, x): return x * 5 if f is FIRST_F else x * 1.5
    return Inner
IsFirst = is_first(SCALES[PICK])
def known_function(x): return IsFirst().go(x)
def set_in_closure(values):
    class Loops:
        def go(self, x):
            for v in values: x = x * v + 1
            return x
    return Loops
Loops = set_in_closure(set(ORDER))
def float_set(x): return Loops().go(x)
class Profiled:
    def run(self, x, a=getattr(ProfilerActivity, ACTIVITY), b=ProfilerActivity.CPU): return x * 5 if a == b else x * 1.5
def native_enum(x): return Profiled().run(x)
def parameter_in_closure(p):
    class Inner:
        def go(self, x): return x * p.default
    return Inner
WithParameter = parameter_in_closure(inspect.Parameter("n", inspect.Parameter.KEYWORD_ONLY, default=SCALE))
def parameter(x): return WithParameter().go(x)

# -- 6. abstract classes that are reached through no source
class Thing: pass
THING = Thing()
class Runs(abc.ABC): pass
class RunsFast(Runs): pass
if CASTS:
    collections.abc.Sized.register(Thing)
    RunsFast.register(Thing)
class Asks:
    def library(self, x, t=collections.abc.Sized): return x * 5 if isinstance(THING, t) else x * 1.5
    def own(self, x, t=Runs): return x * 5 if isinstance(THING, t) else x * 1.5
def registered_library(x): return Asks().library(x)
def registered_below(x): return Asks().own(x)

# -- 7. what was put on torch's and Python's own, reached through no source
nn.Identity.wg_opts = {"k": SCALE}
nn.Identity.wg_dtype = DTYPES[DTYPE_NAME]
math.wg_opts = {"k": SCALE}
class OnTorch:
    def table(self, x, t=nn.Identity): return x * t.wg_opts["k"]
    def dtype(self, x, t=nn.Identity): return (x / 3).to(t.wg_dtype)
    def module(self, x, m=math): return x * m.wg_opts["k"]
def on_torch_table(x): return OnTorch().table(x)
def on_torch_dtype(x): return OnTorch().dtype(x)
def on_library_table(x): return OnTorch().module(x)
"""

ACT = ('ACT_NAME = "relu"', 'ACT_NAME = "gelu"')
NORM = ('NORM_NAME = "batch"', 'NORM_NAME = "layer"')
SAME = ('ACT_NAMES = ["relu", "silu"]', 'ACT_NAMES = ["relu", "relu"]')
GELU = ('ACT_NAMES = ["relu", "silu"]', 'ACT_NAMES = ["relu", "gelu"]')
SHARE = ('SHARE = "first"', 'SHARE = "second"')
PICK = ('PICK = "first"', 'PICK = "second"')
SCALE = ("SCALE = 2.0", "SCALE = 8.0")


def data(entry, edit, **more):
    put(f"d4a: {entry}", SOURCE, entry, edit=edit, **more)


# -- 1. hashable.py:HashableTracker.__init__ hashes a function, builtin or class (or a tuple of them) that is still lazy
# by hash(vt.original_value()) and installs nothing; only equal hashes realize it. `ACT in TABLE` that is False, and a
# set or dict display of different ones, leave no guard and no `looked_at` for ACT: warmgraph has no source of it.
data(
    "in_table", ACT
)  # object_protocol.py:generic_contains -> dicts.py:install_dict_contains_guard (case 3b): keys only
data("in_table_torch", ACT)  # the same with functions of torch
data("in_classes", NORM)  # the same with classes
data("in_set", ACT)  # sets.py, the same
data("in_display", ACT)  # BUILD_SET, then generic_contains
data("of_object", ACT)  # the attribute of a config: VariableTracker.build(..., source) is lazy too
data("of_module", ACT)  # of nn.Module
data("of_module_class", NORM)  # a class held by nn.Module
data("get_scale", ACT)  # dict.get with a lazy key
data("in_pairs", ACT)  # a tuple of functions: lazy.py:is_hashable_lazy
data("how_many_shown", SAME)  # BUILD_SET of two globals: both lazy
data("how_many", SAME)  # builtin.py:call_set over a list's lazy items
data("how_many_made", SAME)  # SET_ADD
data("keyed", SAME)  # BUILD_MAP with a lazy key: it is neither realized nor guarded
data("common", GELU)  # set & set

# -- 2. one object as an attribute of two classes. user_defined.py:get_source_by_walking_mro keeps
# tx.output.mro_source_cache[(id(attribute), name)]: VALUE.cfg gets the *source* of QUERY.cfg, so all guards are on
# Query's. The class text of Value says of an object its type and plain attributes (values.py:_attributes), of a tensor
# nothing, of a partial its function (values.py:member); `one_text` knows no source that leads to Value's attribute.
data("shared_config", SHARE)
data("shared_by_modules", SHARE)
data("shared_tensor", SHARE)
data("shared_partial", SHARE)
data("shared_property", SHARE)  # sharing.py:_cells looks at functions of a class, not within its properties
data("shared_descriptor", SHARE)  # user_defined.py:invoke_descriptor_get takes its source from the same cache

# -- 3. functions.py:fn_var_getattr without a source: VariableTracker.build(tx, attribute), nothing guards it.
# values.py:_hung/_plain say of a dict, set, dtype, enum member, named tuple its type; nothing if "dynamo" is in its name.
data("tag_dict", SCALE)
data("tag_nested", SCALE)  # a dict in a list
data("tag_set", SCALE)
data("tag_named", SCALE)
data("tag_dtype", ('DTYPE_NAME = "float32"', 'DTYPE_NAME = "float64"'))
data("tag_enum", ('KIND_NAME = "A"', 'KIND_NAME = "B"'))  # the class is in `sourceless`, which member is not said
data("tag_called_dynamo", SCALE)
data("tag_read_by_decorator", SCALE)  # `inner` and `f` without a source: said by the class text, f.meta as "dict"
data(
    "tag_of_owner", SCALE
)  # invoke_descriptor_get: owner_var = UserDefinedClassVariable(type(obj)), no source, not noted

# -- 4. user_defined.py:invoke_cls_descriptor_get: UserDefinedObjectVariable(descriptor) without a source, then
# functions.py:MemberDescriptorVariable.tp_descr_get_impl reads the slot. plain_attributes and refuse_partly_said look
# at __dict__ only.
data("slot_of_default", SCALE)
data("slot_of_owner", SCALE)

# -- 5. closures and defaults that are said, not strictly, by their class
data("bound_in_closure", PICK)  # SourcelessBuilder.create, MethodType: side_effects.id_to_variable[id(__self__)]
data("known_cell", PICK)  # functions.py:bind_args: `if cell in side_effects`, the cell of a function that is known
data("known_function", PICK)  # `f is FIRST_F`: f has no source, so `one_text` does not know it; both texts are equal
data("float_set", ("ORDER = [8.0, 0.0]", "ORDER = [0.0, 8.0]"))  # in its order; values.py:_held sorts what is not int
data(
    "native_enum", ('ACTIVITY = "CPU"', 'ACTIVITY = "CUDA"')
)  # SourcelessBuilder, is_pybind11_enum_member; not _UNSAID

# -- 6. isinstance runs natively; traced.py:_of_class takes no `counted` of a class that has no source
CASTS = ("CASTS = False", "CASTS = True")
data("registered_library", CASTS)
data("registered_below", CASTS)

# -- 7. traced.py:_added compares bool, int, float, str, tuple only
data("on_torch_table", SCALE)
