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
def vmapped(x): y = torch.func.vmap(other)(x.unsqueeze(1)); return y * y.shape[0]
def checkpointed(x): return torch.utils.checkpoint.checkpoint(lambda x: bent(x).sin(), x, use_reentrant=False)
def sized(x): return scaled_by(x, SCALE)
@custom_op("wgop::scaled_by", mutates_args=())
def scaled_by(x: torch.Tensor, by: float) -> torch.Tensor: return x * by
@scaled_by.register_fake
def _(x, by): return x.new_empty(x.shape)
@other.register_vmap
def _(info, dims, x): return other(x.clone()), dims[0]
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


def environment(scene):
    import os

    os.environ["WG_PROBE_WIDE"] = "3"


# -- what the fake reads
for entry in ("by_name", "by_path", "by_overload", "by_table", "held", "by_library", "broken"):
    operator(entry, "a global of the fake", change=set_("m.WIDE", 2), after=False)
operator("by_name", "the fake is another", change=refaked, after=False)
operator("by_flag", "a table of the fake", change=lambda scene: scene.m.ROWS.update(n=3), after=False)
operator("by_environment", "the environment", change=environment, after=False, refused="its graph is not kept")
operator("by_name", "a helper of the fake", edit=("x.shape[0] * WIDE", "x.shape[0] * 2"), after=False, agrees=True)

# -- which operator
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
    refused="in none of its graphs",
)
# torch's own cache of AOTAutograd's results, which a bypass leaves alone, knows the operator by its name only.
operator("composite", "a global", change=set_("m.GAIN", 5.0), after=False, refused="its graph is not kept", agrees=True)

# -- gradients
operator(
    "backward",
    "a global of its backward",
    change=set_("m.GAIN", 5.0),
    after=False,
    args=lambda: (torch.arange(4.0).requires_grad_(),),
)

# -- what is there
operator("has_overload", "it appears", change=overload, after=False)
operator("has_mark", "it appears", change=lambda scene: setattr(scene.m.OPERATOR, "wg_mark", 1), after=False)

# -- within other operators
NOTHING = {"change": lambda scene: None, "agrees": True, "restores": True}
operator("nested", "nothing", **NOTHING)
operator("vmapped", "nothing", change=lambda scene: None, agrees=True, refused="an object as text")
operator("checkpointed", "nothing", **NOTHING, args=lambda: (torch.arange(4.0).requires_grad_(),))
operator("sized", "its argument", change=set_("m.SCALE", 5.0))
operator("sized", "other sizes", change=args(lambda: (torch.arange(6.0),)))

# -- a graph that does not hold it
operator("shape_alone", "a global of the fake", change=set_("m.WIDE", 2), after=False)
