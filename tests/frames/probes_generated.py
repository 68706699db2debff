"""Probes of code whose globals are no module's: what `exec` made, graphs of torch.fx in modules, exported modules."""

from __future__ import annotations

import torch
from probe import put

SOURCE = """
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
