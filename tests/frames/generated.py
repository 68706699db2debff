"""Random programs of helpers, closures, tables and layers, and one random edit of each. Runs one step of a pair."""

from __future__ import annotations

import random
import re
import warnings
from typing import Any

import steps
import torch

_OPERATIONS = (
    "x + {}",
    "x * {}",
    "x - {}",
    "torch.relu(x) + {}",
    "torch.sigmoid(x * {})",
    "x.mul({})",
    "x / (1.5 + {})",
)


def program(seed: int) -> str:
    """A module with `MLP`. Every number is written with one digit behind the point, so that an edit finds it."""
    chance = random.Random(seed)

    def number() -> str:
        return f"{chance.randint(1, 40) / 10:.1f}"

    lines = ["import functools, torch", "from torch import nn"]
    values = []
    for n in range(chance.randint(1, 3)):
        lines.append(f"C{n} = {number()}")
        values.append(f"C{n}")
    lines += [f"D = {{'a': {number()}, 'b': {number()}}}", f"L = [{number()}, {number()}]", f"T = ({number()}, 'mean')"]
    values += ["D['a']", "D.get('b', 1.0)", "D.get('c', 2.0)", "L[0]", "len(L)", "T[0]", "sum(L)", "max(D.values())"]
    lines += [
        "class Config:",
        f"    width = {number()}",
        f"    def __init__(self): self.depth = {number()}",
        "CFG = Config()",
    ]
    values += ["CFG.width", "CFG.depth", "getattr(CFG, 'other', 1.0)"]
    lines += [
        "def make(k):",
        f"    def inner(x): return x * k + {number()}",
        "    return inner",
        f"clo = make({number()})",
    ]
    lines += ["def twice(f):", "    @functools.wraps(f)", f"    def w(x): return f(f(x)) * {number()}", "    return w"]
    helpers = ["clo"]
    for n in range(chance.randint(2, 4)):
        body = chance.choice(_OPERATIONS).format(chance.choice([*values, "k", number()]))
        if chance.random() < 0.3:
            lines.append("@twice")
        lines.append(f"def h{n}(x, k={number()}):")
        if chance.random() < 0.3:
            lines.append(f"    if {chance.choice(values)} > {number()}: return x - {number()}")
        if chance.random() < 0.5:
            lines.append(f"    x = {chance.choice(helpers)}(x)")
        lines.append(f"    return {body}")
        helpers.append(f"h{n}")
    lines += ["class Layer(nn.Module):", f"    SCALE = {number()}"]
    lines += ["    def __init__(self, i):", "        super().__init__()", f"        self.i = i; self.gain = {number()}"]
    lines += ["        self.lin = nn.Linear(4, 4)", f"        self.opts = {{'p': {number()}}}"]
    lines += ["    @property", f"    def factor(self): return self.gain * {number()}"]
    lines += ["    @staticmethod", f"    def shift(x): return x + {number()}"]
    lines += ["    def forward(self, x):"]
    for _ in range(chance.randint(2, 5)):
        lines.append(
            "        "
            + chance.choice(
                [
                    f"x = {chance.choice(helpers)}(x)",
                    "x = self.lin(x) * self.SCALE",
                    "x = x * self.factor",
                    "x = self.shift(x)",
                    "x = x + self.opts['p']",
                    f"x = x * {chance.choice(values)}",
                    f"x = x if self.i > {chance.randint(0, 1)} else x * {number()}",
                    "x = x * (2.0 if hasattr(self, 'extra') else 1.0)",
                    "for v in L: x = x + v",
                ]
            )
        )
    lines += ["        return x", "class MLP(nn.Module):", "    def __init__(self):", "        super().__init__()"]
    lines += [
        "        torch.manual_seed(0)",
        f"        self.layers = nn.ModuleList([Layer(i) for i in range({chance.randint(1, 2)})])",
    ]
    lines += ["    def forward(self, x):", "        for layer in self.layers: x = layer(x)"]
    if chance.random() < 0.3:
        lines.append("        print(end='')")
    lines += [f"        return x * {number()}"]
    return "\n".join(lines) + "\n"


def edited(source: str, seed: int) -> str:
    """One change: a number, an operation, a comparison, or something that is added."""
    chance = random.Random(seed)
    kinds = [r"\d\.\d", r" [+*-] ", " > ", "relu|sigmoid"]
    found = [match for kind in kinds for match in re.finditer(kind, source)]
    at = chance.choice(found)
    was = at[0]
    now = {" + ": " - ", " - ": " + ", " * ": " - ", " > ": " < ", "relu": "sigmoid", "sigmoid": "relu"}.get(was)
    if chance.random() < 0.15:
        return source + chance.choice(["D['c'] = 3.5\n", "CFG.other = 3.5\n", "L.append(3.5)\n", "Layer.extra = 1\n"])
    return source[: at.start()] + (now or f"{(float(was) * 10 + 7) % 50 / 10:.1f}") + source[at.end() :]


def main(task: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(1)
    torch._inductor.config.fallback_by_default = True
    warnings.simplefilter("ignore")
    source = program(task["seed"])
    if task["step"] == "changed":
        source = edited(source, task["edit"])
    module = steps.load(task["home"], source, task["name"])
    model = module.MLP().eval().requires_grad_(False)
    torch.manual_seed(1)
    x = torch.randn(3, 4)
    found = {"got": steps.call(model, (x,), "warmgraph"), "events": steps.events(), "source": source}
    if task["step"] == "changed":
        torch._dynamo.reset()
        found["want"] = steps.call(model, (x,), "inductor")
    return found
