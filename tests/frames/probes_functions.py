"""Probes of functions: closures, decorators, graph breaks and resume functions, side effects, randomness."""

from __future__ import annotations

import functools
import math

import torch
from probe import args, put, set_

SOURCE = """
import collections, contextlib, contextvars, dataclasses, enum, functools, math, os, random, time, torch
from torch import nn
class Kind(enum.Enum):
    A = 1
    B = 2
@dataclasses.dataclass
class Opt:
    scale: float = 2.0
    kind: Kind = Kind.A
OPT = Opt()
@functools.lru_cache
def cached(n): return n * 2.0
def from_cache(x): return x * cached(3)
def make(k):
    def inner(x): return x * k
    return inner
closure = make(3.0)
part = functools.partial(lambda x, k: x * k, k=2.0)
def use_closure(x): return closure(x) + 1
def use_partial(x): return part(x) + 1
def use_opt(x): return x * OPT.scale if OPT.kind is Kind.A else x - OPT.scale
def kw(x, *, mode="a", n=2): return x * n if mode == "a" else x - n
def defaults(x, n=2, scale=1.5): return x * n * scale
def ints(x, n): return x * n
def texts(x, mode): return x * 2 if mode == "a" else x * 3
def catches(x):
    try: return raises(x)
    except ValueError: return x + 1
def raises(x): raise ValueError("a")
def helper(y): return y * 3
def helper2(y): return y * 3
def breaks(x):
    y = x * 2
    print(end="")
    return helper(y) + 1
def breaks_twice(x):
    y = x * 2
    print(end="")
    z = y + 1
    print(end="")
    return z * OPT.scale
G2 = 1.0
def thrice(x):
    a = x * 2
    print(end="")
    with torch.no_grad():
        b = a + G2
    print(end="")
    for i in range(2):
        b = b * 2
        print(end="")
    return [b + a, i]
def inside_loop(x):
    for i in range(3):
        x = x * OPT.scale
        print(end="")
    return x
def within_context(x):
    with torch.no_grad():
        y = x * 2
        print(end="")
        y = y * OPT.scale
    return y + 1
def in_inlined(x): return breaks(x) * OPT.scale
def closes_over(x):
    k = 2.0
    def inner(y): return y * k
    a = inner(x)
    print(end="")
    return inner(a) * OPT.scale
def counts(x, state):
    state["n"] = state["n"] + 1
    return x * state["n"]
def appends(x, items):
    items.append(x * 2)
    return x + len(items)
class Holder:
    def __init__(self): self.n = 1; self.last = None
HOLDER = Holder()
def sets_attribute(x):
    HOLDER.last = x * 2
    return x * HOLDER.n
TOTAL = 0
def sets_global(x):
    global TOTAL
    TOTAL = TOTAL + 1
    return x * 2
def mutates(x):
    x.add_(1)
    return x * 2
def same(x, y): return x * 2 + y
def writes_and_reads(x, y):
    x.mul_(2)
    return x + y
def nested(x): return [f(x) for f in (lambda v: v + 1, lambda v: v * 2)][0]
def wrapped(f):
    @functools.wraps(f)
    def w(*a): return f(*a) * 2
    return w
@wrapped
def decorated(x): return x * 3
def use_decorated(x): return decorated(x)
def mk():
    st = {"n": 2.0}
    def g(x): return x * st["n"]
    return g
CL = mk()
def dict_in_cell(x): return CL(x)
LST = [1.0]
def generates(x):
    def it():
        for i in LST: yield i
    return x * sum(it())
@contextlib.contextmanager
def cm():
    yield 3.0
def uses_context(x):
    with cm() as k: return x * k
SEEDED = random.Random(3)
def state_of(x): return x * (SEEDED.getstate()[1][0] % 7)
def rand(x): return x + random.random()
def seeded(x): return x * random.Random(5).random()
def clock(x): return x * (time.time() > 0)
def identity_number(x): return x * (id(OPT) % 7 + 1)
def hashed(x): return x * (hash("abc") % 7 + 1)
def drops(x): return torch.nn.functional.dropout(x, 0.5, training=True)
@torch.compiler.disable
def not_traced(x): return x * 2
def calls_disabled(x): return not_traced(x) * OPT.scale
def returns_function(x):
    y = x * 2
    def f(z): return z * OPT.scale
    return f(y)
def kwargs_of(x, **kw): return x * kw["k"]
def varargs(x, *more): return x + sum(more)
def tuples(x, pair): return x * pair[0] + pair[1]
def compiled_within(x): return torch.compile(helper, backend="eager")(x) * OPT.scale
def one_op(x): return torch.ops.aten.mul(x, 2.5)
def empty(x): return x
def only_python(x): return OPT.scale
def vmapped(x): return torch.func.vmap(lambda v: v * OPT.scale)(x)
def grads(x): return torch.func.grad(lambda v: (v * v * OPT.scale).sum())(x)
def conditional(x): return torch.cond(x.sum() > 0, lambda v: v * OPT.scale, lambda v: v - 1, (x,))
def policy(ctx, op, *args, **kwargs): return op is torch.ops.aten.mul.Tensor
def selectively(x):
    chosen = functools.partial(torch.utils.checkpoint.create_selective_checkpoint_contexts, policy)
    return torch.utils.checkpoint.checkpoint(helper, x, use_reentrant=False, context_fn=chosen) * OPT.scale
SAVED = {torch.ops.aten.mul.Tensor}
def chooses(ctx, op, *args, **kwargs): return op in SAVED
CHOSEN = lambda: torch.utils.checkpoint.create_selective_checkpoint_contexts(chooses)
def selects(x): return torch.utils.checkpoint.checkpoint(helper, x, use_reentrant=False, context_fn=CHOSEN) * OPT.scale
def lists(x):
    listed = functools.partial(torch.utils.checkpoint.create_selective_checkpoint_contexts, [torch.ops.aten.mul.Tensor])
    return torch.utils.checkpoint.checkpoint(helper, x, use_reentrant=False, context_fn=listed) * OPT.scale
VARIABLE = contextvars.ContextVar("variable", default=2.0)
def reads_variable(x): return x * VARIABLE.get()
EMPTY = contextvars.ContextVar("empty")
def misses_variable(x):
    try:
        return x * EMPTY.get()
    except LookupError:
        return x * 4
def reads_or(x): return x * VARIABLE.get(3.0)
def picks(ops, others, ctx, op, *args, **kwargs): return op in ops or op in others
def collects(x):
    picked = functools.partial(picks, {torch.ops.aten.mul.Tensor}, (torch.ops.higher_order.cond,))
    chosen = functools.partial(torch.utils.checkpoint.create_selective_checkpoint_contexts, picked)
    return torch.utils.checkpoint.checkpoint(helper, x, use_reentrant=False, context_fn=chosen) * OPT.scale
@torch.no_grad()
def decides(ctx, op, *args, **kwargs): return op in SAVED
def decided(x):
    chosen = functools.partial(torch.utils.checkpoint.create_selective_checkpoint_contexts, policy_fn_or_list=decides)
    return torch.utils.checkpoint.checkpoint(helper, x, use_reentrant=False, context_fn=chosen) * OPT.scale
HASHED = functools.partial(torch.utils.checkpoint.create_selective_checkpoint_contexts, policy)
HASHED.cache_hash = "1"
def hashed_policy(x):
    return torch.utils.checkpoint.checkpoint(helper, x, use_reentrant=False, context_fn=HASHED) * OPT.scale
ASKED = []
def notes(ctx, op, *args, **kwargs):
    ASKED.append(str(op))
    return len(ASKED) % 2 == 0
NOTING = lambda: torch.utils.checkpoint.create_selective_checkpoint_contexts(notes)
def is_asked(x): return torch.utils.checkpoint.checkpoint(helper, x, use_reentrant=False, context_fn=NOTING) * OPT.scale
def checkpointed(x): return torch.utils.checkpoint.checkpoint(helper, x, use_reentrant=False) * OPT.scale
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): ctx.save_for_backward(x); return x * x
    @staticmethod
    def backward(ctx, g): (x,) = ctx.saved_tensors; return g * 2 * x
def custom_function(x): return Square.apply(x) * OPT.scale
"""


def no_contexts():
    return torch.utils.checkpoint.create_selective_checkpoint_contexts([])


def func(entry, name, **more):
    put(f"function: {entry}, {name}", SOURCE, entry, **more)


def ones(n=4):
    return torch.ones(n)


func("from_cache", "the cached function's code", edit=("return n * 2.0", "return n * 4.0"))
func("use_closure", "a cell", change=lambda s: setattr(s.m.closure.__closure__[0], "cell_contents", 9.0))
func("use_closure", "another closure of the same code", change=lambda s: setattr(s.m, "closure", s.m.make(8.0)))
func("use_closure", "the inner code", edit=("def inner(x): return x * k", "def inner(x): return x - k"))
func("use_partial", "a keyword", change=lambda s: setattr(s.m, "part", functools.partial(s.m.part.func, k=6.0)))
func("use_partial", "its function", edit=("lambda x, k: x * k", "lambda x, k: x - k"))
func("use_opt", "a dataclass's default", edit=("scale: float = 2.0", "scale: float = 3.0"))
func("use_opt", "a field", change=set_("m.OPT.scale", 11.0))
func("use_opt", "an enum's member", change=lambda s: setattr(s.m.OPT, "kind", s.m.Kind.B))
func("use_opt", "an enum's value", edit=("A = 1\n", "A = 5\n"), agrees=True)
func("kw", "a keyword's default", change=lambda s: s.m.kw.__kwdefaults__.update(n=7))
func("kw", "a text", change=lambda s: s.m.kw.__kwdefaults__.update(mode="b"))
func("defaults", "a default", change=lambda s: setattr(s.m.defaults, "__defaults__", (2, 2.5)))
func("ints", "another int", args=lambda: (ones(), 3), change=args(lambda: (ones(), 4)))
func("ints", "a float", args=lambda: (ones(), 3), change=args(lambda: (ones(), 3.5)))
func("ints", "a bool", args=lambda: (ones(), 1), change=args(lambda: (ones(), True)), agrees=True)
func("ints", "another float", args=lambda: (ones(), 3.5), change=args(lambda: (ones(), 4.5)))
func("ints", "nan", args=lambda: (ones(), 3.5), change=args(lambda: (ones(), math.nan)))
func("ints", "minus zero", args=lambda: (ones(), 0.0), change=args(lambda: (ones(), -0.0)))
func("texts", "another text", args=lambda: (ones(), "a"), change=args(lambda: (ones(), "b")))
func("catches", "it raises no more", edit=('def raises(x): raise ValueError("a")', "def raises(x): return x * 100"))
func("breaks", "nothing", restores=True)
func("breaks", "code after the break", edit=("def helper(y): return y * 3", "def helper(y): return y * 4"))
func("breaks_twice", "a field after both", change=set_("m.OPT.scale", 11.0))
func("breaks_twice", "the source", edit=("z = y + 1", "z = y + 5"))
func("breaks_twice", "nothing", restores=True)
func("thrice", "nothing", restores=True)
func("thrice", "a global of the middle", change=set_("m.G2", 9.0))
func("thrice", "grad mode", around=torch.no_grad, agrees=True)
func("inside_loop", "a field", change=set_("m.OPT.scale", 11.0), agrees=True)
func("within_context", "nothing", restores=True)
func("within_context", "a field", change=set_("m.OPT.scale", 11.0))
func("in_inlined", "a field", change=set_("m.OPT.scale", 11.0))
func("in_inlined", "the helper", edit=("def helper(y): return y * 3", "def helper(y): return y * 4"))
func("closes_over", "a field", change=set_("m.OPT.scale", 11.0))
func("closes_over", "nothing", restores=True)
func("counts", "another number", args=lambda: (ones(), {"n": 1}), change=lambda s: s.args[1].update(n=5))
func("counts", "nothing", args=lambda: (ones(), {"n": 1}), restores=True)
func("appends", "nothing", args=lambda: (ones(), []), restores=True)
func("appends", "a longer list", args=lambda: (ones(), []), change=args(lambda: (ones(), [ones()])))
func("sets_attribute", "another number", change=set_("m.HOLDER.n", 5))
func("sets_global", "another number", change=set_("m.TOTAL", 5), agrees=True)
func("mutates", "nothing", restores=True)
func("mutates", "gradients wanted", change=lambda s: s.args[0].requires_grad_())
func("same", "both are one", args=lambda: (ones(), 2 * ones()), change=lambda s: setattr(s, "args", (s.args[0],) * 2))
func(
    "writes_and_reads",
    "both are one",
    args=lambda: (ones(), 3 * ones()),
    change=lambda s: setattr(s, "args", (s.args[0],) * 2),
)


def overlapping(scene):
    base = torch.arange(8.0)
    scene.args = (base[:4], base[2:6])


func("writes_and_reads", "they overlap", args=lambda: (ones(), 2 * ones()), change=overlapping)
func("nested", "a lambda", edit=("lambda v: v + 1", "lambda v: v + 2"))
func("use_decorated", "the decorator", edit=("return f(*a) * 2", "return f(*a) * 3"))
func("use_decorated", "the decorated", edit=("def decorated(x): return x * 3", "def decorated(x): return x * 4"))
func("dict_in_cell", "its item", change=lambda s: s.m.CL.__closure__[0].cell_contents.update(n=7.0))
func("generates", "a longer list", change=lambda s: s.m.LST.append(7.0))
func("uses_context", "its code", edit=("    yield 3.0", "    yield 4.0"))
func("state_of", "nothing", refused="random", random=True)
func("rand", "nothing", refused="random", random=True)
func("seeded", "nothing", agrees=True, refused="", random=True)
func("identity_number", "nothing", refused="identity", random=True)
func("hashed", "nothing", refused="hash()", agrees=True)
func("drops", "nothing", random=True)
func("calls_disabled", "a field", change=set_("m.OPT.scale", 11.0))
func(
    "calls_disabled",
    "the disabled function",
    edit=("def not_traced(x): return x * 2", "def not_traced(x): return x * 5"),
)
func("returns_function", "a field", change=set_("m.OPT.scale", 11.0))
func("varargs", "more", args=lambda: (ones(), 1, 2), change=args(lambda: (ones(), 1, 2, 3)))
func("tuples", "another", args=lambda: (ones(), (1, 2.0)), change=args(lambda: (ones(), (1, 3.0))))
func("one_op", "nothing", restores=True)
func("vmapped", "a field", change=set_("m.OPT.scale", 11.0))
func("grads", "a field", change=set_("m.OPT.scale", 11.0))
func("conditional", "a field", change=set_("m.OPT.scale", 11.0))
func("checkpointed", "a field", change=set_("m.OPT.scale", 11.0))
for entry in ("selectively", "selects", "lists", "collects", "decided"):
    func(entry, "nothing", restores=True)
    func(entry, "a field", change=set_("m.OPT.scale", 11.0))
func("selects", "what its policy reads", change=lambda scene: scene.m.SAVED.clear(), seen=True)
func("decided", "what its policy reads", change=lambda scene: scene.m.SAVED.clear(), seen=True)
func("hashed_policy", "a field", change=set_("m.OPT.scale", 11.0), refused="cache_hash")
func("selects", "another policy", change=set_("m.CHOSEN", lambda: no_contexts()), seen=True)
func("lists", "another's data", change=lambda scene: scene.m.SAVED.clear(), restores=True)
for entry in ("reads_variable", "reads_or"):
    func(entry, "nothing", restores=True, since=(2, 15))
    func(entry, "another value", change=lambda scene: scene.m.VARIABLE.set(5.0), since=(2, 15))
func(
    "misses_variable",
    "a value",
    change=lambda scene: scene.m.EMPTY.set(5.0),
    after=False,
    since=(2, 15),
    refused="an address as text",  # the error's
)
func("reads_variable", "another default", edit=("default=2.0", "default=7.0"))
func("is_asked", "a field", change=set_("m.OPT.scale", 11.0), refused="context_fn changes what it reads")
func("custom_function", "a field", change=set_("m.OPT.scale", 11.0))
func(
    "custom_function",
    "its backward",
    args=lambda: (ones().requires_grad_(),),
    edit=("return g * 2 * x", "return g * 3 * x"),
)

# -- a comprehension in which the graph breaks: a function of its own from Python 3.12 on
COMPREHENSIONS = """
import torch
FACTOR, HELD = 2.0, [1.0, 2.0]
def scaled(x, n): torch._dynamo.graph_break(); return x * n * FACTOR
def of_list(x): return sum([scaled(x, n) for n in HELD]) + FACTOR
def of_table(x): found = {n: scaled(x, n) for n in HELD}; return found[1.0] + x
def within(x):
    by = 3.0
    def inner(y): return y * by
    return torch.stack([inner(scaled(x, n)) for n in HELD]) * by
"""


def comprehension(entry, name, **more):
    put(f"comprehensions: {entry}, {name}", COMPREHENSIONS, entry, since=(2, 12), **more)


for entry in ("of_list", "of_table", "within"):
    comprehension(entry, "nothing", change=lambda s: None, agrees=True, restores=True)
comprehension("of_list", "a global", change=set_("m.FACTOR", 9.0))
comprehension("of_list", "one more", change=lambda s: s.m.HELD.append(3.0))
comprehension("of_list", "its code", edit=("[scaled(x, n) for", "[scaled(x, n + 1) for"))
comprehension("within", "its closure", edit=("by = 3.0", "by = 4.0"))

WRAPPED = """
import functools, torch
def logged(f):
    @functools.wraps(f)
    def inner(self, x): return f(self, x)
    return inner
class Base:
    def step(self, x): return x * 2
class Model(Base):
    @logged
    def step(self, x): return x * 3
    def other(self, x): return x * 5
MODEL = Model()
def unwraps(x):
    step = type(MODEL).step
    step = step.__wrapped__ if hasattr(step, "__wrapped__") else step
    return step(MODEL, x) if step.__code__ is not Base.step.__code__ else x
def calls(x): return MODEL.step(x) * (2 if hasattr(Base.step, "__wrapped__") else 3)
def through(x): return inspects(MODEL.step)(MODEL, x)
def inspects(f):
    while hasattr(f, "__wrapped__"): f = f.__wrapped__
    return f
"""


def another_inside(scene):
    scene.m.Model.step.__wrapped__ = scene.m.Model.other


for entry in ("unwraps", "through"):
    put(f"functions: {entry}, another is wrapped", WRAPPED, entry, change=another_inside, after=False)
put(
    "functions: calls, it is wrapped",
    WRAPPED,
    "calls",
    edit=("    def step(self, x): return x * 2", "    @logged\n    def step(self, x): return x * 2"),
)
