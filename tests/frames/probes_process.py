"""Probes of what a process knows beside a frame's values: what torch and Dynamo were told, where tensors and code lie,
settings of `sys`, addresses.
"""

from __future__ import annotations

import logging
import sys
import types
import warnings

import torch
from probe import args, put, set_

SOURCE = """
import colorsys, sys, torch, traceback
class Thing: pass
THING = Thing()
def helper(x): return x * 2 if torch.compiler.is_dynamo_compiling() else x * 3
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return helper(x) * x
    @staticmethod
    def backward(ctx, g): return g

# -- what torch and Dynamo were told
def branch(x, n): return x * 2 if n == 3 else x * 3
def shaped(x): return x * 2 if x.shape[0] > 3 else x * 3
def scaled(x): return x * x.shape[0]
def sine(x): return torch.sin(x) * 2
def inlines(x): return colorsys.rgb_to_yiq(x, x + 1, x)[0]
def calls_helper(x): return helper(x) + 1
def applies(x): return Square.apply(x) * 2
def warns_always(x): torch.set_warn_always(True); return x * 2
def asks_whether_it_warns(x): return x * 2 if torch.is_warn_always_enabled() else x * 3
NAMED = ("co_name", "co_filename")
def by_a_name_of_a_table(x): return x * len(getattr(helper.__code__, NAMED[1]))
def by_a_name_that_is_given(x, name): return x * len(getattr(helper.__code__, name))
PATCHED = torch._dynamo.patch_dynamo_config(rewrite_assert_with_torch_assert=True)
def patched(x):
    with PATCHED:
        assert x.sum() < 100
        return x * 2
LAX = torch._dynamo.error_on_graph_break(False)
def lax(x):
    with LAX:
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1
def overrideable(x): return x * 2 if torch._C._get_overrideable_sdp_enabled() else x * 3
def flash(x): return x * 2 if torch.backends.cuda.flash_sdp_enabled() else x * 3
def reduced_math(x): return x * 2 if torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed() else x * 3
def default_device(x): return x * 2 if torch.get_default_device().type == "cpu" else x * 3
def bfloat16(x): return x * 2 if torch.cuda.is_bf16_supported() else x * 3
def nesting(x): return x * (torch.autocast_increment_nesting() + 0 * torch.autocast_decrement_nesting())
def seeds(x): return x * (torch.seed() % 1000)

# -- where a tensor and code lie
def storage(x): return x * x.untyped_storage().size()
def base(x): return x * x._base.shape[0]
def type_of_base(x): return x * 2 if x._base.dtype is torch.float64 else x * 3
def overlapping(x, y):
    x.add_(1)
    return x + y
def line_raised(x):
    try: raise ValueError("a")
    except ValueError as e: return x * e.__traceback__.tb_lineno
def line_extracted(x):
    try: raise ValueError("a")
    except ValueError as e: return x * traceback.extract_tb(e.__traceback__)[0].lineno
def line_of_code(x): return x * helper.__code__.co_firstlineno

# -- settings of sys, addresses
def recursion(x): return x * sys.getrecursionlimit()
def digits(x): return x * sys.get_int_max_str_digits()
def sets_digits(x):
    sys.set_int_max_str_digits(7777)
    return x * 2
code, number = hash, id
def hash_of(x): return x * (code(THING) % 7 + 1)
def id_of(x): return x * (number(THING) % 7 + 1)
FLAG = False
def names_id(x):
    if FLAG: return x * (id(THING) % 7 + 3)
    return x * 2
def imports_hash(x):
    import builtins
    return x * (getattr(builtins, "ha" + "sh")("abc") % 7 + 1)
def imports_id(x):
    import builtins
    return x * (vars(builtins)["id"](Thing) % 7 + 1)
def broadcasts(x): return torch.nn.functional.mse_loss(x, x[:1])
def hash_of_text(x): return x * ("abc".__hash__() % 7 + 1)
def represented(x): return x * 2, repr(THING)
def as_text(x): return x * 2, str(THING)
def formatted(x): return x * 2, f"{THING}"
def text_of_function(x): return x * 2, repr(helper)
def text_of_module(x): return x * 2, repr(colorsys)
"""

WHOLE = {"fullgraph": True}


def process(entry, name, **more):
    put(f"process: {entry}, {name}", SOURCE, entry, **{"after": False, **more})


# -- what acts on the process, or asks it, while it is traced
for entry in ("warns_always", "asks_whether_it_warns"):
    process(entry, "nothing", change=lambda scene: None, agrees=True, refused="acts on the process, or asks it")
process("names_id", "nothing", change=lambda scene: None, restores=True)
process("names_id", "a trace that asks for it", change=set_("m.FLAG", True))
for entry in ("imports_hash", "imports_id"):
    process(entry, "nothing", change=lambda scene: None, random=True, refused="by another name", since=(2, 13))
process("broadcasts", "its warning is an error", change=lambda scene: warnings.simplefilter("error", UserWarning))
process("broadcasts", "another filter", change=lambda scene: warnings.simplefilter("always"), restores=True)
BY_NAME = {"change": lambda scene: None, "agrees": True, "refused": "by its name"}
process("by_a_name_of_a_table", "nothing", **BY_NAME)
process("by_a_name_that_is_given", "nothing", args=lambda: (torch.arange(4.0), "co_filename"), **BY_NAME)


def told(name, value):
    return lambda scene: setattr(torch.compiler.config, name, value)


# -- settings of torch.compiler, trace rules, marks


def skip_helper(scene):
    rules = torch._dynamo.trace_rules
    rules.manual_torch_name_rule_map["usermod.helper"] = torch._dynamo.variables.SkipFunctionVariable
    rules.get_torch_obj_rule_map.cache_clear()


def propagated(scene):
    scene.args[0]._dynamo_propagated_dynamic_indices = {0}


def specialized(scene):
    torch._dynamo.mark_dynamic(scene.args[0], 0, specialize_on=[lambda size: size == 4])


def dynamic():
    x = torch.ones(4)
    torch._dynamo.mark_dynamic(x, 0)
    return (x,)


process(
    "branch",
    "unbacked_sources",
    args=lambda: (torch.ones(4), 3),
    options=WHOLE,
    change=told("unbacked_sources", "L['n']"),
)
process("shaped", "unbacked_sources", options=WHOLE, change=told("unbacked_sources", "L['x']"))
process("scaled", "dynamic_sources", change=told("dynamic_sources", "L['x']"), seen=True)
process("scaled", "a mark of AOTAutograd's", change=propagated, seen=True)
process("scaled", "specialize_on", args=dynamic, change=specialized, agrees=True)
process("sine", "disallow_in_graph", options=WHOLE, change=lambda s: torch._dynamo.disallow_in_graph(torch.sin))
process("inlines", "trace_rules.add", options=WHOLE, change=lambda s: torch._dynamo.trace_rules.add("colorsys"))
process("calls_helper", "a rule for its name", options=WHOLE, change=skip_helper)
process("calls_helper", "allow_in_graph", change=lambda s: torch._dynamo.allow_in_graph(s.m.helper))
process("applies", "allow_in_graph", change=lambda s: torch._dynamo.allow_in_graph(s.m.Square))
process(
    "patched",
    "asserts are not rewritten",
    options=WHOLE,
    edit=("torch_assert=True", "torch_assert=False"),
    refused="while it is traced",
)
process(
    "lax",
    "strict",
    edit=("error_on_graph_break(False)", "error_on_graph_break(True)"),
    refused="while it is traced",
)


# -- states of torch
process("overrideable", "switched off", change=lambda s: torch._C._set_sdp_use_overrideable(False))
process("flash", "switched off", change=lambda s: torch.backends.cuda.enable_flash_sdp(False))
process("reduced_math", "on", change=lambda s: torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True))
process("default_device", "another", change=lambda s: torch.set_default_device("meta"))
process("bfloat16", "another function", change=lambda s: setattr(torch.cuda, "is_bf16_supported", lambda: True))
process(
    "nesting",
    "one deeper",
    refused="differs from process to process",
    change=lambda s: torch.autocast_increment_nesting(),
)
process("seeds", "nothing", refused="seed", random=True)

# -- storages and bases of tensors


def part_of(make):
    return lambda scene=None: (make()[:4],)


def doubles():
    return torch.ones(4).double().view(torch.float32)


process(
    "storage", "larger", as_is=True, args=part_of(lambda: torch.ones(6)), change=args(part_of(lambda: torch.ones(8)))
)
process("base", "larger", as_is=True, args=part_of(lambda: torch.ones(6)), change=args(part_of(lambda: torch.ones(8))))
process("type_of_base", "another", as_is=True, args=part_of(lambda: torch.ones(8)), change=args(part_of(doubles)))


def overlapping(low):
    """Two views at the same places of one storage, of a base that begins elsewhere."""

    def made(scene=None):
        base = torch.arange(32.0)[low : low + 16].data
        return base[8 - low : 16 - low], base[12 - low : 20 - low]

    return made


process("overlapping", "base elsewhere", as_is=True, agrees=True, args=overlapping(8), change=args(overlapping(4)))

# -- line numbers
LOWER = ("\nclass Thing", "\n# a comment\nclass Thing")
process("line_raised", "a comment above", edit=LOWER, refused="lines")
process("line_extracted", "a comment above", edit=LOWER, refused="lines")
process("line_of_code", "a comment above", edit=LOWER, refused="lines")

# -- settings of sys
process(
    "recursion",
    "another limit",
    change=lambda s: sys.setrecursionlimit(2345),
    refused="differs from process to process",
)
process(
    "digits",
    "another limit",
    change=lambda s: sys.set_int_max_str_digits(5555),
    refused="differs from process to process",
)
process("sets_digits", "nothing", refused="sys", agrees=True)

# -- numbers and texts that are of one process


def new_thing(scene):
    scene.m.THING = scene.m.Thing()


def new_helper(scene):
    scene.m.helper = types.FunctionType(scene.m.helper.__code__, vars(scene.m), "helper")


DIFFERS = "differs from process to process"
process("hash_of", "another object", change=new_thing, refused=DIFFERS, random=True)
process("id_of", "another object", change=new_thing, refused="the identity of an object", random=True)
process("hash_of_text", "nothing", refused=DIFFERS, random=True)
process("represented", "another object", change=new_thing, refused="as text", random=True, since=(2, 13))
process("as_text", "another object", change=new_thing, refused="as text", random=True)
IN_TEXT = "as text" if torch.__version__ >= "2.14" else None  # before, Dynamo leaves the call out of the graph
process("formatted", "another object", change=new_thing, refused=IN_TEXT, random=True)
process("text_of_function", "the same function made anew", change=new_helper, refused="as text", random=True)
process(
    "text_of_module",
    "from elsewhere",
    change=lambda s: setattr(s.m.colorsys.__spec__, "origin", "/elsewhere/colorsys.py"),
    refused="as text",
)

LISTED = """
def appends(x, items):
    items.append(2.0)
    return x + 1
"""


def _replayed_otherwise(scene):
    """A list that was changed while tracing is left as it was. torch 2.15."""
    register = getattr(torch._dynamo.side_effects, "register_side_effect_replay_handler", None)
    if register is not None:
        matches = lambda ctx: type(ctx.var).__name__ == "ListVariable"  # noqa: E731
        register(name="ours", matcher=matches, priority=1000)(lambda ctx: None)


put(
    "registered: how a list's change is made again",
    LISTED,
    "appends",
    args=lambda scene=None: (torch.arange(4.0), [1.0]),
    change=_replayed_otherwise,
    since=(2, 15),
)

put(
    "logging: a logger's method that Dynamo was told to leave out",
    """
import logging
LOG = logging.getLogger("wg.left.out")
UNUSED = 0
def told(x):
    LOG.info("of %s", x.shape)
    return x * 2
""",
    "told",
    change=set_("m.UNUSED", 1),
    before=lambda: torch._dynamo.config.ignore_logger_methods.add(logging.getLogger("wg.left.out").info),
    restores=True,
)

put(
    "logging: another logger than the one whose method Dynamo was told to leave out",
    """
import logging
LOG = logging.getLogger("wg.left.out")
OTHER = logging.getLogger("wg.kept")
SEEN = [1.0]
class Handler(logging.Handler):
    def emit(self, record): SEEN[0] = 3.0
for one in (LOG, OTHER):
    one.addHandler(Handler())
    one.setLevel("INFO")
def told(x):
    LOG.info("of x")
    return x * SEEN[0]
""",
    "told",
    change=set_("m.LOG", logging.getLogger("wg.kept")),
    before=lambda: torch._dynamo.config.ignore_logger_methods.add(logging.getLogger("wg.left.out").info),
)
