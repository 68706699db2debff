"""Probes of tables and sets whose keys are objects: of frozen dataclasses, named tuples of the user's."""

from __future__ import annotations

from probe import put

SOURCE = """
import dataclasses
from typing import NamedTuple
@dataclasses.dataclass(frozen=True)
class Key:
    a: int
    b: str = "x"
    c: object = dataclasses.field(default=None, compare=False)
@dataclasses.dataclass(frozen=True)
class Own:
    a: int
    def __hash__(self): return 1
    def __eq__(self, other): return self.a == other.a
class Pair(NamedTuple):
    a: int
    b: int
class Point(Pair): pass
FIRST, SECOND = Key(1), Key(2)
TABLE = {FIRST: 2.0, SECOND: 3.0}
ASKED = Key(1)
def looked_up(x): return x * TABLE.get(ASKED, 10.0)
def made_there(x): return x * TABLE.get(Key(2), 10.0)
def gone_over(x):
    for key, value in TABLE.items(): x = x * key.a + value
    return x
def by_identity(x):
    for key in TABLE:
        if key is FIRST: return x + 1
    return x - 1
def uncompared(x):
    for key in TABLE: x = x + (0 if key.c is None else key.c)
    return x
PAIRS = {(FIRST, 2): 1.0}
def in_a_pair(x): return x + PAIRS.get((Key(1), 2), 9.0)
POINTS = {Point(1, 2): 3.0}
def named(x): return x * POINTS.get(Point(1, 2), 5.0)
SET = {Key(1), Key(2)}
def within(x): return x + 1 if Key(2) in SET else x - 1
import torch
FUNCTIONS = [torch.nested.nested_tensor, torch.sparse_coo_tensor, torch.relu, len]
def of_functions(x): return x * len({one for one in FUNCTIONS})
def table_of_functions(x): return x * {one: number + 1 for number, one in enumerate(FUNCTIONS)}[FUNCTIONS[2]]
OWN = {Own(1): 1.0}
def own(x): return x + OWN.get(Own(1), 9.0)
"""


def key(entry, name, **more):
    put(f"keys: {entry}, {name}", SOURCE, entry, **more)


def table(name, make):
    """Another table, or set, in the place of this one."""
    return lambda scene: setattr(scene.m, name, make(scene.m))


def moved(name, field, value):
    """Of the first key; a frozen dataclass can be changed all the same."""

    def change(scene):
        object.__setattr__(next(iter(getattr(scene.m, name))), field, value)

    return change


key("looked_up", "as it was", change=lambda s: None, restores=True)
key("looked_up", "made again", change=table("TABLE", lambda m: {m.FIRST: 2.0, m.SECOND: 3.0}), restores=True)
key("looked_up", "another asked for", change=table("ASKED", lambda m: m.Key(2)))
key("looked_up", "another is there", change=table("TABLE", lambda m: {m.Key(5): 2.0, m.SECOND: 3.0}))
key("looked_up", "one with a longer text", change=table("TABLE", lambda m: {m.Key(1, "xy"): 2.0, m.SECOND: 3.0}))
key("made_there", "one is gone", change=table("TABLE", lambda m: {m.FIRST: 2.0}))
key("gone_over", "another order", change=table("TABLE", lambda m: {m.SECOND: 3.0, m.FIRST: 2.0}))
key("gone_over", "a field changed in place", change=moved("TABLE", "a", 7))
key("by_identity", "an equal one", change=table("TABLE", lambda m: {m.Key(1): 2.0, m.SECOND: 3.0}))
key("uncompared", "another", change=table("TABLE", lambda m: {m.Key(1, "x", 7): 2.0, m.SECOND: 3.0}))
key("in_a_pair", "as it was", change=lambda s: None, restores=True)
key("in_a_pair", "another", change=table("PAIRS", lambda m: {(m.SECOND, 2): 1.0}))
key("named", "as it was", change=lambda s: None, restores=True)
key("named", "another", change=table("POINTS", lambda m: {m.Point(1, 3): 3.0}))
key("named", "of its base", change=table("POINTS", lambda m: {m.Pair(1, 2): 3.0}), agrees=True)
key("within", "another", change=table("SET", lambda m: {m.Key(1), m.Key(3)}))
key("own", "another", change=table("OWN", lambda m: {m.Own(3): 1.0}))
key("own", "what compares", edit=("self.a == other.a", "True"), agrees=True)

# Functions of C's, which Dynamo can hash as long as it has not looked at them; with fullgraph, where it would raise.
WHOLE = {"options": {"fullgraph": True}}
key("of_functions", "as it was", change=lambda s: None, restores=True, **WHOLE)
key(
    "of_functions",
    "one twice",
    change=table("FUNCTIONS", lambda m: [m.torch.relu, m.torch.sparse_coo_tensor, m.torch.relu, len]),
    **WHOLE,
)
key("table_of_functions", "as it was", change=lambda s: None, restores=True, **WHOLE)
key(
    "table_of_functions",
    "another order",
    change=table("FUNCTIONS", lambda m: [len, m.torch.relu, m.torch.sum, m.torch.sum]),
    **WHOLE,
)
