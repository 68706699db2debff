# ruff: noqa
"""Candidates of the sixth hunt: the same files, other data (`edit`: what a config file, the environment, a flag or a
checkpoint gave). Where backend/frames/reached/ is blind and nothing else says it.

What is put on functions of torch has a program of its own: the graphs' keys may say it, and would hide the others."""

from __future__ import annotations

import torch
from probe import put

SOURCE = """
import ast, builtins, collections, statistics, sys, types
import numpy, torch
from colorsys import hls_to_rgb
from torch import nn
PICK = "first"
ACT_NAME = "relu"
SCALE = 2.0
DROP = 2.0
SAME = True
EXTRA = False
DTYPE_NAME = "float32"
ROWS = 4
WRITES = True
LENGTH = 1
class Cfg:
    def __init__(self, **values): vars(self).update(values)
def my_relu(x): return x * 3
def my_silu(x): return x * 4
ACTS = {"relu": my_relu, "silu": my_silu}
def act_first(self, x): return x * 2
def act_second(self, x): return x * 7
METHODS = {"first": act_first, "second": act_second}
def scaled(k):
    def f(m1, m2=0.0, hue=0.0): return m1 * k
    return f
STEPS = {"first": scaled(2.0), "second": scaled(7.0)}
ACT = STEPS["first"]

# -- 1. identity without `is`
MISSING = float("nan")
WHICH = MISSING if SAME else float("nan")
VALUES = [MISSING, 1.0]
PAIR, USUAL = (WHICH, 1.0), (MISSING, 1.0)
def nan_in_list(x): return x * 5 if WHICH in VALUES else x * 1.5
def nan_in_tuple(x): return x * 5 if PAIR == USUAL else x * 1.5

# -- 2. globals of builtins and of the library's modules
builtins.wg_step = STEPS[PICK]
def builtins_function(x): return ACT(x) + 100 * wg_step(x)
sys.modules["colorsys"]._v = STEPS[PICK]
def library_global(x): return ACT(x) + 100 * x * hls_to_rgb(0.1, 0.4, 0.5)[0]

# -- 3. what somebody put on the library's classes and modules
class Visits(ast.NodeVisitor): pass
ast.NodeVisitor.wg_dtype = getattr(torch, DTYPE_NAME)
ast.NodeVisitor.wg_table = collections.OrderedDict(k=SCALE)
ast.NodeVisitor.wg_window = slice(0, LENGTH)
ast.NodeVisitor.wg_act = METHODS[PICK]
ast.NodeVisitor.__call__ = METHODS[PICK]
ast.NodeVisitor.wg_plain = ACTS[ACT_NAME]
sys.wg_act = ACTS[ACT_NAME]
if EXTRA: nn.modules.conv._ConvNd.wg_gain = 7.0
class Takes:
    def dtype(self, x, c=Visits): return (x / 3).to(c.wg_dtype)
    def table(self, x, c=Visits): return x * c.wg_table["k"]
    def window(self, x, c=Visits): return x + x[c.wg_window].sum()
    def base(self, x, t=ast.NodeTransformer): return t.wg_plain(x)
    def within(self, x, m=ast): return m.NodeVisitor.wg_plain(x)
    def system(self, x, m=sys): return m.wg_act(x)
    def absent(self, x, t=nn.Conv2d): return x * getattr(t, "wg_gain", 1.5)
def on_library_dtype(x): return Takes().dtype(x)
def on_library_ordered(x): return Takes().table(x)
def on_library_slice(x): return Takes().window(x)
def on_library_base(x): return Takes().base(x)
def on_class_of_module(x): return Takes().within(x)
def on_sys(x): return Takes().system(x)
def on_base_absent(x): return Takes().absent(x)
def on_library_call(x): return Visits()(x)
def on_library_direct(x): return ast.NodeVisitor().wg_act(x)

# -- 4. code of a file by line and bytecode, without its constants
def acts(): return {"first": lambda self, x: x * 2.5, "second": lambda self, x: x * 7.5}
ast.NodeVisitor.wg_lambda = acts()[PICK]
def same_line(x): return Visits().wg_lambda(x)

# -- 5. attributes that native code reads, under names that no traced code asks for
OPTIONS = {"gain": SCALE}
class Box:
    def __init__(self, **values): self.__dict__["_data"] = values
    def __getattr__(self, name):
        data = self.__dict__.get("_data", {})
        if name in data: return data[name]
        raise AttributeError(name)
class Boxed(type): opts = Box(inner=Box(k=SCALE))
class UsesBox(metaclass=Boxed): pass
class Priors(type): opts = Cfg(prior=statistics.NormalDist(SCALE, 1.0))
class UsesPriors(metaclass=Priors): pass
if hasattr(torch._dynamo, "allow_c_slot"): torch._dynamo.allow_c_slot(types.SimpleNamespace)  # since 2.13
LEFT, RIGHT = types.SimpleNamespace(k=SCALE), types.SimpleNamespace(k=2.0)
class Lookup(type):
    def __getattribute__(cls, name): return OPTIONS[name] if name in OPTIONS else type.__getattribute__(cls, name)
class Looked(metaclass=Lookup): pass
def box_compared(x): return x * 5 if UsesBox.opts.inner.k == 2.0 else x * 1.5
def library_property(x): return x * 5 if UsesPriors.opts.prior.mean == 2.0 else x * 1.5
def c_slot_space(x): return x * 5 if LEFT == RIGHT else x * 1.5
def metaclass_finds(x): return x * getattr(Looked, "gain")

# -- 6. arrays of a class of their own, and numpy's scalars
class Samples(numpy.ndarray): pass
GRID = numpy.arange(4.0).view(Samples)
GRID.rate = SCALE
FIXED = numpy.arange(4.0).view(Samples)
FIXED.flags.writeable = WRITES
class Served(numpy.ndarray):
    def __getattr__(self, name):
        if name in OPTIONS: return OPTIONS[name]
        raise AttributeError(name)
SERVED = numpy.arange(4.0).view(Served)
MASKED = numpy.ma.masked_array(numpy.arange(float(ROWS)))
class Rates(type): opts = Cfg(rate=numpy.float64(DROP))
class UsesRates(metaclass=Rates): pass
def array_attribute(x): return x * 5 if GRID.rate == 2.0 else x * 1.5
def array_flags(x): return x * 5 if FIXED.flags.writeable else x * 1.5
def array_finds(x): return x * 5 if SERVED.gain == 2.0 else x * 1.5
def array_masked(x): return x * 5 if MASKED.size == 4 else x * 1.5
def numpy_scalar(x): return x * 5 if UsesRates.opts.rate else x * 1.5

# -- 7. cut by the beginning of a module's name
LOGS = types.ModuleType("logging_setup"); sys.modules["logging_setup"] = LOGS
exec('''
class Opts:
    def __init__(self, **values): vars(self).update(values)
''', vars(LOGS))
class Logged(type): opts = LOGS.Opts(inner=LOGS.Opts(k=SCALE))
class UsesLogged(metaclass=Logged): pass
def cut_by_name(x): return x * 5 if UsesLogged.opts.inner.k == 2.0 else x * 1.5

# -- 8. annotations
class Told:
    def told(self, k: SCALE): pass
Told.__annotations__ = {"k": float} if EXTRA else {}
class Tells:
    def run(self, x, c=Told): return x * 5 if c.__annotations__ else x * 1.5
def annotations_of_method(x): return x * Told().told.__annotations__["k"]
def annotations_of_class(x): return Tells().run(x)

# -- 9. numbers that may vary by one way, and are folded in by another
OPTS = Cfg(k=SCALE)
class Shared(type): opts = Cfg(inner=OPTS)
class UsesShared(metaclass=Shared): pass
def free_elsewhere(x): return x * OPTS.k * (5 if UsesShared.opts.inner.k == 2.0 else 1.5)

# -- 10. code of no file that runs while it is traced
LIMIT = {"k": SCALE}
exec('''
class Equals(type):
    def __eq__(cls, other): return type(other) is Equals and (cls is other or LIMIT["k"] == 2.0)
    def __hash__(cls): return 1
''')
class OneKind(metaclass=Equals): pass
class OtherKind(metaclass=Equals): pass
def generated_equals(x): return x * 5 if OneKind == OtherKind else x * 1.5
"""

TORCH = """
import types, torch
TORCH_SCALE = 2.0
class Box:
    def __init__(self, **values): self.__dict__["_data"] = values
    def __getattr__(self, name):
        data = self.__dict__.get("_data", {})
        if name in data: return data[name]
        raise AttributeError(name)
torch.nn.functional.relu6.wg_space = types.SimpleNamespace(k=TORCH_SCALE)
torch.nn.functional.selu.wg_box = Box(k=TORCH_SCALE)
def on_torch_space(x): return torch.mul(x, torch.nn.functional.relu6.wg_space.k)
def box_of_function(x): return torch.mul(x, torch.nn.functional.selu.wg_box.k)
"""

TENSORS = """
import types, torch
TENSOR_SCALE = 2.0
torch.Tensor.wg_space = types.SimpleNamespace(k=TENSOR_SCALE)
def tensor_space(x: float):
    y = torch.ones(4) + x
    return torch.mul(y, y.wg_space.k)
"""

PICK = ('PICK = "first"', 'PICK = "second"')
ACT = ('ACT_NAME = "relu"', 'ACT_NAME = "silu"')
SCALE = ("\nSCALE = 2.0", "\nSCALE = 8.0")
SAME = ("SAME = True", "SAME = False")
EXTRA = ("EXTRA = False", "EXTRA = True")
TORCH_SCALE = ("TORCH_SCALE = 2.0", "TORCH_SCALE = 8.0")


def data(entry, edit, program=SOURCE, **more):
    put(f"d6a: {entry}", program, entry, edit=edit, **more)


# -- 1. utils.py:iter_contains: `x.as_python_constant() is search_val or ==`; object_protocol.py:generic_richcompare_bool:
# vt_identity_compare first. Identity of a NaN counts where no code says `is`, so `names` is False: walk.py:ref gives
# "float:nan" with no number, sharing.py:one_text leaves floats out, CONSTANT_MATCH on a NaN is isnan. A NaN as "not given"
# (pandas, json). Very sure.
data("nan_in_list", SAME)
data("nan_in_tuple", SAME)  # sure if tuples are compared item by item (lists.py), else by ==: then not different

# -- 2. symbolic_convert.py:load_builtin_from_argval: DictGetItemSource(GlobalSource("__builtins_dict__.."), name), which
# sharing.py:_is_installed leaves out; roots.py:_roots takes `asked` from the frame's globals, never from builtins. What is
# left is CLOSURE_MATCH (name and code); its cells are known by ACT (functions.py:bind_args `cell in side_effects`), and
# recording.py:_surfaces says one id once. d5a's module_function by another door (`_`, `profile`, `log` ...). Very sure.
data("builtins_function", PICK)
# The same through a global of the library's module: get_globals_source_and_value -> SkipGuardSource(AttrSource(__import_..));
# roots.py skips modules that is_known. (Of torch's own functions the graph's key says who replaced them.) Sure.
data("library_global", PICK)

# -- 3. walk.py:_on, which speaks of what "comes by name"
# a. objects.py:comes_by_name is True of every *instance* of a class of Python's or torch's but ten (dtype, device, slice,
# range, complex, None, OrderedDict, Pattern, Namespace, SimpleNamespace, Decimal, deque, partial): `_on` says nothing.
# Visits is the user's and reached through no source: traced.py:_of_class says its text, with the library's base by names
# alone; resolve_cls_plain_attr -> SourcelessBuilder. Very sure of the first.
data("on_library_dtype", ('DTYPE_NAME = "float32"', 'DTYPE_NAME = "float64"'))
data("on_library_ordered", SCALE)
data("on_library_slice", ("LENGTH = 1", "LENGTH = 3"))
# b. `_on(module)` goes on into functions and modules that it holds, not into classes (`elif isinstance(held, ...)`):
# user_defined.py:resolve_type_attr, FunctionType: a method of an object made in the frame has no source. Very sure.
data("on_library_direct", PICK)
data("on_class_of_module", ACT)  # no source at all; traced.py:_added wants data that cannot be called
# c. `_on(class)` looks at vars(class), not at its bases (roots has nn.Module only)
data("on_library_base", ACT)
data("on_base_absent", EXTRA)  # call_obj_hasattr natively; _added has only what is there when it is recorded
# d. `_on` leaves out names that begin with "__"; the class's text has the library's names only
data("on_library_call", PICK)
# e. `_on(sys)` looks at nothing
data("on_sys", ACT)

# -- 4. objects.py:_code: co_firstlineno and the crc of co_code, which has no constants and no names: two lambdas of one
# line are one (Python 3.11 to 3.13). inlined_facts finds them within `acts`, whose text is the same. Anything that only the
# walk says (here library_method of d5b) is open to it. Very sure.
data("same_line", PICK)

# -- 5. misc.py:GetAttrVariable.as_python_constant/richcompare_impl: getattr on the live object, natively. The walk follows
# names of *traced* code. ran.py:is_users lets `__getattr__` and `__getattribute__` pass ("what is found there is read
# through a source": not here), and the library's own properties.
data("box_compared", SCALE)  # reads _data (Box, EasyDict, OmegaConf, AttrDict): nobody asks for "_data". Very sure
data("library_property", SCALE)  # NormalDist.mean reads _mu
# user_defined.py:richcompare_impl `method in _safe_c_slots()`: C reads the whole __dict__; `==` asks for no name. The
# message of Dynamo itself says to use allow_c_slot. Sure.
data("c_slot_space", SCALE)
# builtin.py:GetAttrBuiltinVariable.call_function: Unsupported ("Custom metaclass with __getattribute__") and all arguments
# constants -> getattr(live, name), built without a source; OPTIONS is asked for by code that is not traced. Rather sure.
data("metaclass_finds", SCALE)

# -- 6. objects.py:_array says dtype and dimensions (and items up to 64 of a class of the user's): no attributes, no flags,
# no strides; of numpy's own classes (memmap, matrix, recarray, MaskedArray) not even the shape: `_module(...) != "numpy"`.
# builder.py:_wrap is_numpy -> NumpyVariable under TYPE_MATCH, then 5. Very sure of the first two.
data("array_attribute", SCALE)  # numpy's manual on subclasses: `info`
data("array_masked", ("ROWS = 4", "ROWS = 6"))  # d5a's array_size with a class of numpy's
data("array_finds", SCALE)
data("array_flags", ("WRITES = True", "WRITES = False"))
# numpy.float64 is no PLAIN and is in module numpy: `_array` says "float64 0"; held.py:_text says its type (is_said by
# isinstance(float), _text by exact type). Sure.
data("numpy_scalar", ("DROP = 2.0", "DROP = 0.0"))

# -- 7. objects.py:_CUT with startswith("logging"/"threading"/"_thread"/"warmgraph"): modules of the user's that are called
# logging_setup, threading_utils ... are cut whole. Very sure.
data("cut_by_name", SCALE)

# -- 8. functions.py:fn_var_getattr "__annotations__" without a source; Values.function and objects.py:_function say none.
data("annotations_of_method", SCALE)  # very sure (d5a's function_doc, next name)
# user_defined.py:resolve_meta_data_descriptor without a source: GetAttrVariable, bool of the live dict; BOOKKEEPING twice
data("annotations_of_class", EXTRA)

# -- 9. roots.py:free_numbers: OPTS.k is a graph input (builder.py:wrap_symfloat, TYPE_MATCH alone), so (id(OPTS), "k") is
# free wherever the walk meets it; the metaclass's way to it is folded in (d5b's metaclass_compared). Rather sure.
data("free_elsewhere", SCALE, options={"dynamic": True})

# -- 10. ran.py:is_users: files that begin with "<" are nobody's. user_defined.py:UserDefinedClassVariable.richcompare_impl
# runs a metaclass's __eq__; attrs, pydantic and the like make such code by exec. Sure.
data("generated_equals", SCALE)

# -- 3a and 5 again, on functions of torch (builtin.py:_call_getattr -> GetAttrVariable.as_proxy): perhaps in the graph's key
data("on_torch_space", TORCH_SCALE, TORCH)  # _on(relu6): SimpleNamespace comes by name; plain_text says its type
data("box_of_function", TORCH_SCALE, TORCH)
data("tensor_space", ("TENSOR_SCALE = 2.0", "TENSOR_SCALE = 1.0"), TENSORS, args=lambda: (1.0,))  # unsure

# Considered and found covered, refused, or without effect:
# - digests of 4 bytes: one object that differs goes unseen by 1 in 4e9 (each has its own; nothing adds up): acceptable. crc32 of
#   co_code is no matter of chance, but of what it is taken of (4)
# - generators, coroutines, frames, iterators (list, zip, map, cycle, repeat): no tracker, refused by surface (identity), or
#   their guards say the position; _RUNNING hides nothing that a trace reads
# - loggers: LoggingLoggerVariable answers no attribute, calls break the graph or are ignored whole; locks break the graph
# - immutable_list/dict, OrderedSet, TreeSpec (cut as torch.fx, torch.utils._): guards with a source, _UNSAID without
# - dispatch: singledispatch registries, functools caches, weak dictionaries: cells, with sources, names asked by what is inlined
# - ContextVar (a default is not in get(None)): calls break the graph. itemgetter, attrgetter as globals: no tracker
# - exceptions' args: those of a global one are not read (ExceptionVariable without them), so nothing is folded in
# - plain class attributes and descriptors of objects made in the frame: cls_source gives them a source on 2.13
# - namedtuples' _fields and _tuplegetter, structseqs; dataclasses' params and fields (class text, __dataclass_fields__)
# - maxlen (Dynamo drops it), defaultdict's factory, partial, slots, enum aliases (everything of an EnumMeta)
# - sets of tuples, Decimals: order is kept by number; a set of None and numbers is sorted, but its guards are by item
# - int and float under LazyConstantVariable: realized even for a type (specialize_int/float are False), so pinned or dynamic;
#   dynamic ones by shape guards; NaN and inf are pinned
# - tensors: grad, grad_fn, is_leaf, requires_grad, base, offset, storage bytes, marks, _is_*; attributes by asked names;
#   hooks on tensors act at run time; names (named tensors) are not traced
# - process: warnings, gc, signal, tracemalloc, decimal context, cwd (calls break the graph); sys.* functions (refused);
#   sys.flags/argv, os.environ (sources); locale (a word); constant_fold_functions and backends.* (words)
# - autograd Functions (FunctionMeta: class text, _BY_TORCH), autocast/record_function/Pattern/typing objects (ID_MATCH)
# - functions of torch that are replaced, methods put on torch's classes: in "code" of the graph's key (check_around)
# - DICT_CONTAINS of a NaN: the key read from the record is another object, so such a record never fits
# - inspect.Signature/Parameter: SkipGuardSource -> facts; a Signature without a source has no tracker
# - LOAD_GLOBAL of a builtin that is no callable and no constant: Dynamo asserts; a constant is refused (_is_added)
# - generated files whose name is no "<..>": traced code is found by name and said with its constants
# - ran.py:_OF_TORCH: a user's own folder `networkx/`, `tqdm/`, `triton/` ... counts as torch's (no probe: needs files)
