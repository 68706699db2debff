"""Probes of optimizers: their steps are compiled with parameters and state as parts of the graph."""

from __future__ import annotations

import torch
from probe import put, set_

SOURCE = """
import torch
class Mine(torch.optim.Optimizer):
    FACTOR = 0.5
    def __init__(self, params): super().__init__(params, {"lr": 0.1})
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state: state["sum"] = torch.zeros_like(p)
                with torch.no_grad():
                    state["sum"].add_(p.grad * self.FACTOR)
                    p.sub_(state["sum"] * group["lr"])
def made(*shapes):
    found = [torch.nn.Parameter(torch.arange(1.0, 1 + n)) for n in shapes]
    for number, one in enumerate(found): one.grad = torch.full_like(one, 1.0 + number)
    return found
def values(): return torch.cat([one.detach().flatten() for one in PARAMS])
PARAMS = made(4, 3, 4)
ADAM = torch.optim.AdamW(PARAMS[:2], lr=0.1, foreach=False)
ADAM.add_param_group({"params": PARAMS[2:], "lr": 0.3})
SGD = torch.optim.SGD(PARAMS, lr=0.1, momentum=0.9, foreach=False)
RATE = torch.tensor(0.1)
TENSOR = torch.optim.Adam(PARAMS, lr=RATE, foreach=False)
FACTOR = torch.optim.Adafactor(PARAMS, lr=0.1)
SCHEDULED = torch.optim.SGD(PARAMS, lr=0.1, momentum=0.9)
SCHEDULER = torch.optim.lr_scheduler.ConstantLR(SCHEDULED, factor=0.5)
MINE = Mine(PARAMS)
SCALAR = torch.nn.Parameter(torch.tensor(3.0))
SCALAR.grad = torch.tensor(2.0)
RATES = torch.optim.Adam([SCALAR], lr=0.1, foreach=False)
class Own(torch.optim.Optimizer):
    def _init_group(self): self.made = True
    def step(self):
        self._init_group()
        with torch.no_grad():
            for p in self.param_groups[0]["params"]: p.sub_(p.grad)
OWN = Own(PARAMS, {})
MUON = torch.optim.Muon([torch.nn.Parameter(torch.ones(2, 2))], lr=0.1)
MUON.param_groups[0]["params"][0].grad = torch.ones(2, 2)
GO = True
def muon(x):
    if GO: MUON.step()
    return x * 2
def scalar(x): RATES.step(); return SCALAR.detach() + x.sum()
def own(x): OWN.step(); return values() + x.sum()
def adam(x): ADAM.step(); return values() + x.sum()
def sgd(x): SGD.step(); return values() + x.sum()
def tensor(x): TENSOR.step(); return values() + x.sum()
def factor(x): FACTOR.step(); return values() + x.sum()
def scheduled(x): SCHEDULED.step(); return values() + x.sum()
def mine(x): MINE.step(); return values() + x.sum()
STATIC, OTHER = torch.full((4,), 2.0), torch.full((4,), 2.0)
for one in (STATIC, OTHER): torch._dynamo.mark_static_address(one, guard=True)
def static(x): return x * STATIC
def two(x): return x * STATIC + OTHER
def written(x): STATIC.add_(x); return STATIC * 2
def both(x): SGD.step(); ADAM.step(); return values() + x.sum()
def zeroed(x): SGD.step(); SGD.zero_grad(); return values() + x.sum()
def whole(x):
    PARAMS[0].grad = None; (PARAMS[0] * x).sum().backward()
    SGD.step(); return values()
"""
OPTIMIZERS = {"adam": "ADAM", "sgd": "SGD", "scheduled": "SCHEDULED", "mine": "MINE"}


def optimizer(entry, name, **more):
    """On 2.11 torch's wrapper around `step` is traced: it resumes in a function with a closure."""
    more |= {"as_is": True, "args": lambda scene: (torch.arange(4.0),), "since": (2, 12)}
    put(f"optimizers: {entry}, {name}", SOURCE, entry, **more)


def group(entry, key, value, number=0):
    """Another value in a group of parameters."""

    def change(scene):
        getattr(scene.m, OPTIMIZERS[entry]).param_groups[number][key] = value

    return change


def warmed(kind="exp_avg", change=lambda state: state):
    """Of a state that was there before, as from a checkpoint."""

    def apply(scene):
        for one in (scene.m.ADAM, scene.m.SGD):
            one.step()
            for held in one.state.values():
                for key in list(held):
                    if key == kind:
                        held[key] = change(held[key])

    return apply


def frozen(scene):
    scene.m.PARAMS[1].grad = None


def tied(scene):
    scene.m.SGD.param_groups[0]["params"][2] = scene.m.PARAMS[0]


def reordered(scene):
    scene.m.SGD.param_groups[0]["params"].reverse()


def patched(scene):
    inner = scene.m.SGD._init_group

    def doubled(group, params, *rest):
        found = inner(group, params, *rest)
        for one in params:
            one.grad.mul_(2.0)
        return found

    scene.m.SGD._init_group = doubled


def post_hook(scene):
    scene.m.SGD.register_step_post_hook(lambda optimizer, *_: scene.m.PARAMS[0].data.zero_())


def another_gradient(scene):
    scene.m.PARAMS[0].grad = torch.full((4,), 9.0)


def sorted_keys(scene):
    """As a checkpoint that another tool wrote."""
    scene.m.RATES.step()
    for one, held in scene.m.RATES.state.items():
        scene.m.RATES.state[one] = {key: held[key] for key in sorted(held)}


def half(scene):
    scene.m.PARAMS[0].data = scene.m.PARAMS[0].data.double()
    scene.m.PARAMS[0].grad = scene.m.PARAMS[0].grad.double()


def shared(scene):
    scene.m.PARAMS[2].data = scene.m.PARAMS[0].data


def shifted(scene):
    scene.m.PARAMS[0].data = torch.arange(0.0, 5.0)[1:]


def another(scene):
    params = scene.m.PARAMS
    scene.m.SGD = torch.optim.SGD(params, lr=0.1, momentum=0.9, foreach=False)


def other_numbers(scene):
    for one in scene.m.PARAMS:
        one.data.mul_(3.0)


def replaced_rate(scene):
    scene.m.TENSOR.param_groups[0]["lr"] = torch.tensor(0.7)


NOTHING = {"change": lambda scene: None, "agrees": True, "restores": True, "after": False}
for entry in ("adam", "sgd", "tensor", "factor", "mine", "both", "zeroed"):
    optimizer(entry, "nothing", **NOTHING)
for entry in ("adam", "sgd", "factor", "scheduled", "mine", "both", "whole"):
    optimizer(entry, "other parameters", change=other_numbers, after=False)
for entry in ("adam", "sgd", "mine"):
    optimizer(entry, "another rate", change=group(entry, "lr", 0.7))
optimizer("tensor", "another rate", change=lambda scene: scene.m.RATE.fill_(0.7))
optimizer("tensor", "a rate in another tensor", change=replaced_rate)
optimizer("adam", "another rate of the second group", change=group("adam", "lr", 0.7, 1))
optimizer("adam", "amsgrad", change=group("adam", "amsgrad", True), agrees=True, after=False)
optimizer("adam", "maximize", change=group("adam", "maximize", True))
optimizer("adam", "betas", change=group("adam", "betas", (0.5, 0.6)), agrees=True)
optimizer("sgd", "nesterov", change=group("sgd", "nesterov", True))
optimizer("sgd", "no momentum", change=group("sgd", "momentum", 0), agrees=True)
optimizer("scheduled", "another rate", change=group("scheduled", "lr", 0.7))
optimizer("mine", "an attribute of its class", change=set_("m.Mine.FACTOR", 4.0))
optimizer("sgd", "another optimizer", change=another, agrees=True, after=False)
optimizer("sgd", "a parameter without gradient", change=frozen)
optimizer("adam", "a parameter without gradient", change=frozen)
optimizer("sgd", "parameters that are one", change=tied)
optimizer("sgd", "parameters in another order", change=reordered, agrees=True)
optimizer("sgd", "parameters that share memory", change=shared, after=False)
optimizer("sgd", "a parameter that lies elsewhere", change=shifted, agrees=True, after=False)
optimizer("sgd", "another dtype", change=half, agrees=True, after=False)
optimizer("sgd", "another gradient", change=another_gradient, after=False)
optimizer("sgd", "how its state is made", change=patched, after=False)
optimizer("sgd", "a hook after each step", change=post_hook)
optimizer("scalar", "state in another order", change=sorted_keys, agrees=True, after=False)
optimizer("scalar", "nothing", **NOTHING)
optimizer("own", "nothing", change=lambda scene: None, agrees=True, refused="_init_group")
optimizer("muon", "no step", change=set_("m.GO", False), agrees=True)
optimizer("adam", "state that is there", change=warmed(), after=False)
optimizer("sgd", "state that is there", change=warmed("momentum_buffer"), after=False)
optimizer("adam", "state of another dtype", change=warmed("exp_avg", torch.Tensor.double), agrees=True, after=False)
optimizer("adam", "state that is no tensor", change=warmed("step", float), agrees=True, after=False)
optimizer("adam", "state in another memory", change=warmed("exp_avg", lambda x: x[::1].clone()), after=False)

# -- tensors of which a program says that they stay where they are


def aliased(scene):
    scene.m.OTHER = scene.m.STATIC


def overlapping(scene):
    scene.m.OTHER = scene.m.STATIC.view(4)
    torch._dynamo.mark_static_address(scene.m.OTHER, guard=True)


def unmarked(scene):
    scene.m.STATIC = torch.full((4,), 5.0)


for entry in ("static", "two", "written"):
    optimizer(entry, "nothing", **NOTHING)
    optimizer(entry, "other numbers", change=lambda scene: scene.m.STATIC.fill_(7.0), restores=True, after=False)
optimizer("static", "not marked", change=unmarked)
optimizer("static", "another dtype", change=set_("m.STATIC", torch.full((4,), 5.0).double()))
optimizer("two", "they are one", change=aliased, agrees=True)
optimizer("two", "they lie in one memory", change=overlapping, agrees=True, after=False)
