"""Probes of code whose globals are no module's: what `exec` made, graphs of torch.fx in modules, exported modules."""

from __future__ import annotations

import torch
from probe import put

SOURCE = """
import re
import torch
from torch import nn
def made(text, **space):
    exec(text, space)
    return space["f"]
def scaling(k):
    def scale(t): return t * k
    return scale
CODE = "def f(x): return helper(x) * K + TABLE['a']"
F = made(CODE, K=2.0, helper=scaling(3.0), TABLE={"a": 1.0})
def executed(x): return F(x) + 1
TRIES = made('''
def f(x):
    try: return x * EXTRA
    except NameError: return x * 3
''')
def tries(x): return TRIES(x) + 1
class Outer(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x): return self.inner(x) * 2
def graph(function, attr=1.0):
    made = torch.fx.Graph()
    x = made.placeholder("x")
    root = nn.Module()
    root.attr = attr
    made.output(made.call_function(torch.mul, (made.call_function(function, (x,)), made.get_attr("attr"))))
    return torch.fx.GraphModule(root, made)
G = Outer(graph(scaling(3.0)))
def within(x): return G(x)
TAGS = {"a": 2.0}
exec('''
def tagged(match): return str(int(TAGS[match.group(0)]))
class Lookup:
    def __class_getitem__(cls, key): return TAGS[key]
class Meta(type):
    def __getitem__(cls, key): return TAGS[key]
class Table(metaclass=Meta): pass
''')
def in_a_pattern(x): return x * int(re.sub("a", tagged, "a"))
def by_class(x): return x * Lookup["a"]
def by_metaclass(x): return x * Table["a"]
E = torch.export.export(Outer(nn.ReLU()), (torch.arange(4.0),)).module()
def exported(x): return E(x) + 1
"""


def generated(entry, name, **more):
    put(f"generated: {entry}, {name}", SOURCE, entry, **more)


def space(name, value):
    """Another value among the globals of what `exec` made."""
    return lambda scene: scene.m.F.__globals__.update({name: value})


def again(path, make):
    """Something made anew by functions of the scene."""

    def change(scene):
        setattr(scene.m, path, make(scene.m))

    return change


for entry in ("executed", "within", "exported"):
    generated(entry, "nothing", change=lambda scene: None, agrees=True, restores=entry != "exported", since=(2, 13))
generated("executed", "a global", change=space("K", 5.0))
generated("tries", "a name more", change=lambda scene: scene.m.TRIES.__globals__.update(EXTRA=5.0))
generated("executed", "what a table holds", change=lambda scene: scene.m.F.__globals__["TABLE"].update(a=7.0))
generated("executed", "what a helper holds", change=lambda scene: space("helper", scene.m.scaling(8.0))(scene))
generated("executed", "other code", change=lambda s: setattr(s.m, "F", s.m.made("def f(x): return x - 1")))
generated("within", "another graph", change=again("G", lambda m: m.Outer(m.graph(torch.relu, 2.0))))
generated("within", "what a function holds", change=again("G", lambda m: m.Outer(m.graph(m.scaling(4.0)))))
generated("within", "an attribute", change=again("G", lambda m: m.Outer(m.graph(m.scaling(3.0), 5.0))))
generated(
    "exported",
    "another one",
    change=again("E", lambda m: torch.export.export(m.Outer(torch.nn.Tanh()), (torch.arange(4.0),)).module()),
)

for entry in ("in_a_pattern", "by_class", "by_metaclass"):  # this code runs, and is not traced
    refused = "runs while it is traced"
    generated(entry, "what it reads", change=lambda scene: scene.m.TAGS.update(a=5.0), refused=refused)


ASKED = """
import functools, sys, types
class Settings(types.ModuleType):
    def __getattr__(self, name):
        try: return self.__dict__["_values"][name]
        except KeyError: raise AttributeError(name) from None
class Options: pass
settings, options, flags = Settings("wg_settings"), Options(), types.ModuleType("wg_flags")
settings._values = {"scale": 3.0}
options.fast = 3.0
flags.__getattr__ = functools.partial(getattr, options)
sys.modules |= {"wg_settings": settings, "wg_flags": flags}
def has(x): return x * 2 if hasattr(settings, "scale") else x
def has_not(x): return x * 2 if hasattr(settings, "other") else x + 1
def tries(x):
    try: settings.scale
    except AttributeError: return x + 1
    return x * 2
def has_by_c(x): return x * 2 if hasattr(flags, "fast") else x
def asks_by_c(x): return x * getattr(flags, "slow", 1.0)
"""


def asked(entry, name, **more):
    put(f"asked of a module: {entry}, {name}", ASKED, entry, **more)


for entry in ("has", "has_not", "tries", "has_by_c", "asks_by_c"):
    asked(entry, "nothing", change=lambda scene: None, restores=True)
asked("has", "it is gone", change=lambda scene: scene.m.settings._values.clear(), after=False)
asked("has_not", "it is there", change=lambda scene: scene.m.settings._values.update(other=1.0), after=False)
asked("tries", "it is gone", change=lambda scene: scene.m.settings._values.clear(), after=False)
asked("has_by_c", "it is gone", change=lambda scene: delattr(scene.m.options, "fast"), after=False)
asked("asks_by_c", "it is there", change=lambda scene: setattr(scene.m.options, "slow", 5.0), after=False)
