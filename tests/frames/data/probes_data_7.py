"""Found on torch 2.11 and 2.12: the text of a container, which Dynamo makes there of the live objects in it; `edit` is
what a config file gave. The last two are so on later ones, too.
"""

from __future__ import annotations

from probe import put

SOURCE = """
import argparse, collections, dataclasses, enum, types
import torch
from torch.utils._ordered_set import OrderedSet

WIDTH = 4
FIELD = "wide"

@dataclasses.dataclass
class Config:
    width: int = 4
@dataclasses.dataclass(frozen=True)
class Frozen:
    width: int = 4
@dataclasses.dataclass(frozen=True)
class Value:
    width: int = 4
class Kind(enum.Enum):
    A = Value(WIDTH)
class Part(enum.Enum):
    A = (1, slice(0, Value(WIDTH)))
class Wrong(Exception):
    pass
class Remainder:
    def __mod__(self, other): return [Config(WIDTH), other]
class Table(dict):
    pass

TABLE = {"main": Config(WIDTH)}
FROZEN = {Frozen(WIDTH): 1}
SPACE = {"main": types.SimpleNamespace(width=WIDTH)}
ARGS = {"main": argparse.Namespace(width=WIDTH)}
LINEAR = {"main": torch.nn.Linear(WIDTH, 2)}
NESTED = {"a": [{"b": (Config(WIDTH),)}]}
DEFAULTS = collections.defaultdict(int, main=Config(WIDTH))
ORDERED = collections.OrderedDict(main=Config(WIDTH))
OWN = Table(main=Config(WIDTH))
PROXY = types.MappingProxyType(TABLE)
LISTED = [Config(WIDTH)]
NAMES = OrderedSet([FIELD, "narrow"])
BROKEN = {"main": ValueError("width", WIDTH)}
WRONG = {"main": Wrong(Value(WIDTH))}
REMAINDER = Remainder()
LOOP = [WIDTH]
LOOP.append(LOOP)

def digits(x, text): return x * sum(map(ord, text))
def in_dict(x): return digits(x, repr(TABLE))
def in_dict_as_text(x): return digits(x, str(TABLE))
def in_format(x): return digits(x, f"{TABLE!r}")
def in_percent(x): return digits(x, "%s" % (TABLE,))
def in_braces(x): return digits(x, "{}".format(TABLE))
def in_key(x): return digits(x, repr(FROZEN))
def in_space(x): return digits(x, repr(SPACE))
def in_arguments(x): return digits(x, repr(ARGS))
def in_module(x): return digits(x, repr(LINEAR))
def in_nested(x): return digits(x, repr(NESTED))
def in_defaults(x): return digits(x, repr(DEFAULTS))
def in_ordered(x): return digits(x, repr(ORDERED))
def in_own(x): return digits(x, repr(OWN))
def in_proxy(x): return digits(x, repr(PROXY))
def in_list(x): return digits(x, repr(LISTED))
def in_set(x): return digits(x, repr({Frozen(WIDTH)}))
def in_values(x): return digits(x, repr(TABLE.values()))
def in_items(x): return digits(x, f"{TABLE.items()!r}")
def in_local(x): return digits(x, repr({"main": TABLE["main"]}))
def in_options(x): return of_options(x, main=TABLE["main"])
def of_options(x, **options): return digits(x, repr(options))
def as_key(x): return x * {"{'main': Config(width=4)}": 2.0}.get(repr(TABLE), 3.0)
def member(x): return digits(x, repr(Kind.A))
def member_by_percent(x): return digits(x, "%r" % (Kind.A,))
def member_in_dict(x): return digits(x, repr({"kind": Kind.A}))
def member_in_tuple(x): return digits(x, repr((Kind.A, 1)))
def member_with_slice(x): return digits(x, repr(Part.A))
def in_exception(x): return digits(x, repr(BROKEN))
def in_own_exception(x): return digits(x, repr(WRONG))
def no_text(x): return x * (REMAINDER % WIDTH)[1]
def in_itself(x): return digits(x, repr(LOOP))
def ordered_set(x): return digits(x, repr(NAMES))
"""

ENTRIES = """
    in_dict in_dict_as_text in_format in_percent in_braces in_key in_space in_arguments in_module in_nested in_defaults
    in_ordered in_own in_proxy in_list in_set in_values in_items in_local in_options as_key member member_by_percent
    member_in_dict member_in_tuple member_with_slice in_exception in_own_exception no_text in_itself
""".split()
for entry in ENTRIES:
    put(f"d8: {entry}", SOURCE, entry, edit=("WIDTH = 4\n", "WIDTH = 4000\n"))
put("d8: ordered_set", SOURCE, "ordered_set", edit=('FIELD = "wide"', 'FIELD = "broad"'))
