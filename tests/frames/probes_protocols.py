"""Protocols (`typing.runtime_checkable`): Python answers `isinstance` by the names that objects have. And classes whose
`__hash__` runs while torch walks over modules.
"""

import operator

from probe import put, set_

SOURCE = """
import abc, array, decimal, functools, numbers, torch, typing, typing_extensions
import numpy as np
from torch.distributed.checkpoint import stateful
from torch.distributed.checkpoint.stateful import Stateful
@typing.runtime_checkable
class HasRun(typing.Protocol):
    def run(self): ...
@typing.runtime_checkable
class HasGain(typing.Protocol):
    gain: float
class Stops(HasRun, typing.Protocol):  # runtime-checkable as what it inherits is
    def stop(self): ...
class Thing:
    def run(self): return 1
class Other: pass
class Nominal(HasRun): pass
class Plain(typing.Protocol):
    pass
class Inherits(Plain, abc.ABC):
    factor = 3.0
class Extended(typing_extensions.Protocol):
    pass
class InheritsExtended(Extended):
    factor = 3.0
THING, OTHER, NOMINAL, INHERITS, EXTENDED = Thing(), Other(), Nominal(), Inherits(), InheritsExtended()
LINEAR = torch.nn.Linear(4, 4)
def has(x): return x * 5 if isinstance(THING, HasRun) else x * 1.5
def lacks(x): return x * 5 if isinstance(OTHER, HasRun) else x * 1.5
def nominal(x): return x * 5 if isinstance(NOMINAL, HasRun) else x * 1.5
def gain(x): return x * 5 if isinstance(OTHER, HasGain) else x * 1.5
def of_module(x): return LINEAR(x) * 5 if isinstance(LINEAR, HasGain) else LINEAR(x) * 1.5
def of_class(x): return x * 5 if issubclass(Other, HasRun) else x * 1.5
def made(x):
    other = Other()
    return x * 5 if isinstance(other, HasRun) else x * 1.5
class Holds:
    def __init__(self): self.run = print
TABLE, HELD = {"a": Holds()}, [Holds()]
class Config:
    def __init__(self): self.one = Holds()
CONFIG = Config()
def of_table(x):
    for one in TABLE.values(): x = x * 5 if isinstance(one, HasRun) else x * 1.5
    return x
def of_items(x):
    for name, one in vars(CONFIG).items(): x = x * 5 if isinstance(one, HasRun) else x * 1.5
    return x
NESTED = {"within": [Holds()]}
def of_nested(x):
    for some in NESTED.values():
        for one in some: x = x * 5 if isinstance(one, HasRun) else x * 1.5
    return x
def of_list(x): return x * 5 if all(isinstance(one, HasRun) for one in HELD) else x * 1.5
class HoldsAll:
    def __init__(self): self.run = self.stop = self.state_dict = self.load_state_dict = print
ALL = HoldsAll()
def stops(x): return x * 5 if isinstance(ALL, Stops) else x * 1.5
is_a = isinstance
def alias(x): return x * 5 if is_a(ALL, HasRun) else x * 1.5
asks = functools.partial(isinstance, ALL, HasRun)
def partial(x): return x * 5 if asks() else x * 1.5
def of_torch(x): return x * 5 if isinstance(ALL, Stateful) else x * 1.5
def of_torchs_module(x): return x * 5 if isinstance(ALL, stateful.Stateful) else x * 1.5
class Number(abc.ABC): pass
EXACT, MANY = decimal.Decimal(3), array.array("d", [1.0])
def of_decimal(x): return x * 5 if isinstance(EXACT, Number) else x * 1.5
def of_real(x): return x * 5 if isinstance(EXACT, numbers.Real) else x * 1.5
def of_array(x): return x * 5 if isinstance(MANY, Number) else x * 1.5
def of_cython(x): return x * 5 if issubclass(np.random.SeedSequence, Number) else x * 1.5
def inherits_extended(x): return x * EXTENDED.factor if isinstance(EXTENDED, InheritsExtended) else x
def inherits(x): return x * INHERITS.factor if isinstance(INHERITS, Inherits) else x
"""
WALKS = """
import torch
class Metric(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(4))
    def __hash__(self): return hash((type(self).__name__, id(self)))
    def forward(self, x): return x * self.scale
METRIC = torch.nn.Sequential(Metric())
def walks(x): return METRIC(x) * 2
def asks(x): return METRIC(x) * (hash(METRIC[0]) % 7 + 1)
"""


def protocol(entry, name, **more):
    put(f"protocols: {entry}, {name}", SOURCE, entry, **more)


def none_in(path):
    """In the first of what is held there, or in what is there."""

    def change(scene):
        held = scene
        for part in path.split("."):
            held = getattr(held, part)
        while isinstance(held, (dict, list)):
            held = next(iter(held.values())) if isinstance(held, dict) else held[0]
        held.run = None

    return change


def without_run(scene):
    del scene.m.Thing.run


def registered(path):
    """With a class of the program's, which no import does."""
    return lambda scene: scene.m.Number.register(operator.attrgetter(path)(scene.m))


def another_protocol(scene):
    """As an import brings some."""
    for module in ("typing", "typing_extensions"):
        exec(f"import {module} as t\n@t.runtime_checkable\nclass Late(t.Protocol):\n    def late(self): ...", {})


protocol("has", "a method is None", change=set_("m.Thing.run", None), after=False)
protocol("has", "it is gone", change=without_run, after=False)
protocol("has", "it is called otherwise", edit=("def run(self): return 1", "def runs(self): return 1"))
protocol(
    "has", "the protocol asks for more", edit=("def run(self): ...", "def run(self): ...\n    def stop(self): ...")
)
protocol("has", "no method of Python's", change=set_("m.Thing.run", 5.0), agrees=True, after=False)
protocol("lacks", "an object has it", change=set_("m.OTHER.run", print), after=False)
protocol("lacks", "a class has it", change=set_("m.Other.run", print), after=False)
protocol("lacks", "it is registered", edit=("THING, OTHER", "HasRun.register(Other); THING, OTHER"))
protocol("nominal", "it inherits no more", edit=("class Nominal(HasRun): pass", "class Nominal: pass"))
protocol("gain", "an object has it", change=set_("m.OTHER.gain", 2.0), after=False)
protocol("of_module", "a module has it", change=set_("m.LINEAR.gain", 2.0), after=False)
protocol("of_module", "torch's class has it", edit=("LINEAR = ", "torch.nn.Linear.gain = 2.0; LINEAR = "))
protocol("of_class", "a class has it", change=set_("m.Other.run", print), after=False)
protocol("made", "a class has it", change=set_("m.Other.run", print), after=False)
for entry, path in (
    ("of_nested", "m.NESTED"),
    ("of_table", "m.TABLE"),
    ("of_list", "m.HELD"),
    ("of_items", "m.CONFIG.one"),
):
    protocol(entry, "a method is None", change=none_in(path), after=False, since=(2, 13))
for entry, name in (
    ("stops", "stop"),
    ("alias", "run"),
    ("partial", "run"),
    ("of_torch", "state_dict"),
    ("of_torchs_module", "state_dict"),
):
    protocol(entry, "a method is None", change=set_(f"m.ALL.{name}", None), after=False)
for entry, path in (
    ("of_decimal", "decimal.Decimal"),
    ("of_array", "array.array"),
    ("of_cython", "np.random.SeedSequence"),
):
    protocol(entry, "it is registered", change=registered(path), after=False)
protocol(
    "of_real",
    "it is registered",
    change=lambda scene: scene.m.numbers.Real.register(scene.m.decimal.Decimal),
    after=False,
)
protocol("inherits", "another protocol", change=another_protocol, restores=True)
protocol("inherits_extended", "another protocol", change=another_protocol, restores=True)
put("protocols: walks, nothing", WALKS, "walks", change=lambda scene: None, restores=True)
put(
    "protocols: asks, nothing",
    WALKS,
    "asks",
    change=lambda scene: None,
    agrees=True,
    random=True,
    refused="the identity of",
)
