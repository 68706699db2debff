# ruff: noqa
"""Candidates of the fifth hunt, part B: the same files, other data (`edit`: what a config file, the environment or a
checkpoint gave). Tensors, modules, operators, library classes, sentinels, decorators. Four programs: attributes that are put on `torch.Tensor` or `nn.Parameter` are in the text of every tensor's class, and
what is put on the process would hide the others."""

from __future__ import annotations

import torch
from probe import put

SOURCE = """
import argparse, ast, collections, collections.abc, colorsys, dataclasses, functools, types, torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch import nn
PICK = "first"
SCALE = 2.0
FLAG = False
SAME = True
REGISTER = False
COUNTS = False
DISABLE = False
CALL = "first"
class Cfg:
    def __init__(self, **values): vars(self).update(values)

# -- 1. flags on tensors
T_BUFFER = torch.full((4,), 2.0)
T_BUFFER._is_buffer = FLAG
T_PARAM = torch.full((4,), 2.0)
T_PARAM._is_param = FLAG
class Holds(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.full((4,), 2.0))
        self.w._is_buffer = FLAG
    def forward(self, x): return x * self.w * 5 if isinstance(self.w, nn.Buffer) else x * self.w * 1.5
HOLDS = Holds()
def flag_buffer(x): return x * T_BUFFER * 5 if isinstance(T_BUFFER, nn.Buffer) else x * T_BUFFER * 1.5
def flag_param(x): return x * T_PARAM * 5 if isinstance(T_PARAM, nn.Parameter) else x * T_PARAM * 1.5
def flag_of_module(x): return HOLDS(x)

# -- 2. sentinels
AUTO, NEVER = object(), object()
MODES = {"first": AUTO, "second": NEVER}
class Sized:
    def size(self, x, mode=MODES[PICK]): return x * 5 if mode is AUTO else x * 1.5
    def within(self, x, mode=MODES[PICK]): return x * 5 if mode in (AUTO,) else x * 1.5
    def keyed(self, x, *, mode=MODES[PICK]): return x * 5 if mode is AUTO else x * 1.5
    def listed(self, x, modes=(None, MODES[PICK])): return x * 5 if modes[1] is AUTO else x * 1.5
def sized(mode):
    class Inner:
        def size(self, x): return x * 5 if mode is AUTO else x * 1.5
    return Inner
SizedCell = sized(MODES[PICK])
@dataclasses.dataclass
class Opt:
    mode: object = MODES[PICK]
def sentinel_default(x): return Sized().size(x)
def sentinel_keyed(x): return Sized().keyed(x)
def sentinel_listed(x): return Sized().listed(x)
def sentinel_cell(x): return SizedCell().size(x)
def sentinel_field(x): return x * 5 if Opt().mode is AUTO else x * 1.5
def sentinel_within(x): return Sized().within(x)

# -- 3. which of equals it is
def scaled(k):
    def f(x): return x * k
    return f
ONE_F, TWO_F = scaled(2.0), scaled(2.0)
EQUALS = {"first": ONE_F, "second": TWO_F}
class Equal:
    def go(self, x, f=EQUALS[PICK]): return x * 5 if f is ONE_F else x * 1.5
def equal_function(x): return Equal().go(x)
TABLE_F = {TWO_F: 5.0}
ACT_F = EQUALS[PICK]
def equal_in_table(x): return x * 5 if ACT_F in TABLE_F else x * 1.5
RAW = "".join(["wg", "-mode"])
OTHER = RAW if SAME else "".join(["wg", "-mode"])
NUMBER = float("1.5")
OTHER_NUMBER = NUMBER if SAME else float("1.5")
class EqualText:
    def text(self, x, key=OTHER): return x * 5 if key is RAW else x * 1.5
    def number(self, x, key=OTHER_NUMBER): return x * 5 if key is NUMBER else x * 1.5
def plain_text(x, key=OTHER): return x * 5 if key is RAW else x * 1.5
def equal_text(x): return EqualText().text(x)
def equal_text_of_function(x): return plain_text(x)
def equal_number(x): return EqualText().number(x)
def kind():
    class Kind:
        def __init__(self): self.k = 2.0
    return Kind
K_A, K_B = kind(), kind()
KINDS = {"first": K_A, "second": K_B}
OBJ = KINDS[PICK]()
def equal_class(x): return x * OBJ.k * 5 if isinstance(OBJ, K_A) else x * OBJ.k
class Sub(KINDS[PICK]): pass
def equal_base(x): return x * 5 if issubclass(Sub, K_A) else x * 1.5
P_A, P_B = collections.namedtuple("P", "a b"), collections.namedtuple("P", "a b")
POINT = {"first": P_A, "second": P_B}[PICK](1.0, 2.0)
def equal_named(x): return x * POINT.a * 5 if isinstance(POINT, P_A) else x * POINT.b
def of_config(cfg):
    def f(x): return x * cfg.inner.k
    return f
FUNCS = {"first": of_config(Cfg(inner=Cfg(k=2.0))), "second": of_config(Cfg(inner=Cfg(k=7.0)))}
F_A, F_B = FUNCS["first"], FUNCS["second"]
def wrapped(f):
    @functools.wraps(colorsys.rgb_to_yiq)
    def go(self, x): return x * 5 if f is F_A else x * 1.5
    return go
def calling(f):
    @functools.wraps(colorsys.rgb_to_yiq)
    def go(self, x): return f(x)
    return go
class Wraps:
    which = wrapped(FUNCS[PICK])
    call = calling(FUNCS[PICK])
def wrapped_which(x): return Wraps().which(x)
def wrapped_call(x):
    y = F_A(x) + F_B(x)
    return y + 100 * Wraps().call(x)

# -- 4. classes of the standard library, to which setup added something
def act_first(self, x): return x * 2
def act_second(self, x): return x * 7
def gain_first(self): return 2.0
def gain_second(self): return 7.0
ast.NodeVisitor.wg_act = {"first": act_first, "second": act_second}[PICK]
ast.NodeVisitor.wg_gain = property({"first": gain_first, "second": gain_second}[PICK])
ast.NodeVisitor.wg_scale = SCALE
class Visits(ast.NodeVisitor):
    def run(self, x): return x * super().wg_scale
def library_method(x): return Visits().wg_act(x)
def library_property(x): return x * Visits().wg_gain
def library_super(x): return Visits().run(x)
if COUNTS:
    collections.abc.Mapping.register(argparse.Namespace)
if REGISTER:
    pytree.register_pytree_node(
        argparse.Namespace, lambda n: ([n.t], None), lambda v, c: argparse.Namespace(t=v[0]))
ARGS = argparse.Namespace(t=torch.full((4,), 3.0))
def double(v): return v.t * 10 if isinstance(v, argparse.Namespace) else v * 2
def taken(out): return out.t if isinstance(out, argparse.Namespace) else out
def library_tree(x): return x * taken(pytree.tree_map(double, ARGS))
def library_tree_only(x): return x * taken(pytree.tree_map_only(argparse.Namespace, double, ARGS))

# -- 5. attributes that a trace reads only when a node is made of them
class Meta(type):
    opts = Cfg(inner=Cfg(k=SCALE))
class Typed(metaclass=Meta): pass
def metaclass_nested(x): return torch.mul(x, Typed.opts.inner.k)
def metaclass_compared(x): return x * 5 if Typed.opts.inner.k == 2.0 else x * 1.5
torch.ops.aten.mul.wg_scale = SCALE
torch.ops.aten.mul.wg_mode = PICK
torch.ops.aten.mul.wg_impl = {"first": torch.ops.aten.add.Tensor, "second": torch.ops.aten.sub.Tensor}[PICK]
def op_attribute(x): return torch.mul(x, torch.ops.aten.mul.wg_scale)
def op_mode(x): return x * 5 if torch.ops.aten.mul.wg_mode == "first" else x * 1.5
def op_overload(x): return torch.ops.aten.mul.wg_impl(x, torch.full((4,), 3.0))
F.relu6.wg_opts = Cfg(k=SCALE)
def function_attribute(x): return torch.mul(x, F.relu6.wg_opts.k)

# -- 6. modules
class Compiling(nn.Module):
    def forward(self, x): return x * 2 if torch.compiler.is_compiling() else x * 3
NET_C = torch.compile(Compiling(), backend="eager")
if DISABLE:
    NET_C.forward = torch.compiler.disable(NET_C.forward)
def optimized_disabled(x): return NET_C(x) + 1
class Net(nn.Module):
    def forward(self, x): return x * 3
def doubled(self, x): return self.forward(x) * 2
NET = Net()
CALLS = {"first": NET._call_impl, "second": types.MethodType(doubled, NET)}
NET._call_impl = CALLS[CALL]
def call_impl(x): return NET(x) + 1

# -- 7. autograd functions
def scaler(cfg):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x): return x * cfg.inner.k
        @staticmethod
        def backward(ctx, grad): return grad * cfg.inner.k
    return Scaled
SCALERS = {name: scaler(Cfg(inner=Cfg(k=k))) for name, k in (("first", 2.0), ("second", 7.0), ("third", 9.0))}
for one in SCALERS.values(): one.__qualname__ = "Scaled"
Scaled = SCALERS["third"]  # the one that the name leads to; neither of those that are used
FN = SCALERS[PICK]
def autograd_instance(x): return FN().apply(x)
def autograd_class(x): return FN.apply(x)
"""

TENSORS = """
import functools, torch
from torch import nn
TENSOR_SCALE = 2.0
class Cfg:
    def __init__(self, **values): vars(self).update(values)
torch.Tensor.wg_k = TENSOR_SCALE
torch.Tensor.wg_cfg = Cfg(inner=Cfg(k=TENSOR_SCALE))
torch.Tensor.wg_top = functools.partialmethod(torch.Tensor.clamp, max=TENSOR_SCALE)
nn.Parameter.wg_opts = Cfg(inner=Cfg(k=TENSOR_SCALE))
def tensor_new(x: float):
    y = torch.ones(4) + x
    return torch.mul(y, y.wg_k)
def tensor_method(x: float):
    y = torch.arange(4.0) * x
    return y.wg_top()
def tensor_nested(x):
    y = x + 1
    return torch.mul(y, y.wg_cfg.inner.k)
def tensor_float(x):
    y = x + 1
    return torch.mul(y, y.wg_k)
def parameter_attribute(x): return torch.mul(x, nn.Parameter.wg_opts.inner.k)
"""

PROCESS = """
import torch, torch.distributions.utils, zlib
from torch.overrides import TorchFunctionMode
POLY_PICK = "first"
MODE_PICK = "first"
SPLIT_K = True
class Cfg:
    def __init__(self, **values): vars(self).update(values)
POLY = {"first": torch.distributions.utils.logits_to_probs, "second": torch.distributions.utils.probs_to_logits}
torch.compiler.substitute_in_graph(zlib.crc32, skip_signature_check=True)(POLY[POLY_PICK])
def substituted(x): return zlib.crc32(x / 10 + 0.1)

def of_config(cfg):
    def f(x): return x * cfg.inner.k
    return f
FUNCS = {"first": of_config(Cfg(inner=Cfg(k=2.0))), "second": of_config(Cfg(inner=Cfg(k=7.0)))}
F_A = FUNCS["first"]
class Chooses:
    def __init__(self, f): self.f = f
    def __get__(self, instance, owner): return 5.0 if self.f is F_A else 1.5
class Gains(TorchFunctionMode):
    gain = Chooses(FUNCS[MODE_PICK])
    def __torch_function__(self, func, types, args=(), kwargs=None): return func(*args, **(kwargs or {})) * self.gain
MODE = Gains()
def mode_descriptor(x):
    with MODE:
        return torch.relu(x + 1)

torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = (False, SPLIT_K)
def split_k(x): return x * 5 if torch._C._get_cublas_allow_fp16_reduced_precision_reduction()[1] else x * 1.5
"""

UNUSED = """
import torch
PADDING = 1
SPACE = [object() for _ in range(PADDING * 1000)]
class Picks:
    def pick(self, o=torch.relu): return o
def returned_function(x): return x * 2, Picks().pick()
class Tagged(torch.Tensor): pass
def subclass_resume(x):
    y = x.as_subclass(Tagged) * 2
    torch._dynamo.graph_break()
    return (x + 1).as_subclass(Tagged) * 3 + y
"""

PICK = ('PICK = "first"', 'PICK = "second"')
SCALE = ("SCALE = 2.0", "SCALE = 8.0")
FLAG = ("FLAG = False", "FLAG = True")
SAME = ("SAME = True", "SAME = False")
REGISTER = ("REGISTER = False", "REGISTER = True")
COUNTS = ("COUNTS = False", "COUNTS = True")
DISABLE = ("DISABLE = False", "DISABLE = True")
CALL = ('CALL = "first"', 'CALL = "second"')
TENSOR_SCALE = ("TENSOR_SCALE = 2.0", "TENSOR_SCALE = 1.0")
POLY_PICK = ('POLY_PICK = "first"', 'POLY_PICK = "second"')
MODE_PICK = ('MODE_PICK = "first"', 'MODE_PICK = "second"')
SPLIT_K = ("SPLIT_K = True", "SPLIT_K = False")
PADDING = ("PADDING = 1", "PADDING = 3")


def data(entry, edit, program=SOURCE, **more):
    put(f"d5b: {entry}", program, entry, edit=edit, **more)


# -- 1. meta_utils.py:MetaConverter.describe_tensor/__call__ copy `_is_buffer`/`_is_param` to the fake tensor;
# builder.py:get_specialized_props asks isinstance of it (class_type = nn.Buffer), builtin.py:call_isinstance folds
# class_type: TENSOR_MATCH knows nothing of it. values.py:surface says the *names* in a tensor's `__dict__`,
# tensors.py:tensor_text the `_dynamo*` marks only; so True and False are one. Very sure.
data("flag_buffer", FLAG)
data("flag_of_module", FLAG)  # the same in a registered buffer (load_state_dict(assign=True), parametrize copy it)
data("flag_param", FLAG)  # wrap_tensor: isinstance(value, nn.Parameter) asks `_is_param` as well

# -- 2. builder.py:SourcelessBuilder.create: `istype(value, object)` -> ObjectVariable(value), whose identity
# object_protocol.py:vt_identity_compare folds natively. traced.py:refuse_uncovered passes `type(value) is object`, the
# text of any is "<builtins.object >", watch.py:_note does not note it. The usual sentinel (`AUTO = object()`). Very sure.
data("sentinel_default", PICK)  # functions.py:bind_args_cached, wrap_bound_arg without a source
data("sentinel_cell", PICK)  # bind_args: the cell's contents are built without a source
data("sentinel_listed", PICK)  # in a tuple
data("sentinel_keyed", PICK)  # keyword-only
data("sentinel_field", PICK)  # the default in a dataclass's own __init__; `_field` says the type as well
data("sentinel_within", PICK)  # `in` instead of `is` (polyfills or lists.py: sq_contains; may break the graph)

# -- 3. Which of equals. What has no source is in no group of sharing.py:one_text, and its text is the other's.
data("equal_function", PICK)  # two functions of one factory with plain cells: refuse_uncovered finds all of them said
data("equal_class", PICK)  # two classes of one factory: TYPE_MATCH and CLASS_MATCH have one text; call_isinstance folds
data("equal_named", PICK)  # the same of collections.namedtuple(); `type(POINT) is P_A` is in no text
data("equal_text", SAME)  # `is` between texts: one_text knows those with a source, a default of a method has none
data("equal_text_of_function", SAME)  # config.skip_guards_on_constant_func_defaults: none for a function's, either
data("equal_number", SAME)  # floats
data("equal_base", PICK)  # builtin.py:call_issubclass; the base is said by its name and text (less sure)
# watch.py:_hashing realizes what is looked for, not a table's own keys (ConstDictKeySource): so one_text does not see
# that the key TWO_F is ACT_F. dicts.py:install_dict_contains_guard has the function itself. Likely.
data("equal_in_table", PICK)
# refuse_uncovered and refuse_unsaid trust `function.__module__`, which functools.wraps of a library's function copies:
# so which function its cell holds is neither said nor refused. Sure.
data("wrapped_which", PICK)
data("wrapped_call", PICK)  # F_A and F_B are known to the trace by their cells, their config objects by id

# -- 4. classes.py:_lines says of the standard library's classes the names only, and an object made in the frame has no
# source: user_defined.py:resolve_type_attr, resolve_data_descriptor give the method and the property none. What is
# inlined is found by its own name (traced.py:_find) and is still the same there. Sure.
data("library_method", PICK)
data("library_property", PICK)
data("library_super", SCALE)  # misc.py:SuperVariable.var_getattr: ConstantVariable, and no guard without a source
# torch_api/frames/state.py:_users_nodes leaves out classes of the library; user_defined.py:call_tree_map_branch and
# pytree's polyfills ask SUPPORTED_NODES natively. Sure.
data("library_tree", REGISTER)
data("library_tree_only", REGISTER)

# -- 5. misc.py:GetAttrVariable: as_proxy, as_python_constant and richcompare_impl read the live attribute; it was never
# built, so there is no guard and no surface.
# user_defined.py:UserDefinedClassVariable.var_getattr, step 6: a plain attribute of the metaclass. The class's text has
# `opts=<Cfg>` with its plain attributes and, of `inner`, the type. Sure.
data("metaclass_nested", SCALE)
data("metaclass_compared", SCALE)
# builtin.py:GetAttrBuiltinVariable._call_getattr, branch of TorchInGraphFunctionVariable. values.py:identity of an
# operator is its name, surface the names of its attributes. Sure.
data("op_attribute", SCALE)
data("op_mode", PICK)
data("op_overload", PICK)  # the same branch: an operator that stands there is called, and nothing guards which
data("function_attribute", SCALE)  # of a function of torch: held.py:plain_text says the type of a config. Likely
data("parameter_attribute", TENSOR_SCALE, TENSORS)  # of a class of torch; the second level again. Likely

# -- 6. tensor.py:TensorVariable.dynamic_getattr gives up (no source), and GetAttrVariable.as_proxy makes a node
# getattr(y, "wg_k") of it: its value is read when the graph is run on fake tensors. No input is a tensor, so no class
# text of torch.Tensor is recorded; the key of the graph has the name. Likely.
data("tensor_new", TENSOR_SCALE, TENSORS, args=lambda: (1.0,))
data(
    "tensor_method", TENSOR_SCALE, TENSORS, args=lambda: (1.0,)
)  # call_method on what changes/functions.py calls no function
data("tensor_nested", TENSOR_SCALE, TENSORS)  # with a tensor: `wg_cfg` is said by its type and its `inner`, by type
data("tensor_float", TENSOR_SCALE, TENSORS)  # the frame's record notices this one; the graph's key may not

# -- 7. builder.py:wrap_module: `getattr_static(value.forward, "_torchdynamo_disable")` natively; the guard is TYPE_MATCH of
# OptimizedModule, the surface says `forward` is there. `is_compiling()` only makes it visible. Sure.
data("optimized_disabled", DISABLE)
# nn_module.py:UnspecializedNNModuleVariable.call_function asks `mod._call_impl.__func__` natively and goes to forward:
# nothing guards it, the surface has the name `_call_impl` before and after. Rather sure.
data("call_impl", CALL)

# -- 8. misc.py:AutogradFunctionVariable.call_function makes an instance without the source; call_apply then finds one by
# `__module__` and `__name__`: guards lie on the class of that name, which is another one. Rather likely.
data("autograd_instance", PICK, args=lambda: (torch.arange(4.0).requires_grad_(),))
data(
    "autograd_class", PICK, args=lambda: (torch.arange(4.0).requires_grad_(),)
)  # control: has its source; probably seen

# -- 9. of the process
# decorators.py:substitute_in_graph with a function of torch's as the handler (torch_api/frames/state.py refuses users'
# handlers): trace_rules chooses natively, what was inlined is found by its name as before. Rather sure.
data("substituted", POLY_PICK, PROCESS)
# torch_function.py:TorchFunctionModeVariable has no cls_source: user_defined.py:invoke_descriptor_get makes the
# descriptor without a source, and its attribute too. Medium.
data("mode_descriptor", MODE_PICK, PROCESS)
# torch.py:handle_constant_processgroup_functions/constant fold of a tuple of flags; the ambient words have allow_*
# as a bool (the first of the two). Unsure: GlobalStateGuard may hold both; the getter may not be traced.
data("split_k", SPLIT_K, PROCESS)

# -- 10. Not other data: a record that cannot be run in another process (wrong even if the data is the same).
# torch.py:BaseTorchVariable.reconstruct -> codegen.py:setup_globally_cached writes into f_globals without
# install_global_unsafe: recording.py:_installed does not know the name, a restored frame raises NameError. Likely.
data("returned_function", PADDING, UNUSED, agrees=True)
# output_graph.py: `__subclass_Tagged_<id>` of the first frame is there already when its rest is traced; so it is not
# noted as installed by the second frame (the first is refused, the second may be recorded). Unsure.
data("subclass_resume", PADDING, UNUSED, agrees=True)

# Considered and found covered (or without effect on results):
# - torch's state: default dtype and device, autocast (dtypes, cache), grad/inference mode, anomaly, deterministic and
#   fill, tf32 and precision, backends.* and their priorities, sdp flags, threads, dual level, swap-on-conversion,
#   checkpoint validity: GlobalStateGuard or ambient words; properties of backends.* are read through a source
# - functions of torch that Dynamo folds: what they read is said by the same words
# - marks on tensors: mark_dynamic/unbacked/static (_MARKS); requires_grad, is_leaf, views, offsets, strides, memory
#   format, conj/neg, sparse layouts, zero sizes, aliases and ties (tensor_text, sharing); `.grad` has its guard
# - modules: hooks (keys, values, counts), global hooks and modes (refused), training, ModuleList/ModuleDict order and
#   keys, Identity for Dropout, lazy modules, parametrize/weight norm/spectral norm (class text and sources),
#   GraphModule (globals of no module), NN_MODULE guards (refused), plain torch.compiler.disable(net) (other names)
# - tensor subclasses (refused: an installed global), opaque and script objects, pytree constants (EQUALS_MATCH refused)
# - allow_in_graph, nonstrict_trace, leaf functions, custom ops and fake kernels of data (the graph is not kept)
# - substitute_in_graph with the user's handler, patch_dynamo_config, error_on_graph_break, set_stance (refused)
# - optimizers, cond, vmap, while_loop and others with bodies (refused or their bodies are inlined code)
# - selective checkpointing (refused since 2026-11-25: no other numbers, but another policy's memory)
# - numpy: ufuncs and dtypes (identity refused), arrays and scalars are inputs, default dtypes have a word
# - weakrefs, partials, regular expressions, named tuples with a source; enum members
# - TorchFunctionMode's methods (bound `__func__` has a source), setup_context of autograd functions (refuse_uncovered)
# - exceptions and what `except` names (realized), match statements, comprehensions, generators, imports within frames
# - logging (breaks the graph), metaclass `__getattr__` and properties (run while traced: refused)
# - torch.distributions validation (class text or source), FSDP flags and cudagraph overrides (no other numbers)
# Beside it: watch.py:_called asks `self.fn is getattr/hasattr`, but torch 2.13 has GetAttrBuiltinVariable and
# HasAttrBuiltinVariable, which that patch does not see (modules are noted by `_asking`); `_TEXTS` has no `str.format`.
