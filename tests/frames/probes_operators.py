"""Probes of custom operators: their fakes run while a frame is traced, and what they say is folded in."""

from __future__ import annotations

import torch
from probe import args, put, set_

SOURCE = """
import os, torch
from torch.library import Library, custom_op, register_fake, register_vmap
SCALE, WIDE, GAIN, ROWS = 2.0, 1, 3.0, {"n": 1}
def wide(x): return x.new_empty(x.shape[0] * WIDE)
@custom_op("wgop::repeated", mutates_args=())
def repeated(x: torch.Tensor) -> torch.Tensor: return (x.detach() * SCALE).repeat(WIDE)
@repeated.register_fake
def _(x): return wide(x)
@custom_op("wgop::turned", mutates_args=())
def turned(x: torch.Tensor) -> torch.Tensor: return x.detach()[None].T.repeat(WIDE, 1)
@turned.register_fake
def _(x): return x[None].T.new_empty((x.shape[0] * WIDE, 1))
def by_turned(x): y = turned(x); return y * y.shape[0]
@custom_op("wgop::other", mutates_args=())
def other(x: torch.Tensor) -> torch.Tensor: return x * 7
@other.register_fake
def _(x): return torch.empty_like(x)
@custom_op("wgop::grown", mutates_args=("x",))
def grown(x: torch.Tensor, by: float) -> None: x += by
@custom_op("wgop::bent", mutates_args=())
def bent(x: torch.Tensor) -> torch.Tensor: return x * 2
@bent.register_fake
def _(x): return torch.empty_like(x)
def back(ctx, grad): return grad * GAIN
bent.register_autograd(back)
@custom_op("wgop::kept", mutates_args=())
def kept(x: torch.Tensor) -> torch.Tensor: return x[x > 1].clone()
@kept.register_fake
def _(x): return x.new_empty(torch.library.get_ctx().new_dynamic_size())
@custom_op("wgop::rows", mutates_args=())
def rows(x: torch.Tensor) -> torch.Tensor: return x.repeat(ROWS["n"])
@rows.register_fake
def _(x): return x.new_empty(x.shape[0] * ROWS["n"])
@custom_op("wgop::asked", mutates_args=())
def asked(x: torch.Tensor) -> torch.Tensor: return x.repeat(int(os.environ.get("WG_PROBE_WIDE", "1")))
@asked.register_fake
def _(x): return x.new_empty(x.shape[0] * int(os.environ.get("WG_PROBE_WIDE", "1")))
LIBRARY = Library("wgop_library", "DEF")
LIBRARY.define("plain(Tensor x) -> Tensor")
LIBRARY.impl("plain", lambda x: x.repeat(WIDE), "CPU")
register_fake("wgop_library::plain", wide, lib=LIBRARY)
LIBRARY.define("inner(Tensor x) -> Tensor")
def inner(x): return x * GAIN
LIBRARY.impl("inner", inner, "CompositeImplicitAutograd")
LIBRARY.define("with_meta(Tensor x) -> Tensor")
LIBRARY.impl("with_meta", lambda x: x.repeat(WIDE), "CPU")
LIBRARY.impl("with_meta", lambda x: x.new_empty(x.shape[0] * WIDE), "Meta")
def by_library_with_meta(x): y = torch.ops.wgop_library.with_meta(x); return y * y.shape[0]
LIBRARY.define("with_autograd(Tensor x) -> Tensor")
LIBRARY.impl("with_autograd", lambda x: x * 2, "CPU")
register_fake("wgop_library::with_autograd", lambda x: torch.empty_like(x), lib=LIBRARY)
torch.library.register_autograd("wgop_library::with_autograd", lambda ctx, grad: grad * GAIN, lib=LIBRARY)
def by_library_with_autograd(x): return torch.ops.wgop_library.with_autograd(x) + 1
LIBRARY.define("with_context(Tensor x, float by) -> Tensor")
LIBRARY.impl("with_context", lambda x, by: x * by, "CPU")
register_fake("wgop_library::with_context", lambda x, by: torch.empty_like(x), lib=LIBRARY)
def keep(ctx, inputs, output): ctx.by = inputs[1] * WIDE
def scaled_back(ctx, grad): return grad * ctx.by, None
torch.library.register_autograd("wgop_library::with_context", scaled_back, setup_context=keep)
def by_library_with_context(x): return torch.ops.wgop_library.with_context(x, SCALE) + 1
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.wgop_library.with_own(x)
    @staticmethod
    def backward(ctx, grad): return grad * GAIN
LIBRARY.define("with_own(Tensor x) -> Tensor")
LIBRARY.impl("with_own", lambda x: x * 2, "CPU")
LIBRARY.impl("with_own", lambda x: torch.empty_like(x), "Meta")
LIBRARY.impl("with_own", Own.apply, "Autograd")
def by_library_with_autograd_of_its_own(x): return torch.ops.wgop_library.with_own(x) * SCALE
LIBRARY.define("several(Tensor x) -> Tensor")
LIBRARY.define("several.out(Tensor x, *, Tensor(a!) out) -> ()")
LIBRARY.impl("several", lambda x: x.repeat(WIDE), "CompositeExplicitAutograd")
register_fake("wgop_library::several", wide, lib=LIBRARY)
def one_of_several(x): y = torch.ops.wgop_library.several.default(x); return y * y.shape[0]
def breaks_after_one_of_several(x):
    y = torch.ops.wgop_library.several.default(x)
    torch._dynamo.graph_break()
    return y
def given_up_after_one_of_several(x): return breaks_after_one_of_several(x) * x.shape[0]
def any_of_several(x): y = torch.ops.wgop_library.several(x); return y * y.shape[0]
OPS = {"a": torch.ops.wgop.repeated, "b": torch.ops.wgop.other}
OPERATOR = torch.ops.wgop.repeated.default
def by_name(x): y = repeated(x); return y * y.shape[0]
def by_path(x): y = torch.ops.wgop.repeated(x); return y * y.shape[0]
def by_overload(x): y = OPERATOR(x); return y * y.shape[0]
def by_table(x): y = OPS["a"](x); return y * y.shape[0]
def by_flag(x): y = rows(x); return y * y.shape[0]
def by_environment(x): y = asked(x); return y * y.shape[0]
def by_library(x): y = torch.ops.wgop_library.plain(x); return y * y.shape[0]
def composite(x): return torch.ops.wgop_library.inner(x) + 1
def shape_alone(x): return x * repeated(x).shape[0]
def mutating(x): y = x * 1; grown(y, GAIN); return y
def unbacked(x): return kept(x).sum()
def nested(x): return torch.cond(x.sum() > 1, lambda x: other(x) + 1, lambda x: x - 1, (x,))
def backward(x):
    return bent(x) * 3
def has_overload(x): return x * 5 if hasattr(torch.ops.wgop.repeated, "fast") else x * 1.5
def has_mark(x): return x * 5 if hasattr(OPERATOR, "wg_mark") else x * 1.5
def vmapped(x): y = torch.func.vmap(mapped)(x.unsqueeze(1)); return y * y.shape[0]
def checkpointed(x): return torch.utils.checkpoint.checkpoint(lambda x: bent(x).sin(), x, use_reentrant=False)
def sized(x): return scaled_by(x, SCALE)
@custom_op("wgop::scaled_by", mutates_args=())
def scaled_by(x: torch.Tensor, by: float) -> torch.Tensor: return x * by
@scaled_by.register_fake
def _(x, by): return x.new_empty(x.shape)
@custom_op("wgop::mapped", mutates_args=())
def mapped(x: torch.Tensor) -> torch.Tensor: return x * 7
@mapped.register_fake
def _(x): return torch.empty_like(x)
@mapped.register_vmap
def _(info, dims, x): return mapped(x.clone()), dims[0]
class Uses:
    def __init__(self): self.op = repeated
    def run(self, x): return self.op(x)
USES = Uses()
def held(x): y = USES.run(x); return y * y.shape[0]
def broken(x):
    y = other(x)
    torch._dynamo.graph_break()
    z = repeated(y)
    return z * z.shape[0]
"""


ALONE = 'LIBRARY.define("plain(Tensor x) -> Tensor")'
FIRST = """LIBRARY.define("plain.first(Tensor x, float k=1.0) -> Tensor")
LIBRARY.impl("plain.first", lambda x, k=1.0: x * 5, "CPU")
register_fake("wgop_library::plain.first", lambda x, k=1.0: torch.empty_like(x), lib=LIBRARY)
"""


def operator(entry, name, **more):
    put(f"operators: {entry}, {name}", SOURCE, entry, **more)


def refaked(scene):
    scene.m.WIDE = 2
    scene.m.repeated.register_fake(lambda x: x.new_empty(x.shape[0] * 2))


def replaced(scene):
    scene.m.repeated = scene.m.other


def overload(scene):
    scene.more = torch.library.Library("wgop", "FRAGMENT")
    scene.more.define("repeated.fast(Tensor x, int y) -> Tensor")


def another_kernel(scene):
    scene.more = torch.library.Library("wgop_library", "IMPL")
    scene.more.impl("inner", lambda x: x * 7, "CompositeImplicitAutograd", allow_override=True)


def environment(scene):
    import os

    os.environ["WG_PROBE_WIDE"] = "3"


# -- what the fake reads
for entry in ("by_name", "by_path", "by_overload", "by_table", "held", "by_library", "broken", "by_turned"):
    operator(entry, "a global of the fake", change=set_("m.WIDE", 2), after=False)
operator("by_name", "the fake is another", change=refaked, after=False)
UNSEEN = "while it is traced"
GRADIENT = {"after": False, "args": lambda: (torch.arange(4.0).requires_grad_(),)}
operator("by_flag", "a table of the fake", change=lambda scene: scene.m.ROWS.update(n=3), after=False, refused=UNSEEN)
operator("by_environment", "the environment", change=environment, after=False, refused="its graph is not kept")
operator("by_library_with_meta", "a global of the kernel for meta tensors", change=set_("m.WIDE", 2), after=False)
operator("by_name", "a helper of the fake", edit=("x.shape[0] * WIDE", "x.shape[0] * 2"), after=False, agrees=True)

operator("one_of_several", "a global of the fake", change=set_("m.WIDE", 2), after=False)
operator("given_up_after_one_of_several", "a global of the fake", change=set_("m.WIDE", 2), after=False)
operator("any_of_several", "a global of the fake", change=set_("m.WIDE", 2), after=False, refused="overloads")

# -- which operator
operator("by_library", "an overload that comes first", edit=(ALONE, f"{FIRST}{ALONE}"))
operator("by_name", "another one", change=replaced)
operator("held", "another one", change=lambda scene: setattr(scene.m.USES, "op", scene.m.other))
operator("by_table", "another one", change=lambda scene: scene.m.OPS.update(a=scene.m.OPS["b"]))
operator("by_overload", "another one", change=lambda scene: setattr(scene.m, "OPERATOR", scene.m.OPS["b"].default))

# -- what runs when it is called, by its name
operator("by_name", "a global of the implementation", change=set_("m.SCALE", 5.0), restores=True, after=False)
operator("mutating", "its argument", change=set_("m.GAIN", 5.0))
operator(
    "unbacked",
    "more are kept",
    change=lambda scene: setattr(scene, "args", (torch.arange(8.0)[4:],)),
)
operator("composite", "a global", change=set_("m.GAIN", 5.0), after=False)
operator("composite", "the kernel is another", change=another_kernel)
operator("by_library_with_autograd_of_its_own", "its argument", change=set_("m.SCALE", 5.0), refused=UNSEEN, **GRADIENT)

# -- gradients
operator(
    "backward",
    "a global of its backward",
    change=set_("m.GAIN", 5.0),
    after=False,
    args=lambda: (torch.arange(4.0).requires_grad_(),),
)

operator("by_library_with_autograd", "a global of its backward", change=set_("m.GAIN", 5.0), **GRADIENT)
operator("by_library_with_context", "a global of what its context keeps", change=set_("m.WIDE", 5), **GRADIENT)
operator("by_library_with_context", "its argument", change=set_("m.SCALE", 5.0), **GRADIENT)
for entry in ("by_library_with_autograd", "by_library_with_context"):
    operator(entry, "nothing", change=lambda scene: None, agrees=True, restores=True, **GRADIENT)

# -- what is there
operator("has_overload", "it appears", change=overload, after=False)
operator("has_mark", "it appears", change=lambda scene: setattr(scene.m.OPERATOR, "wg_mark", 1), after=False)

# -- within other operators
NOTHING = {"change": lambda scene: None, "agrees": True, "restores": True}
for entry in ("nested", "by_library_with_meta", "composite", "one_of_several", "given_up_after_one_of_several"):
    operator(entry, "nothing", **NOTHING)
operator("vmapped", "nothing", change=lambda scene: None, agrees=True, refused=UNSEEN)
operator("checkpointed", "nothing", **NOTHING, args=lambda: (torch.arange(4.0).requires_grad_(),))
operator("sized", "its argument", change=set_("m.SCALE", 5.0))
operator("sized", "other sizes", change=args(lambda: (torch.arange(6.0),)))

# -- a graph that does not hold it
operator("shape_alone", "a global of the fake", change=set_("m.WIDE", 2), after=False)


# -- fakes as people write them, and what a fake may not do: nobody runs it where a frame is restored

FAKES = """
import logging, math, torch
from torch.library import custom_op
MULTIPLE, LAYOUTS, SEEN, STATE = 4, (torch.float32, torch.strided), [], {"by": 2.0}
def rounded(n, to=MULTIPLE): return (n + to - 1) // to * to
def contiguous(x): return x.contiguous() if x is not None and x.stride(-1) != 1 else x
def op(fake=None, setup=None, **more):
    def made(function):
        made = custom_op(f"wgfake::{function.__name__}", function, mutates_args=more.get("mutates", ()))
        if fake is not None: made.register_fake(fake)
        if setup is not None: made.register_autograd(lambda ctx, *grads: back(ctx, *grads), setup_context=setup)
        return made
    return made
def back(ctx, grad, *_): return grad * ctx.by, None
def attended(q, k, scale=None, *, causal=False):
    q, k = [contiguous(x) for x in (q, k)]
    shape = list(q.shape); shape[-1] = rounded(shape[-1]); rows, *_ = q.shape
    assert q.dim() == k.dim(), f"{q.dim()} and {k.dim()}"
    out = q.new_empty(tuple(shape))
    lse = torch.empty((rows, math.prod(q.shape[1:])), dtype=torch.float32, device=q.device, layout=q.layout)
    return out, lse if causal else lse[:1].clone()
@op(attended)
def attention(
    q: torch.Tensor, k: torch.Tensor, scale: float | None = None, *, causal: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    pad = rounded(q.shape[-1]) - q.shape[-1]
    lse = (q.flatten(1) if causal else q.flatten(1)[:1]).float() * 2
    return torch.nn.functional.pad(q * (scale or 1.0), (0, pad)), lse
def like_example(x): return attention(x.reshape(2, -1), x.reshape(2, -1), 2.0, causal=True)[1] * MULTIPLE
def keeping(ctx, inputs, output):
    x, by = inputs
    ctx.save_for_backward(x); ctx.by = by
@op(lambda x, by: torch.empty_like(x), keeping)
def scaled(x: torch.Tensor, by: float) -> torch.Tensor: return x * by
def with_gradients(x): return scaled(x, 3.0) + 1
@op(lambda xs: [x.new_empty(x.shape) for x in xs])
def several(xs: list[torch.Tensor]) -> list[torch.Tensor]: return [x * 2 for x in xs]
def of_lists(x): return several([x, x + 1])[1]
def remembering(x): SEEN.append(1); return torch.empty_like(x)
@op(remembering)
def remembered(x: torch.Tensor) -> torch.Tensor: return x * 2
def stores(x): return remembered(x) + 1
def storing(ctx, inputs, output): ctx.by = inputs[1]; STATE["by"] = inputs[1]
@op(lambda x, by: torch.empty_like(x), storing)
def stored(x: torch.Tensor, by: float) -> torch.Tensor: return x * STATE["by"]
def stores_in_setup(x): return stored(x, 3.0) + 1
def marked(x): x.wg_seen = 1; return torch.empty_like(x)
@op(marked)
def marks(x: torch.Tensor) -> torch.Tensor: return x * 2
def sets_an_attribute(x): return marks(x) + 1
@op(lambda x: torch.empty_like(x) if x.grad is None else x.new_empty(2 * x.shape[0]))
def grad_read(x: torch.Tensor) -> torch.Tensor: return x * 2
def asks_for_grad(x): y = grad_read(x); return y * y.shape[0]
@op(lambda x: torch.empty_like(x) if logging.getLogger("wg").level else x.new_empty(x.shape))
def level_read(x: torch.Tensor) -> torch.Tensor: return x * 2
def asks_for_a_level(x): return level_read(x) + 1
@op(lambda x: torch.empty_like(x) if torch.is_warn_always_enabled() else x.new_empty(x.shape))
def switch_read(x: torch.Tensor) -> torch.Tensor: return x * 2
def asks_for_a_switch(x): return switch_read(x) + 1
def within(n):
    @op(lambda x: x.new_empty(n * x.shape[0]))
    def closed(x: torch.Tensor) -> torch.Tensor: return x.repeat(n)
    return closed
CLOSED = within(2)
def over_a_closure(x): y = CLOSED(x); return y * y.shape[0]
@op(lambda x, cache=[]: torch.empty_like(x))
def default_read(x: torch.Tensor) -> torch.Tensor: return x * 2
def has_a_list_as_default(x): return default_read(x) + 1
def tried(x):
    try: return torch.empty_like(x)
    except RuntimeError: return x.new_empty(1)
@op(tried)
def trying(x: torch.Tensor) -> torch.Tensor: return x * 2
def catches(x): return trying(x) + 1
def imported(x): import math as m; return x.new_empty(m.prod(x.shape))
@op(lambda x: torch.empty_like(x))
def copied(x: torch.Tensor) -> torch.Tensor: return x.clone()
def of_a_constant(x): return x * copied(torch.tensor(2.0))
def rebinding(ctx, inputs, output): ctx.by = inputs[1]; ctx = contiguous; ctx.by = inputs[1]
@op(lambda x, by: torch.empty_like(x), rebinding)
def rebound(x: torch.Tensor, by: float) -> torch.Tensor: return x * by
def rebinds_ctx(x): return rebound(x, 3.0) + 1
def choosing(ctx, inputs, output): ctx.by = inputs[1]; (contiguous if inputs[1] else ctx).by = inputs[1]
@op(lambda x, by: torch.empty_like(x), choosing)
def chosen(x: torch.Tensor, by: float) -> torch.Tensor: return x * by
def sets_on_another(x): return chosen(x, 3.0) + 1
contiguous.dtype = torch.float32
@op(lambda x: x.new_empty(x.shape, dtype=contiguous.dtype))
def held_read(x: torch.Tensor) -> torch.Tensor: return x * 2
def asks_a_function(x): return held_read(x) + 1
@op(lambda x: torch.empty_like(x))
def decomposed(x: torch.Tensor) -> torch.Tensor: return x * 2
@torch._decomp.register_decomposition(torch.ops.wgfake.decomposed.default)
def _(x): return x * 2
def has_a_decomposition(x): return decomposed(x) + 1
@op(lambda x: torch.empty_like(x) if any(n > 1 for n in x.shape) and isinstance(x, torch.Tensor) else x.new_empty(1))
def generated(x: torch.Tensor) -> torch.Tensor: torch._check(x.dim() == 1, lambda: f"{x.dim()}"); return x * 2
def asks_a_generator(x): return generated(x) + 1
@op(imported)
def importing(x: torch.Tensor) -> torch.Tensor: return x * 2
def imports(x): return importing(x) + 1
"""


def fake(entry, name, **more):
    put(f"fakes: {entry}, {name}", FAKES, entry, args=more.pop("args", lambda: (torch.arange(4.0),)), **more)


GRAD = {"args": lambda: (torch.arange(4.0).requires_grad_(),)}
fake("like_example", "nothing", **NOTHING)
fake("like_example", "a default and a constant", change=set_("m.MULTIPLE", 8))
fake("like_example", "its helper", edit=("(n + to - 1) // to * to", "(n + to) // to * to"), agrees=True, after=False)
fake("with_gradients", "nothing", **NOTHING, **GRAD)
fake("of_lists", "nothing", **NOTHING)
for entry in """
    sets_an_attribute asks_for_grad asks_for_a_level over_a_closure has_a_list_as_default
    catches imports of_a_constant asks_a_function has_a_decomposition
""".split():
    fake(entry, "nothing", change=lambda scene: None, agrees=True, refused=UNSEEN)
fake("asks_for_a_switch", "nothing", change=lambda scene: None, agrees=True, refused="its graph is not kept")
fake("stores", "nothing", change=lambda scene: None, agrees=True, refused="")  # its key sees the table grow
for entry in ("stores_in_setup", "rebinds_ctx", "sets_on_another"):
    fake(entry, "nothing", change=lambda scene: None, agrees=True, refused=UNSEEN, **GRAD)
fake("asks_a_generator", "nothing", **NOTHING)

# -- what torch does with an operator of a Library that has no autograd, and a method of torch's that is the user's
FALLS_BACK = """
import torch
from torch.library import Library, register_fake
LIBRARY = Library("wgback", "DEF")
LIBRARY.define("plain(Tensor x) -> Tensor")
LIBRARY.impl("plain", lambda x: x * 2, "CPU")
register_fake("wgback::plain", lambda x: x.new_empty(x.shape), lib=LIBRARY)
def asks(x): y = torch.ops.wgback.plain(x); return x * 5 if y.requires_grad else x * 7
"""
put(
    "fakes: asks, without a fallback",
    FALLS_BACK,
    "asks",
    change=lambda scene: torch._C._set_autograd_fallback_mode("nothing"),
    after=False,
    **GRAD,
)
put(
    "fakes: asks, a method of torch's is another",
    FALLS_BACK + "own = torch.Tensor.new_empty\ntorch.Tensor.new_empty = lambda x, *n, **o: own(x, *n, **o)\n",
    "asks",
    change=lambda scene: None,
    agrees=True,
    refused="",
    **GRAD,
)
