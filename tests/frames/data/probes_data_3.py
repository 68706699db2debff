# ruff: noqa
"""Candidates of the fifth hunt, part A: the same files, other data (`edit`: what a config file, the environment, a flag or
a checkpoint gave). variables/{builder,functions,user_defined,dicts,lists,sets,misc,constant,object_protocol,hashable}.py and
side_effects.py. (probes_a to probes_c have some of these causes by an edit; where one does,
the comment says so. Those of docs/status.md, "known and not compared", are left out.)"""

from __future__ import annotations

import torch
from probe import put

SOURCE = """
import abc, argparse, array, collections, collections.abc, enum, functools, math, operator, sys, types, typing
import numpy, torch
from torch import nn
PICK = "first"
KEPT = "second"
SHARED = False
SAME = True
CASTS = False
EXTRA = False
HAS_RUN = True
SCALE = 2.0
RATE = 0.5
ROWS = 4
FLAG = 1.0
ACT_NAME = "relu"
ALIAS = "A"
FIELDS = ["a", "bb"]
ORDER = ["a", "b"]
NUMBERS = [8 + 0j, 0j]
TEXT = "abc"
WHAT = "untyped_storage"
TAG = "labels_of_run"
OPTION = "wg_options"
class Cfg:
    def __init__(self, **values): vars(self).update(values)
def scaled(k):
    def f(x): return x * k
    return f
def pair():
    n = 1.0
    def put():
        nonlocal n
        n = 5.0
    def get(self=None): return n
    return put, get
PAIRS = {"first": pair(), "second": pair()}
fill = PAIRS["first"][0]
def my_relu(x): return x * 3
def my_silu(x): return x * 4
ACTS = {"relu": my_relu, "silu": my_silu}

# -- 1. what another module's globals hold: left out where it is said which values are one
HELP = types.ModuleType("wg_help"); sys.modules["wg_help"] = HELP
exec('''
def reset(): STATE["n"] = 5.0
def is_mine(cfg): return CFG is cfg
def call(x): return ACT(x)
def read(): return get()
''', vars(HELP))
reset, is_mine, call_help, read_help = HELP.reset, HELP.is_mine, HELP.call, HELP.read
STATE = {"n": 1.0}
HELP.STATE = STATE if SHARED else {"n": 1.0}
MINE = Cfg(k=1.0)
HELP.CFG = MINE if SHARED else Cfg(k=1.0)
STEPS = {"first": scaled(2.0), "second": scaled(7.0)}
ACT = STEPS["first"]
HELP.ACT = STEPS[PICK]
HELP.get = PAIRS[KEPT][1]
def module_state(x):
    reset()
    return x * STATE["n"]
def module_function(x): return ACT(x) + 100 * call_help(x)
def module_identity(x): return x * 5 if is_mine(MINE) else x * 1.5
def module_cell(x):
    fill()
    return x * read_help()

# -- 2. the text of an object of the library's, or of a class of the user's that inherits it from the library
ARGS = argparse.Namespace(scale=SCALE)
TABLE = collections.OrderedDict(scale=SCALE)
class Rates(list): pass
RATES = Rates([SCALE])
LAYERS = nn.Sequential(nn.Dropout(RATE))
def text_namespace(x): return x * 5 if str(ARGS) == "Namespace(scale=2.0)" else x * 1.5
def text_ordered(x): return x * 5 if "2.0" in str(TABLE) else x * 1.5
def text_list(x): return x * 5 if str(RATES) == "[2.0]" else x * 1.5
def text_modules(x): return x * 5 if "p=0.5" in str(LAYERS) else x * 1.5

# -- 3. which class an object is of, among classes of one text
def marker():
    class Marker: pass
    return Marker
MARKERS = {"first": marker(), "second": marker()}
MARKED = MARKERS["first"]()
MARK = MARKERS[PICK]
def twin_class(x): return x * 5 if isinstance(MARKED, MARK) else x * 1.5
EQUALS = {"first": scaled(3.0), "second": scaled(3.0)}
EQUAL = EQUALS["first"]
SKIPPED = {EQUALS["first"]: 5.0}
STEP = EQUALS[KEPT]
def twin_key(x): return x * 5 if STEP in SKIPPED else x * 1.5

# -- 4. compared at once by C code, under a guard on the type
class Scaler:
    def __init__(self, k): self.k = k
    def run(self, x): return x * self.k
SCALERS = {"first": Scaler(2.0), "second": Scaler(7.0)}
CALLBACK = SCALERS[PICK].run
DEFAULT = SCALERS["first"].run
HOOKS = [SCALERS["first"].run]
class Settings(dict):
    def __new__(cls, *args, **values): return super().__new__(cls)
SETTINGS, USUAL = Settings(scale=SCALE), Settings(scale=2.0)
if hasattr(torch._dynamo, "allow_c_slot"): torch._dynamo.allow_c_slot(array.array)  # since 2.13
LEFT, RIGHT = array.array("d", [SCALE]), array.array("d", [2.0])
def method_equal(x): return x * 5 if CALLBACK == DEFAULT else x * 1.5
def method_in_list(x): return x * 5 if CALLBACK in HOOKS else x * 1.5
def dict_equal(x): return x * 5 if SETTINGS == USUAL else x * 1.5
def c_slot(x): return x * 5 if LEFT == RIGHT else x * 1.5

# -- 5. read at once through a tracker that is a constant, under no guard or one on the type
class Samples(numpy.ndarray): pass
GRID = numpy.arange(float(ROWS)).view(Samples)
MASK = numpy.array([FLAG]).view(Samples)
class Kinds(type): settings = Cfg(inner=Cfg(k=SCALE))
class Known(metaclass=Kinds): pass
HELD = types.ModuleType("wg_held"); sys.modules["wg_held"] = HELD; HELD.rate = SCALE
CACHED = functools.lru_cache(ACTS[ACT_NAME])
CACHED_RELU = functools.lru_cache(my_relu)
class Level(enum.Enum):
    A = 2.0
    B = 7.0
    def __init__(self, v): self.gain = v
Level._value2member_map_["z"] = Level[ALIAS]
def array_size(x): return x * 5 if GRID.size == 4 else x * 1.5
def array_truth(x): return x * 5 if MASK else x * 1.5
def meta_nested(x): return x * 5 if Known.settings.inner.k == 2.0 else x * 1.5
def format_module(x): return x * 5 if "{0.rate}".format(HELD) == "2.0" else x * 1.5
def lru_name(x): return x * 5 if CACHED.__name__ == "my_relu" else x * 1.5
def lru_identity(x): return x * 5 if CACHED is CACHED_RELU else x * 1.5
def enum_alias(x): return x * Level("z").gain

# -- 6. classes in cells have no guard of torch's: what goes with an identity is not asked for them
class Thing: pass
THING = Thing()
THING.run = len if HAS_RUN else None
class Runs(abc.ABC): pass
class RunsFast(Runs): pass
if CASTS:
    collections.abc.Sized.register(Thing)
    RunsFast.register(Thing)
@typing.runtime_checkable
class HasRun(typing.Protocol):
    def run(self): ...
def asks(kind):
    def f(x): return x * 5 if isinstance(THING, kind) else x * 1.5
    return f
asks_sized, asks_runs, asks_protocol = asks(collections.abc.Sized), asks(Runs), asks(HasRun)
def closure_library(x): return asks_sized(x)
def closure_below(x): return asks_runs(x)
def closure_protocol(x): return asks_protocol(x)

# -- 7. cells of plain numbers that functions share, where one of them is no plain method
class Reader: get = staticmethod(PAIRS[PICK][1])
class Gauge: value = property(PAIRS[PICK][1])
def using(f):
    class Inner:
        def go(self, x): return x * f()
    return Inner
Chosen = using(PAIRS[PICK][1])
def cell_static(x):
    fill()
    return x * Reader().get()
def cell_property(x):
    fill()
    return x * Gauge().value
def cell_inner(x):
    fill()
    return Chosen().go(x)

# -- 8. identity of what has no source, or is asked for by another name
MISSING, UNSET = object(), object()
SENTINELS = {"first": MISSING, "second": UNSET}
AUTO = "".join(["au", "to"])
MODES = {"first": AUTO, "second": "".join(["a", "uto"])}
class Reads:
    def sentinel(self, x, v=SENTINELS[PICK]): return x * 5 if v is MISSING else x * 1.5
    def mode(self, x, m=MODES[PICK]): return x * 5 if m is AUTO else x * 1.5
    def step(self, x, f=EQUALS[PICK]): return x * 5 if f is EQUAL else x * 1.5
SAME_OP = operator.is_
WORD = AUTO if SAME else "".join(["a", "uto"])
CPU = torch.device("cpu")
DEVICE = CPU if SAME else torch.device("cpu")
def default_sentinel(x): return Reads().sentinel(x)
def default_text(x): return Reads().mode(x)
def default_function(x): return Reads().step(x)
def same_renamed(x): return x * 5 if SAME_OP(WORD, AUTO) else x * 1.5
def which_device(x): return x * 5 if DEVICE is CPU else x * 1.5

# -- 9. what is on classes and modules of torch's and Python's that have no source
nn.Identity.wg_act = ACTS[ACT_NAME]
math.wg_act = ACTS[ACT_NAME]
setattr(nn.Identity, OPTION, {"k": SCALE})
if EXTRA:
    nn.Identity.wg_gain = 7.0
    math.wg_gain = 7.0
class OnOthers:
    def absent(self, x, t=nn.Identity): return x * getattr(t, "wg_gain", 1.5)
    def absent_module(self, x, m=math): return x * getattr(m, "wg_gain", 1.5)
    def act(self, x, t=nn.Identity): return t.wg_act(x)
    def act_module(self, x, m=math): return m.wg_act(x)
    def named(self, x, t=nn.Identity): return x * getattr(t, OPTION)["k"]
def torch_absent(x): return OnOthers().absent(x)
def library_absent(x): return OnOthers().absent_module(x)
def torch_act(x): return OnOthers().act(x)
def library_act(x): return OnOthers().act_module(x)
def torch_named(x): return OnOthers().named(x)

# -- 10. names that come from data: getattr has a tracker of its own on 2.13
BUFFER = torch.arange(float(ROWS) * 4)[:4]
LABELS = {f"label{i}": float(i) for i in range(3000)}
LABELS["scale"] = SCALE
class Tagged:
    def run(self, x): return x * 2
setattr(Tagged.run, TAG, LABELS)
def storage_named(x): return x * getattr(BUFFER, WHAT)().size()
def tag_named(x): return x * getattr(Tagged().run, TAG)["scale"]

# -- 11. a module that the frame imports, asked for what it has not
LATE = types.ModuleType("wg_late"); sys.modules["wg_late"] = LATE
if EXTRA: LATE.wg_flag = 7.0
def import_absent(x):
    import wg_late
    return x * getattr(wg_late, "wg_flag", 1.5)

# -- 12. orders, and what a class and a function have beside their members
class Listed: pass
for name in ORDER: setattr(Listed, name, {"a": 2.0, "b": 3.0}[name])
class Many:
    def __init__(self, names): vars(self).update({name: {"a": 2.0, "b": 3.0}[name] for name in names})
    def __get__(self, o, t):
        total = 1.0
        for v in vars(self).values(): total = total * v + 1
        return total
class HasMany: many = Many(ORDER)
class Record: pass
Record.__match_args__ = tuple(FIELDS)
class Orders:
    def listed(self, x, c=Listed):
        for k, v in vars(c).items():
            if k[:2] != "__": x = x * v + 1
        return x
    def many(self, x, c=HasMany): return x * c.many
    def fields(self, x, c=Record): return x * len(c.__match_args__[0])
    def told(self): pass
Orders.told.__doc__ = TEXT
def loops(values):
    class Loops:
        def go(self, x):
            for v in values: x = x * abs(v) + 1
            return x
    return Loops
Loops = loops(set(NUMBERS))
def class_order(x): return Orders().listed(x)
def descriptor_order(x): return Orders().many(x)
def complex_set(x): return Loops().go(x)
def match_args(x): return Orders().fields(x)
def function_doc(x): return x * len(Orders().told.__doc__)
"""

PICK = ('PICK = "first"', 'PICK = "second"')
KEPT = ('KEPT = "second"', 'KEPT = "first"')
SHARED = ("SHARED = False", "SHARED = True")
SAME = ("SAME = True", "SAME = False")
CASTS = ("CASTS = False", "CASTS = True")
EXTRA = ("EXTRA = False", "EXTRA = True")
SCALE = ("SCALE = 2.0", "SCALE = 8.0")
ROWS = ("ROWS = 4", "ROWS = 6")
ACT = ('ACT_NAME = "relu"', 'ACT_NAME = "silu"')
ORDER = ('ORDER = ["a", "b"]', 'ORDER = ["b", "a"]')


def data(entry, edit, **more):
    put(f"d5a: {entry}", SOURCE, entry, edit=edit, **more)


# -- 1. symbolic_convert.py:get_globals_source_and_value: what an inlined function of another module reads has the source
# AttrSource(GlobalSource("__import_wg_help"), name). sharing.py:_is_installed leaves out every source with that root (the
# name is the same in each process), so `one_text` says nothing of values that two modules hold: torch guards that two are
# one (DUPLICATE_INPUT, of objects that it tracks alone), and never that they are not. Two modules with one config object,
# one state, one function: the commonest program there is. (No as_is needed: what is written is the same each time.)
data("module_state", SHARED)  # recorded as two dicts, now one: side_effects.py keeps a table for each id
# functions are not tracked (builder.py:_can_lift_attrs_to_inputs), so no DUPLICATE_INPUT; the second function's cells are
# known (functions.py:bind_args: `cell in side_effects`) and get no guard; recording.py:_surfaces says a value once, by id,
# under its first source. So of wg_help.ACT only CLOSURE_MATCH is left: module, qualified name, code.
data("module_function", PICK)
data("module_identity", SHARED)  # object_protocol.py:vt_identity_compare, recorded as two objects
data("module_cell", KEPT)  # side_effects.py:track_cell_existing by the cell's id: `_cells` is not asked for wg_help.get

# -- 2. builtin.py:BuiltinVariable.call_str, of any UserDefinedObjectVariable (OrderedDict, Counter, subclasses of list and
# modules are): `type(v).__str__ is object.__str__` -> build(str_method()), the live object's text, under TYPE_MATCH. What
# runs is argparse's, C's or torch's code, so ran.py says nothing; watch.py:_says_itself asks whether a class of the *user's*
# says the text. The surface has names, keys or a length.
data("text_namespace", SCALE)
data("text_ordered", SCALE)  # user_defined.py:OrderedDictVariable; its values are lazy and stay so
data("text_list", SCALE)  # UserDefinedListVariable: list.__repr__
data("text_modules", ("RATE = 0.5", "RATE = 0.25"))  # nn_module.py:UnspecializedNNModuleVariable: all submodules

# -- 3. builtin.py:call_isinstance: issubclass(arg.python_type(), kind), natively. Both classes have one text (made by one
# factory), and one_text knows the class of an object only where code asks type(obj) or obj.__class__ (TypeSource).
data("twin_class", PICK)
# dicts.py:install_dict_contains_guard, not contained: DICT_KEYS_MATCH on the table. The key is lazy and no source of the
# record (watch.py:_hashing leaves ConstDictKeySource alone), so one_text has no pair to compare; both functions' texts are
# one. Recorded as "not in", now "in".
data("twin_key", KEPT)

# -- 4. user_defined.py:UserDefinedObjectVariable.richcompare_impl: `cls.__module__ == "builtins" or in_allowlist` ->
# method(self.value, other_val) on live objects under TYPE_MATCH; rules.py:_COMPARED lacks these.
data(
    "method_equal", PICK
)  # a global bound method is a UserDefinedObjectVariable; _HAVE_SOURCES has MethodType, names only
data("method_in_list", PICK)  # utils.py:iter_contains -> operator.eq, the same (probes_a had eq_methods by an edit)
# a dict with a __new__ of its own: builder.py's `type(value).__new__ is dict.__new__` fails, MutableMappingVariable has no
# _base_vt: dict.__eq__ at once; Values.surface says the keys
data("dict_equal", SCALE)
data("c_slot", SCALE)  # torch._dynamo.allow_c_slot, documented: _SAFE_C_SLOTS grows (probes_b had it by an edit)

# -- 5. trackers whose as_python_constant() is the live object
# builder.py:_wrap, trace_rules.is_numpy: any subclass of ndarray (memmap, matrix, recarray, a data set's own) is a
# NumpyVariable under TYPE_MATCH; GRID.size -> misc.py:GetAttrVariable, richcompare_impl takes getattr(live, name)
data("array_size", ROWS)
data("array_truth", ("FLAG = 1.0", "FLAG = 0.0"))  # symbolic_convert.py:generic_jump: is_python_constant -> bool(array)
# user_defined.py:UserDefinedClassVariable.var_getattr, step 6: a metaclass's plain attribute is a GetAttrVariable, and so
# is what is asked of that: as_python_constant reads them all at once, with no VariableBuilder. The class's text says of
# `settings` its plain attributes, of `inner` the type.
data("meta_nested", SCALE)
# constant.py:call_method "format" -> builtin.py:call_format -> StringFormatVariable.create: PythonModuleVariable is a
# constant, format_string.format(module) reads the attribute; MODULE_MATCH says the name, "{0.rate}" is no identifier
data("format_module", SCALE)
# functions.py:WrapperUserFunctionVariable -> BaseUserFunctionVariable.var_getattr: ConstantVariable.create(get_name()),
# with a source and no guard. lru_cache's type is a heap type: is_told_by_type, so the surface has the names of its __dict__
data("lru_name", ACT)
# get_real_python_backed_value gives __wrapped__: `is` compares what is wrapped (not what Python does, but what plain
# torch.compile gives); TYPE_MATCH on both
data("lru_identity", ACT)
# UserDefinedClassVariable.can_constant_fold_through: Level("z") is called at once, enum.py reads _value2member_map_, which
# classes.py:_OF_ENUMS leaves out (a usual way to other values of a member)
data("enum_alias", ('ALIAS = "A"', 'ALIAS = "B"'))

# -- 6. builder.py: `if not is_from_closure_source(self.source): install CLASS_MATCH`: a class in a cell has no guard, so only
# Values.surface says it: classes.text, without `counted` and without refuse_own_checks (rules.py:_identity has both)
data("closure_library", CASTS)  # d4a's registered_library had no source; this one has
data("closure_below", CASTS)  # a subclass of the abstract class has the registration
data(
    "closure_protocol", ("HAS_RUN = True", "HAS_RUN = False")
)  # typing's __instancecheck__ reads THING.run: None or not

# -- 7. functions.py:bind_args `cell in side_effects`, of functions without a source; sharing.py:_cells looks at plain
# functions in vars(cls) and at their own cells. refuse_uncovered lets numbers pass: but the frame writes to the cell.
data("cell_static", PICK)  # StaticMethodVariable without a source
data("cell_property", PICK)  # PropertyVariable without a source
data("cell_inner", PICK)  # a function in a cell of a method: the inner function's cells

# -- 8. vt_identity_compare on live objects
data(
    "default_sentinel", PICK
)  # SourcelessBuilder: ObjectVariable; refuse_uncovered lets object() pass, its text is its type
data("default_text", PICK)  # SourcelessBuilder: ConstantVariable(value) keeps the object; one_text knows sources alone
data(
    "default_function", PICK
)  # two functions of one text, with plain cells: refuse_uncovered passes, one_text has no source
data(
    "same_renamed", SAME
)  # builtin.py: compare_by_value for `is_`; codes.compares_identity looks for `is` and for "is_"
data("which_device", SAME)  # torch.device is made anew each time; sharing.py:_TORCH leaves it out also under `names`

# -- 9. traced.py:_of_class / sourceless_facts -> _added: names that are *there* and are data, of those that code asks for
data("torch_absent", EXTRA)  # UserDefinedClassVariable.call_obj_hasattr without a source: hasattr(live, name); no fact
data(
    "library_absent", EXTRA
)  # misc.py:PythonModuleVariable.call_obj_hasattr; `_spaces` has modules with a source alone
data("torch_act", ACT)  # a function there: `_is_data` wants what cannot be called; my_relu is found by its own name
data("library_act", ACT)  # the same on a module
data("torch_named", SCALE)  # the name is data: `asked` has no "wg_options", see 10

# -- 10. builtin.py:GetAttrBuiltinVariable has a call_function of its own (2.13); watch.py:_called hears BuiltinVariable's
# alone, so names that code hands to getattr are noted for modules only (`_asking`)
data(
    "storage_named", ROWS
)  # tensors.py:_beneath is said where `asked` has "storage" (probes_c had it by other arguments)
data("tag_named", SCALE)  # functions.py:fn_var_getattr; more than 2,000 items, and refuse_unsaid asks `name in asked`

# -- 11. symbolic_convert.py:IMPORT_NAME pushes PythonModuleVariable(value, source) without VariableBuilder; what is absent
# leaves no source, so `_spaces` never hears of the module (probes_b had it by a change)
data("import_absent", EXTRA)

# -- 12. without a source: no guard, and the holder's text is all there is
data(
    "class_order", ORDER
)  # builtin.py:call_vars -> SourcelessBuilder of a mappingproxy; classes.py:_lines sorts the names
data(
    "descriptor_order", ORDER
)  # invoke_cls_descriptor_get, dicts.py:SideEffectsProxyDict; values.py:plain_attributes sorts
data("complex_set", ("NUMBERS = [8 + 0j, 0j]", "NUMBERS = [0j, 8 + 0j]"))  # held.py:in_order: bool, int and float alone
data(
    "match_args", ('FIELDS = ["a", "bb"]', 'FIELDS = ["bb", "a"]')
)  # classes.py:_BOOKKEEPING; user_defined.py:resolve_cls_plain_attr
data(
    "function_doc", ('TEXT = "abc"', 'TEXT = "abcdef"')
)  # fn_var_getattr; Values.function says no __doc__ (set, not written)

# Looked at and found covered, refused, or the same in plain torch.compile:
# - builder.py:wrap_listlike, deque: maxlen is neither guarded nor said, but Dynamo 2.13 makes DequeVariable without it
# - builder.py: torch.finfo, re.Pattern, types.UnionType, typing.*, numpy.dtype, numpy.finfo, weakref.proxy, memoryview, dict
#   views, method-wrappers, descriptors, bound builtin methods, ContextVar, itertools objects as globals: identity or refused
# - builder.py: nullcontext(value), FrozenDataClassVariable, InspectVariable (SkipGuardSource -> facts), namedtuples, OrderedSet,
#   defaultdict's factory, partial (function, arguments, keywords in order), WeakRefVariable, itertools.count, range iterators
# - lazy.py:LazyConstantVariable: a guard on the type where only the type is asked; values passed on are read at run time
# - hashable.py: functions, classes and tuples of them as keys (`_hashing`); set.pop and iteration (each item has a guard)
# - DICT_CONTAINS with True/1/1.0, 0.0/-0.0: keys are said with their types; order of dict keys, of vars(obj), of enum members
# - dicts.py:DunderDictVariable: no guards at all, but the surface has the names in order (also slots, also of functions)
# - user_defined.py:MutableMappingVariable.mp_length: len(live), the surface has the keys
# - user_defined.py: Decimal, Fraction, datetime, bytearray, subclasses of bytes and complex: rules._COMPARED
# - user_defined.py: richcompare/hash of int, float and str subclasses, enums (CONSTANT_SUBCLASS_MATCH, ID_MATCH); metaclass
#   __eq__, __instancecheck__, __format__, properties of metaclasses: user's code that ran
# - misc.py:SuperVariable skips falsy attributes on its way up the MRO: the class's text has them
# - misc.py:TypingVariable, ConstantLikeVariable without a source: said by held._SAID; re.Match, TreeSpec: refused
# - functions.py: skip_guards_on_constant_func_defaults: the surface of a function has its defaults
# - functions.py: partial's own attributes: AttributeError in Dynamo, whatever they are; `a.run == b.run` of methods that are
#   looked up in the frame compares the functions alone, whatever the objects are
# - bound methods and objects without a source, also under names from data: noted and refused (SourcelessBuilder, `_note`)
# - dataclasses.fields of an object made in the frame: order, defaults, metadata, types are in the class's text
# - nn_module.py: hooks (EMPTY_NN_MODULE_HOOKS_DICT, keys), _modules/_parameters/_buffers asked in turn (surfaces), own forward
# - functools.singledispatch, cached_property, threading.local, ChainMap, UserDict, Counter.__missing__: traced, with sources
# - pytree.register_constant, register_pytree_node: state.words()["trees"]
# - side_effects.py: mutated lists that a function without a source holds are copies in Dynamo, the same whichever they are
# - local classes, exceptions that are raised and caught by classes of one text: both classes are sources, one_text has them
