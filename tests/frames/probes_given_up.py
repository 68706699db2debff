"""Probes of frames that Dynamo gives up while it traces them, and runs as they are: a graph break in a loop."""

from __future__ import annotations

import torch
from probe import args, put, set_

SOURCE = """
import contextlib, os, torch
SCALE = 2.0
BREAKS = True
LAYERS = 2
TABLE = {"b": 1.0}
class Quiet:
    def __enter__(self): return self
    def __exit__(self, *raised): return False
def stops(x):
    if BREAKS: torch._dynamo.graph_break()
    return x * SCALE
def loop(x):
    for number in range(LAYERS):
        x = stops(x) + number
    return x
def attempt(x):
    try:
        y = x + 1
        torch._dynamo.graph_break()
        y = y * 2
    finally:
        x = x * 3
    return y + x
def within(x):
    with Quiet():
        y = x + SCALE
        torch._dynamo.graph_break()
    return y * 2
def by_value(x, stop=1.0):
    for number in range(2):
        x = x + number
        if x.sum() > stop: x = x * 2
    return x
def by_argument(x, often=2):
    for number in range(often):
        x = x + number
        if often > 2: torch._dynamo.graph_break()
    return x
def by_environment(x):
    for number in range(2):
        if os.environ.get("WG_GIVEN_UP") != "no": torch._dynamo.graph_break()
        x = x + number
    return x
def by_table(x):
    for name in TABLE:
        if name == "b": torch._dynamo.graph_break()
        x = x + TABLE[name]
    return x
def by_print(x):
    for number in range(2):
        print(end="")
        x = x + (10 if torch.compiler.is_compiling() else number)
    return x
def by_fake(x):
    for number in range(2):
        if x.sinh().dtype is torch.float32: torch._dynamo.graph_break()
        x = x + (10 if torch.compiler.is_compiling() else number)
    return x
def by_rest(x, *rest):
    for one in rest:
        if one is not None and len(one) > 1: torch._dynamo.graph_break()
        x = x + (0 if one is None else len(one))
    return x
def calls(x):
    return loop(x) * SCALE
class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)])
        self.stops = True
        for parameter in self.parameters(): torch.nn.init.constant_(parameter, 0.5)
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            if self.stops: torch._dynamo.graph_break()
        return x
"""


def given_up(entry, name="nothing", **more):
    put(f"given up: {entry}, {name}", SOURCE, entry, **more)


for entry in ("loop", "attempt", "within", "by_value", "by_environment", "by_table", "calls", "model"):
    given_up(entry, restores=True, agrees=True)
# What made Dynamo give up is gone: the frame is compiled, as it would be without a record.
given_up("loop", "no break", change=set_("m.BREAKS", False), seen=True)
given_up("by_table", "no break", change=lambda scene: scene.m.TABLE.update(a=scene.m.TABLE.pop("b")), seen=True)
given_up("by_environment", "no break", change=lambda s: s.m.os.environ.__setitem__("WG_GIVEN_UP", "no"), seen=True)
given_up("model", "no break", change=set_("model.stops", False), seen=True)
given_up("by_argument", "no break", args=lambda s=None: (torch.ones(4), 3), change=args(lambda: (torch.ones(4), 2)))
given_up("by_argument", "a break", args=lambda s=None: (torch.ones(4), 2), change=args(lambda: (torch.ones(4), 3)))
given_up("loop", "a number", change=set_("m.SCALE", 3.0))
given_up("within", "a number", change=set_("m.SCALE", 3.0))
given_up("loop", "how often", change=set_("m.LAYERS", 3))
given_up("loop", "other code", edit=("stops(x) + number", "stops(x) - number"))
given_up("by_value", "a value", args=lambda s=None: (torch.ones(4), 1.0), change=args(lambda: (torch.ones(4), 99.0)))
given_up(
    "by_rest", "no length", args=lambda s=None: (torch.ones(4), [1, 2]), change=args(lambda: (torch.ones(4), None))
)


def _print_is_traced(scene):
    variables = torch._dynamo.variables
    variables.BuiltinVariable.call_print = lambda self, tx, *args, **named: variables.ConstantVariable.create(None)


def _sinh_gives_doubles(scene):
    impl = torch._subclasses.fake_impls.register_op_impl
    impl(torch.ops.aten.sinh.default)(lambda mode, operator, x: x.new_empty(x.shape, dtype=torch.float64))


given_up("by_print", "Dynamo traces it", change=_print_is_traced)
given_up("by_fake", "torch says another dtype", change=_sinh_gives_doubles)
given_up("loop", "nothing is cached", change=set_("m.torch.compiler.config.force_disable_caches", True), seen=True)
given_up("model", "weights", change=lambda s: s.model.layers[0].weight.data.fill_(2.0))
