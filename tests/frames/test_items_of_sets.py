"""Sets of classes, functions and members of enums: Dynamo guards each item by its place, another in each process."""

from __future__ import annotations

import pytest

from .outcomes import OUTCOMES

ASKED = """
Kind.TWO in KINDS ; kind in KINDS ; kind not in FROZEN ; type(module) in CLASSES ; Helper in HELPER.classes
torch.Tensor.add in METHODS ; helped in FUNCTIONS ; KINDS == EQUAL ; kind in TABLE["kinds"] ; KINDS >= {kind}
kind in KINDS and type(module) in CLASSES ; len(CLASSES) == 5
[k for k in (Kind.ONE, Kind.FIVE) if k in KINDS] == [Kind.ONE] ; (kind, type(module)) in PAIRS
KINDS.issuperset([kind]) ; kind in KINDS | {Kind.FIVE} ; kind in KINDS - {Kind.ONE}
KINDS is not None and kind in KINDS ; KINDS != None and kind in KINDS ; bool(KINDS) and kind in KINDS
[ord(n[0]) for n in sorted(NAMES)]
[ord(n[0]) for n in sorted(NAMES, reverse=True)]
"""
GONE_OVER = """
Number.NINE in COLLIDING ; (Number.ONE, 1) in COLLIDING_PAIRS ; Longer in ODD ; kept_one in KEPT
[int(n) for n in COLLIDING] ; [*map(int, frozenset(COLLIDING))] ; [int(n) for n, _ in COLLIDING_PAIRS]
[c is Longer for c in ODD] ; [m() for m in BOUND] ; [f() for f in KEPT] ; [len(COLLIDING) * int(n) for n in MIXED]
[k.value for k in KINDS] ; [next(iter(KINDS)).value] ; [k.value for k in KINDS - {Kind.ONE}]
[len(c.__name__) for c in CLASSES] ; [k.value for k in KINDS & EQUAL] ; [k.value for k in {*KINDS}]
[set(KINDS).pop().value] ; [k.value for k in TABLE["kinds"]] ; [len(f.__name__) for f in FUNCTIONS]
[k.value for k in {k: 1 for k in KINDS}] ; [k.value for k in sorted(KINDS, key=len_of)] ; [k.value for k in FROZEN]
[k.value for k in FROZEN - {Kind.ONE}] ; [k.value for k in KINDS.copy()] ; [k.value for k in {Kind.SIX} | FROZEN]
[k.value for k in {Kind.SIX, Kind.TWO, Kind.ONE} & FROZEN] ; [next(iter(FROZEN.copy())).value]
[k.value for k in KINDS - OrderedSet([Kind.ONE])] ; [k.value for k in FROZEN - OrderedSet([Kind.ONE])]
[k.value for k in OrderedSet([Kind.TWO, Kind.ONE, Kind.FIVE]) - FROZEN]
[k.value for k in KINDS | OrderedSet([Kind.ONE])] ; [len(sorted(NOTING)), *NOTING.order]
[ord(n[0]) for n in sorted(NAMES, key=len)] ; ord(max(NAMES, key=len)[0]) ; ord(min(NAMES, key=len)[0])
sorted(ord(n[0]) * x.shape[0] for n in NAMES)
[m.__name__.__len__() for m in METHODS] ; [k.value for k, _ in PAIRS] ; [k.value for k in given_back()]
"""
PROGRAM = """
import enum, functools, json, os, warnings
warnings.simplefilter("ignore")
import torch, warmgraph
from torch.utils._ordered_set import OrderedSet
from warmgraph.cache import journal_dir, read, settings
torch._inductor.config.fallback_by_default = True
class Kind(enum.Enum):
    ONE, TWO, THREE, FOUR, FIVE, SIX = range(6)
class Helper: pass
class Longer(Helper): pass
def helped(): pass
def helped_more(): pass
def helped_most_of_all(): pass
KINDS, EQUAL = {Kind.ONE, Kind.TWO, Kind.THREE, Kind.FOUR}, {Kind.FOUR, Kind.THREE, Kind.TWO, Kind.ONE}
FROZEN = frozenset(KINDS)
CLASSES = {torch.nn.Linear, torch.nn.Conv2d, Helper, Longer, torch.nn.LayerNorm}
METHODS = {torch.Tensor.add, torch.Tensor.mul, torch.Tensor.clone, torch.Tensor.exp}
NAMES = {"query", "value", "gates", "other", "key"}
class Noting(set):
    def __iter__(self):
        self.order = [ord(n[0]) for n in set.__iter__(self)]
        return set.__iter__(self)
NOTING = Noting(NAMES)
FUNCTIONS = {helped, helped_more, helped_most_of_all}
class Number(enum.IntEnum): ONE, NINE, SEVENTEEN = 1, 9, 17
COLLIDING, COLLIDING_PAIRS, MIXED = set(), set(), set()  # they lie in the order in which they came
for number in (Number.ONE, Number.NINE, Number.SEVENTEEN)[:: int(os.environ["STEP"])]:
    COLLIDING.add(number)
    COLLIDING_PAIRS.add((number, 1))
    MIXED.update([number, int(number) + 24])
class Squares(torch.autograd.Function): pass
ODD = {Squares, Helper, Longer}  # one is no constant to Dynamo
class Methods:
    one, two, three = (classmethod(lambda cls, i=i: i) for i in (1, 2, 3))
BOUND = {Methods.one, Methods.two, Methods.three}
@functools.cache
def kept_one(): return 1
@functools.cache
def kept_two(): return 2
KEPT = {kept_one, kept_two}
PAIRS = {(Kind.ONE, torch.nn.Linear), (Kind.TWO, torch.nn.Conv2d), (Kind.THREE, Helper)}
TABLE = {"kinds": set(KINDS)}
CHANGED = {Helper, torch.nn.Linear, int}
HELPER = Helper()
HELPER.classes = {Helper, Longer, int}
def len_of(kind): return len(kind.name)
def given_back(): return KINDS - {Kind.TWO}
def weighed(x, found):
    for number in found if isinstance(found, list) else [found]: x = x * 3 + int(number)
    return x
def gives_rest(x, kind, module): return x + 1, CLASSES - {Helper}, METHODS & {torch.Tensor.add, torch.Tensor.exp}
def gives_more(x, kind, module): return x + 1, FUNCTIONS | {len_of}
def gives_one(x, kind, module): return x + 1, CLASSES - {torch.nn.Linear, Helper, Longer, torch.nn.Conv2d}
def gives_some(x, kind, module): return x + 1, {torch.nn.Linear, Helper} & CLASSES
def gives_first(x, kind, module): return x + 1, [c for c in (Longer, Helper) if c in CLASSES]
def gives_changed(x, kind, module):
    CHANGED.discard(Helper)
    CHANGED.add(Longer)
    return x + len(CHANGED), CHANGED
def gives_back(x, kind, module): return x + 1, KINDS - {Kind.FIVE}, [*KINDS][0]
CASES
found = {}
module = torch.nn.Linear(2, 2)
for name, case in sorted(globals().items()):
    if name.startswith(("case", "gives")):
        values = []
        for backend in ("warmgraph", "eager"):
            torch._dynamo.reset()
            CHANGED = {Helper, torch.nn.Linear, int}
            got = torch.compile(case, backend=backend)(torch.ones(2), Kind.ONE, module)
            shown = [sorted(map(str, one)) if isinstance(one, set) else str(one) for one in got]
            values.append(shown if isinstance(got, tuple) else got.tolist())
        found[name] = values
"""


def _named(texts: str, what: str) -> dict[str, str]:
    found = [text for line in texts.strip().split("\n") for text in line.split(" ; ")]
    return {f"case_{what}_{number}": text for number, text in enumerate(found)}


CASES = _named(ASKED, "asked") | _named(GONE_OVER, "gone")
PROGRAM = PROGRAM.replace(
    "CASES", "\n".join(f"def {name}(x, kind, module): return weighed(x, {text})" for name, text in CASES.items())
)


_PROCESSES = (("1", "1"), ("2", "-1"), ("3", "1"), ("4", "-1"))


@pytest.mark.exhaustive
def test_an_item_is_known_by_its_name_where_nobody_saw_the_order(run_python):
    """Asked whether something is in it, a set is what it is in any order; gone over, it is this process's."""
    seeds = [run_python(PROGRAM + OUTCOMES, PYTHONHASHSEED=seed, STEP=step) for seed, step in _PROCESSES]
    for found in seeds:
        assert {CASES.get(name, name): v for name, v in found["found"].items() if v[0] != v[1]} == {}
    refused = {name for name, events in seeds[0]["outcomes"].items() if events[0][1] == "not-restorable"}
    assert {CASES[name] for name in refused if name.startswith("case_asked")} <= {"(kind, type(module)) in PAIRS"}
    for found in seeds[1:]:
        traced = {name for name, events in found["outcomes"].items() if events[0][0] != "restored"} - refused
        assert {CASES[name]: found["outcomes"][name] for name in traced if name.startswith("case_asked")} == {}
