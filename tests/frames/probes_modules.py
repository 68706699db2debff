"""Probes of a small model: its source, its attributes, its parameters, its hooks, and classes of torch."""

from __future__ import annotations

import functools

import torch
from probe import args, put, set_
from torch import nn

MLP = """
import torch
from torch import nn
SCALE = 2.0
FLAGS = {"on": True, "shift": 1.0}
LAYERS = [1.0, 2.0]
def helper(x, by=3.0): return x * by
def pick(x): return helper(x) + 1
class Config:
    eps = 0.25
    def __init__(self): self.bias = 0.75
class Base(nn.Module):
    OFFSET = 0.5
    def extra(self, x): return x + self.OFFSET
    @property
    def factor(self): return 1.25
    @staticmethod
    def twice(x): return x * 2
    @classmethod
    def third(cls, x): return x * cls.OFFSET
class MLP(Base):
    def __init__(self, width=8):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(width, width); self.b = nn.Linear(width, width); self.norm = nn.LayerNorm(width)
        self.drop = nn.Dropout(0.5)
        self.alpha = 0.1; self.opts = {"k": 1.0}; self.cfg = Config()
        self.register_buffer("buf", torch.ones(width))
        self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
    def forward(self, x):
        x = torch.relu(self.a(x)) * SCALE
        if FLAGS["on"]: x = x + FLAGS["shift"]
        for w in LAYERS: x = x * w
        for block in self.blocks: x = block(x)
        x = self.extra(x) * self.factor + self.twice(x) + pick(x) + self.third(x)
        return self.norm(self.b(self.drop(x))) * self.alpha * self.opts["k"] + self.cfg.bias * self.cfg.eps + self.buf
"""


def model(name, **more):
    put(f"model: {name}", MLP, "model", **{"args": lambda: (torch.randn(4, 8),), **more})


# -- source
model("nothing", restores=True)
model("a comment", edit=("SCALE = 2.0", "# a comment\n\nSCALE = 2.0"), restores=True)
model(
    "a method that nothing calls", edit=("class Config:", "class Config:\n    def unused(self): return 1"), agrees=True
)
model("a function that nothing calls", edit=("class Config:", "def unused(x): return 1\nclass Config:"), restores=True)
model("a helper's constant", edit=("return helper(x) + 1", "return helper(x) + 2"))
model("a helper's default", edit=("by=3.0", "by=4.0"))
model("a helper's operation", edit=("return x * by", "return x / by"))
model("a global", edit=("SCALE = 2.0", "SCALE = 2.5"))
model("a global dict", edit=('"shift": 1.0', '"shift": 1.5'))
model("a global list", edit=("LAYERS = [1.0, 2.0]", "LAYERS = [1.0, 2.0, 3.0]"))
model("a class attribute", edit=("OFFSET = 0.5", "OFFSET = 0.6"))
model("another class's attribute", edit=("eps = 0.25", "eps = 0.5"))
model("a property", edit=("1.25", "1.5"))
model("a static method", edit=("def twice(x): return x * 2", "def twice(x): return x * 3"))
model("a class method", edit=("return x * cls.OFFSET", "return x - cls.OFFSET"))
model("a base's method", edit=("return x + self.OFFSET", "return x - self.OFFSET"))
model("forward", edit=("torch.relu", "torch.sigmoid"))
model("an overriding method", edit=("class MLP(Base):", "class MLP(Base):\n    def extra(self, x): return x * 9"))
model("a constant of __init__", edit=("self.alpha = 0.1", "self.alpha = 0.2"))
model("p of a dropout in eval", edit=("Dropout(0.5)", "Dropout(0.25)"), agrees=True)
model("another number of blocks", edit=("range(2)", "range(3)"))
model("LayerNorm's eps", edit=("nn.LayerNorm(width)", "nn.LayerNorm(width, eps=0.1)"))
model("a bias less", edit=("self.b = nn.Linear(width, width)", "self.b = nn.Linear(width, width, bias=False)"))
model("__getattr__ on the class", edit=("    OFFSET = 0.5", """    OFFSET = 0.5
    def __getattr__(self, name):
        value = super().__getattr__(name)
        return value * 2 if name == "buf" else value"""))  # fmt: skip
model(
    "__call__ on the class",
    edit=("    OFFSET = 0.5", "    OFFSET = 0.5\n    def __call__(self, x): return super().__call__(x) * 2"),
    agrees=True,
)


# -- attributes and monkeypatches
def patch_wrapped(scene):
    base, old = scene.m.Base, scene.m.Base.extra

    @functools.wraps(old)
    def extra(self, x):
        return old(self, x) * 7

    base.extra = extra


def patch_linear(scene):
    old = nn.Linear.forward

    @functools.wraps(old)
    def forward(self, x):
        return old(self, x) * 3

    nn.Linear.forward = forward


def patch_functional(name, wrapped):
    def change(scene):
        old = getattr(nn.functional, name)

        def replaced(*args, **options):
            return old(*args, **options) + 5

        setattr(nn.functional, name, functools.wraps(old)(replaced) if wrapped else replaced)

    return change


def patch_call(scene):
    scene.m.MLP.__call__ = lambda self, *a: nn.Module.__call__(self, *a) * 2


def patch_getattr(scene):
    def get(self, name):
        value = nn.Module.__getattr__(self, name)
        return value * 2 if name == "buf" else value

    scene.m.MLP.__getattr__ = get


def namesake(scene):
    class MLP(scene.m.MLP):
        def extra(self, x):
            return x * 0

    MLP.__module__, MLP.__qualname__ = "usermod", "MLP"
    scene.model.__class__ = MLP


def own_forward(scene):
    old = scene.model.a.forward
    scene.model.a.forward = lambda x: old(x) * 4


def helper_code(scene):
    def other(x, by=3.0):
        return x * by - 50

    scene.m.helper.__code__ = other.__code__


def new_helper(scene):
    def helper(x, by=3.0):
        return x * by + 100

    scene.m.helper = helper


def parametrize(scene):
    class Triple(nn.Module):
        def forward(self, w):
            return w * 3

    nn.utils.parametrize.register_parametrization(scene.model.a, "weight", Triple())


model("Base.extra replaced", change=lambda s: setattr(s.m.Base, "extra", lambda self, x: x - 10))
model("Base.extra wrapped", change=patch_wrapped)
model("nn.Linear.forward wrapped", change=patch_linear)
model("F.layer_norm wrapped", change=patch_functional("layer_norm", wrapped=True))
model("F.layer_norm replaced", change=patch_functional("layer_norm", wrapped=False))
model("F.linear replaced (compiled)", change=patch_functional("linear", wrapped=False))
model("torch.relu replaced", change=lambda s: setattr(torch, "relu", lambda x: x * 11))
model("__call__ of the class", change=patch_call, agrees=True)
model("__getattr__ of the class", change=patch_getattr)
model("a class replaced by its namesake", change=namesake)
model("an instance's own forward", change=own_forward)
model("helper.__code__", change=helper_code)
model("helper.__defaults__", change=lambda s: setattr(s.m.helper, "__defaults__", (9.0,)))
model("helper replaced", change=new_helper)
model("helper disabled", change=lambda s: setattr(s.m, "helper", torch._dynamo.disable(s.m.helper)), agrees=True)
model("helper marked constant", change=lambda s: torch._dynamo.assume_constant_result(s.m.helper), agrees=True)
model("a parametrization", change=parametrize)
model("property replaced", change=lambda s: setattr(s.m.Base, "factor", property(lambda self: 8.0)))
model("class attribute set", change=lambda s: setattr(s.m.Base, "OFFSET", 5.0))
model("class attribute on the instance", change=lambda s: setattr(s.model, "OFFSET", 5.0))
model("class attribute on the subclass", change=lambda s: setattr(s.m.MLP, "OFFSET", 5.0))
model("global set", change=set_("m.SCALE", 7.0))
model("global of another type", change=set_("m.SCALE", 2), agrees=True)
model("global dict's item", change=lambda s: s.m.FLAGS.update(shift=5.0))
model("global dict's branch", change=lambda s: s.m.FLAGS.update(on=False))
model("global list longer", change=lambda s: s.m.LAYERS.append(3.0))
model("a config's field", change=set_("model.cfg.bias", 9.0))
model("a config's field over its class's", change=set_("model.cfg.eps", 9.0))
model("a float of the model", change=set_("model.alpha", 3.0))
model("a dict's item of the model", change=lambda s: s.model.opts.update(k=4.0))

# -- hooks
model("forward hook on a submodule", change=lambda s: s.model.a.register_forward_hook(lambda m, i, o: o * 5))
model("pre-hook on a submodule", change=lambda s: s.model.b.register_forward_pre_hook(lambda m, i: (i[0] * 5,)))
model("forward hook on the root", change=lambda s: s.model.register_forward_hook(lambda m, i, o: o * 5), after=False)
model("pre-hook on the root", change=lambda s: s.model.register_forward_pre_hook(lambda m, i: (i[0] * 5,)), after=False)
model(
    "hook with keywords",
    change=lambda s: s.model.a.register_forward_hook(lambda m, a, k, o: o * 5, with_kwargs=True),
)
model(
    "hook that always runs", change=lambda s: s.model.a.register_forward_hook(lambda m, i, o: o * 5, always_call=True)
)
model(
    "hook for all modules",
    change=lambda s: nn.modules.module.register_module_forward_hook(
        lambda m, i, o: o * 2 if isinstance(m, nn.Linear) else o
    ),
)
model(
    "pre-hook for all modules",
    change=lambda s: nn.modules.module.register_module_forward_pre_hook(
        lambda m, i: (i[0] * 2,) if isinstance(m, nn.Linear) else None
    ),
)
model("backward hook", change=lambda s: s.model.a.register_full_backward_hook(lambda m, i, o: None), agrees=True)

# -- submodules, parameters, buffers


def noncontiguous(scene):
    scene.model.a.weight = nn.Parameter(scene.model.a.weight.t().contiguous().t())


def views_of_one(scene):
    a, b = scene.model.a, scene.model.b
    base = torch.cat([a.weight.detach().flatten(), b.weight.detach().flatten()])
    a.weight, b.weight = nn.Parameter(base[:64].view(8, 8)), nn.Parameter(base[64:].view(8, 8))


def misaligned(scene):
    base = torch.zeros(65)
    base[1:] = scene.model.a.weight.detach().flatten()
    scene.model.a.weight = nn.Parameter(base[1:].view(8, 8))


def scaled(scene):
    with torch.no_grad():
        scene.model.a.weight.mul_(3)


model("other weights", change=scaled, restores=True)
model("weights tied", change=lambda s: setattr(s.model.a, "weight", s.model.b.weight))
model("modules tied", change=lambda s: setattr(s.model, "a", s.model.b))
model("blocks tied", change=lambda s: s.model.blocks.__setitem__(0, s.model.blocks[1]))
model("a block replaced by an identity", change=lambda s: s.model.blocks.__setitem__(0, nn.Identity()))
model("a submodule replaced", change=lambda s: setattr(s.model, "a", nn.Sequential(nn.Linear(8, 8))))
model("a weight's strides", change=noncontiguous, agrees=True)
model("weights are views of one buffer", change=views_of_one, agrees=True)
model("a weight is not aligned", change=misaligned, agrees=True)
model("a bias is gone", change=lambda s: s.model.a.register_parameter("bias", None))
model("a parameter wants a gradient", change=lambda s: s.model.a.weight.requires_grad_(), agrees=True)
model("a buffer's dtype", change=lambda s: setattr(s.model, "buf", s.model.buf.double()))
model("a buffer's shape", change=lambda s: setattr(s.model, "buf", torch.ones(1) * 3))
model("train()", change=lambda s: s.model.train(), random=True)
model("a submodule in training", change=lambda s: s.model.drop.train(), random=True)
model("double()", change=lambda s: (s.model.double(), setattr(s, "args", (s.args[0].double(),))))

# -- inputs
model("another dtype", change=lambda s: setattr(s, "args", (s.args[0].bfloat16(),)))
model("another batch", change=args(lambda: (torch.ones(5, 8),)))
model("another number of dimensions", change=args(lambda: (torch.ones(2, 4, 8),)))
model("another stride", change=args(lambda: (torch.ones(8, 4).t(),)), agrees=True)
model(
    "another offset", change=lambda s: setattr(s, "args", (torch.cat([torch.ones(1, 8), s.args[0]])[1:],)), agrees=True
)
model("gradients wanted", change=lambda s: s.args[0].requires_grad_(), agrees=True)
model("an empty batch", change=args(lambda: (torch.ones(0, 8),)))
model("a batch of one", change=args(lambda: (torch.ones(1, 8),)))
model("a static mark", change=lambda s: torch._dynamo.mark_static(s.args[0], 0), agrees=True)
model("a parameter as input", change=lambda s: setattr(s, "args", (nn.Parameter(s.args[0]),)), agrees=True)

# -- numbers of hooks, which a counter of the process gives
HOOKED = """
import torch
from torch import nn
def half(m, i, o): return o / 2
def twice(m, i, kwargs, o): return o * 2
class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(8, 8)
        self.hooked()
    def hooked(self):
        self.handles = [self.a.register_forward_hook(half), self.a.register_forward_hook(twice, with_kwargs=True)]
    def forward(self, x): return self.a(x)
class Counts(MLP):
    def forward(self, x):
        for key in self.a._forward_hooks: x = x * (key + 1)
        return x
counts = Counts()
def run(x): return counts(x)
"""


def again(module, swapped=False):
    """The same hooks under other numbers, or in the other order."""
    for handle in module.handles:
        handle.remove()
    if swapped:
        module.handles = [module.a.register_forward_hook(lambda m, i, k, o: o * 2, with_kwargs=True)]
    module.hooked()


put(
    "hooks: other numbers",
    HOOKED,
    "model",
    args=lambda: (torch.randn(4, 8),),
    change=lambda s: again(s.model),
    agrees=True,
)


def named(module):
    """A table of the program's own that is called like one of torch's."""
    module.a._event_hooks = {"before": half_of, 0: half_of}


def half_of(x):
    return x / 2


put("hooks: a table of the program's", HOOKED, "model", args=lambda: (torch.randn(4, 8),), agrees=True,
    change=lambda s: named(s.model))  # fmt: skip
put("hooks: one more before", HOOKED, "model", args=lambda: (torch.randn(4, 8),), change=lambda s: again(s.model, True))
put("hooks: code reads numbers", HOOKED, "run", args=lambda: (torch.randn(4, 8),), change=lambda s: again(s.m.counts))

# -- a tensor of a module that another frame's trace marked as static: that one went through it, and did not keep it
ANCHORED = """
import torch
from torch import nn
class Anchors(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = [torch.arange(4.0), torch.arange(4.0) * 2]
    def forward(self, x):
        y = x * self.cells[0]
        torch._dynamo.graph_break()
        self.cells = [cell.to(y.dtype) for cell in self.cells]
        return y + self.cells[1]
class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Anchors()
    def forward(self, x): return self.a(x.sin()).cos()
WHOLE = Whole()
def run(x): return WHOLE(x)
"""
put("marks: of another frame", ANCHORED, "run", since=(2, 12), change=lambda s: None, agrees=True, restores=True)
put("marks: another tensor", ANCHORED, "run", since=(2, 12), change=lambda s: s.m.WHOLE.a.cells.reverse())
put("marks: by hand", ANCHORED, "run", since=(2, 12), agrees=True,
    change=lambda s: torch._dynamo.mark_static_address(s.m.WHOLE.a.cells[1]))  # fmt: skip
