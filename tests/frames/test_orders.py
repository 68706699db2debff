"""Sets under another PYTHONHASHSEED: what a trace folded in of their order is never another process's."""

from __future__ import annotations

import pytest
from warmgraph.backend.torch_api import versions

from .outcomes import OUTCOMES

# What code may do with a set that it was given, by which of its items comes first.
GONE_OVER = """
list(GIVEN) ; tuple(GIVEN) ; [n for n in GIVEN] ; [*GIVEN] ; (lambda p, *q: [p, *q])(*GIVEN) ; [*{*GIVEN}]
list(set(GIVEN)) ; list(GIVEN.copy()) ; list(copy.copy(GIVEN)) ; list(frozenset(GIVEN)) ; list(GIVEN.__iter__())
list(GIVEN - {"bb"}) ; list(GIVEN & {"a", "bb", "ccc"}) ; list(GIVEN ^ {"bb"}) ; list(GIVEN | {"eeeee"})
list(GIVEN.union({"eeeee"})) ; list(GIVEN.difference({"bb"})) ; list({"eeeee"} | GIVEN) ; list({"eeeee"}.union(GIVEN))
list(dict.fromkeys(GIVEN)) ; list({n: 1 for n in GIVEN}) ; [n for n, _ in zip(GIVEN, range(4))]
[n for _, n in enumerate(GIVEN)] ; [(p, q) for p, *q in [GIVEN]][0] ; [n for n in (GIVEN or {"x"})]
list(map(str, GIVEN)) ; list(filter(None, GIVEN)) ; list(itertools.chain(GIVEN, ["x"])) ; list(collections.deque(GIVEN))
[next(iter(GIVEN))] ; [set(GIVEN).pop()] ; ",".join(GIVEN).split(",")
[functools.reduce(lambda p, q: p, GIVEN)] ; list(OrderedSet(GIVEN)) ; looped(GIVEN) ; list(added(GIVEN)) ; defaults()
"{a}".format_map({"a": GIVEN}).split("'") ; "%s".__mod__((GIVEN,)).split("'") ; GIVEN.__reduce_ex__(4)[1][0]
collections.namedtuple("P", GIVEN)._fields ; broken(GIVEN) ; broken(GIVEN - {"x"})
list(TABLE["known"]) ; list(HELPER.known) ; list(HELPER.frozen) ; HELPER.method() ; [str(GIVEN)] ; [f"{GIVEN}"]
"""
ASKED = """
["a" in GIVEN] ; [len(GIVEN)] ; [bool(GIVEN)] ; [{"a", "x"} - GIVEN] ; [GIVEN >= {"a"}] ; [GIVEN == EQUAL]
[GIVEN.isdisjoint({"x"})] ; [GIVEN is HELPER.known] ; [{"a"}.issubset(GIVEN)] ; [GIVEN.issuperset(["a"])]
["bb" in TABLE["known"], "x" in TABLE["known"]] ; ["a" in HELPER.known, "x" in HELPER.frozen]
[n for n in ("a", "x", "dddd") if n in GIVEN] ; [1 if GIVEN and "a" in GIVEN else 2]
"""


def _of_both_kinds(texts: str) -> list[str]:
    texts = f"{texts}\n{texts.replace('GIVEN', 'FROZEN')}"
    return list(dict.fromkeys(text for line in texts.split("\n") for text in line.split(" ; ") if text))


PROGRAM = """
import collections, copy, dataclasses, enum, functools, itertools, json, os, sys, warnings
warnings.simplefilter("ignore")
import torch, warmgraph
from torch.utils._ordered_set import OrderedSet
from warmgraph.cache import journal_dir, read, settings
torch._inductor.config.fallback_by_default = True
NAMES = ("alpha", "bravo", "gamma")
class Kind(enum.Enum):
    ONE = 1
    TWO = 2
    THREE = 3
@dataclasses.dataclass
class Params:
    heads: frozenset = frozenset({"q", "k", "v", "out", "gate"})
class Helper:
    def lengths(self, x, parts=frozenset({"a", "bb", "ccc", "dddd"})):
        for part in parts: x = x * 2 + len(part)
        return x
def first(x, name): return x * (NAMES.index(name) + 1)
def united(x, a, b, c): return first(x, next(iter({a}.union([b, c]))))
def without(x, a, b, c): return first(x, next(iter({a, b, c}.difference(["q"]))))
def symmetric(x, a, b, c): return first(x, next(iter({a, b}.symmetric_difference([c]))))
def shared_keys(x, a, b, c): return first(x, next(iter({a: 1, b: 2, c: 3}.keys() & {a: 1, b: 2, c: 3}.keys())))
def popped(x, a, b, c):
    names = {a, b}
    names.add(c)
    return first(x, names.pop())
def popped_member(x, a, b, c): return x * {Kind.ONE, Kind.TWO, Kind.THREE}.pop().value
def pairs(x, a, b, c):
    for name, number in {("x", 1), ("yy", 2), ("zzz", 3), ("wwww", 4)}: x = x * 2 + number
    return x
def longest(x, a, b, c): return first(x, max({a, b, c}, key=len))
def summed(x, a, b, c): return first(x, sum({(a,), (b,), (c,)}, ())[0])
def given_back(x, a, b, c): return x, list(OrderedSet([a, b, c]))
def given_back_whole(x, a, b, c): return x + 1, OrderedSet([a, b, c])
def held_by_a_class(x, a, b, c): return {name: x * number for number, name in enumerate(Params().heads)}
def held_by_a_method(x, a, b, c): return Helper().lengths(x)
def kept_in_order(x, a, b, c):
    for name in {a, b, c}: x = x * 2 + NAMES.index(name)
    return x
def only_asked(x, a, b, c):
    known = {"cpu", "cuda", "xpu", "hpu"}
    return x * 2 if x.device.type in known and a in {"alpha", "beta"} else x
def as_text(x, a, b, c): return x * ord("{}".format({a, b, c})[2])
WORDS = set(["alpha", "bravo", "charlie", "delta", "echo1"])
def given_less(x, a, b, c): return x + 1, WORDS - {"zzz"}
def broken_between(x, a, b, c):
    names = {a, b, c, "delta", "echo1"}
    torch._dynamo.graph_break()
    for name in names: x = x * 2 + len(name)
    return x
def numbers_as_text(x, a, b, c): return x * ord("{}".format({NAMES.index(a), NAMES.index(b), 7})[1])
def given_as_text(x, a, b, c): return x * ord(f"{NUMBERS} {set()}"[1])
def as_text_within(x, a, b, c): return x * ord(str([{(a, 1), (b, 2), (c, 3)}])[3])
def as_text_by_percent(x, a, b, c): return x * ord(("%s" % ([{a, b, c}],))[3])
GIVEN, FROZEN = {"a", "bb", "ccc", "dddd"}, frozenset({"a", "bb", "ccc", "dddd"})
NUMBERS = {1, 2, 3}
EQUAL = {"a", "bb", "ccc", "dddd"}
TABLE = {"known": frozenset({"a", "bb", "ccc", "dddd"})}
class Holder:
    def __init__(self): self.known, self.frozen = {"a", "bb", "ccc", "dddd"}, frozenset({"a", "bb", "ccc", "dddd"})
    def method(self, known=frozenset({"a", "bb", "ccc", "dddd"})): return [*self.known, *known]
HELPER = Holder()
def defaults(known=GIVEN): return [name for name in known]
def looped(given):
    found = []
    for name in given: found.append(name)
    return found
def added(given):
    found = {"eeeee"}
    found.update(given)
    return found
def broken(given):
    found = given.copy()
    torch._dynamo.graph_break()
    return [*found]
def weight(name):
    if isinstance(name, str) and len(name) > 5: return ord(f"{name.lstrip('frozenset({')}  "[1])
    return len(name) if isinstance(name, (str, list, tuple, set)) else int(name)
def weighed(x, names):
    for name in names: x = x * 2 + weight(name)
    return x
GENERATED
CASES = [united, without, symmetric, shared_keys, popped, popped_member, pairs, longest, summed, given_back,
    given_back_whole, held_by_a_class, held_by_a_method, kept_in_order, only_asked, as_text, as_text_within,
    as_text_by_percent, numbers_as_text, given_as_text, given_less, broken_between]
CASES += [*(held for name, held in sorted(globals().items()) if name.startswith("given_to"))]
def say(value):
    if isinstance(value, torch.Tensor): return value.tolist()
    if isinstance(value, dict): return [[key, say(item)] for key, item in value.items()]
    return [say(item) for item in value] if isinstance(value, (tuple, list, set, OrderedSet)) else value
found = {}
for case in CASES:
    values = []
    for backend in ("warmgraph", "eager"):
        torch._dynamo.reset()
        values.append(say(torch.compile(case, backend=backend)(torch.ones(2), *NAMES)))
    found[case.__name__] = values
"""
GENERATED = {f"given_to_{number}": text for number, text in enumerate(_of_both_kinds(GONE_OVER + ASKED))}
AS_TEXT = set(_of_both_kinds("""[str(GIVEN)] ; [f"{GIVEN}"]"""))
ASKED_NEEDLESSLY = set(  # what Dynamo asks for the set as Python has it
    _of_both_kinds("""[bool(GIVEN)] ; [GIVEN is HELPER.known] ; [GIVEN.isdisjoint({"x"})] ; [{"a"}.issubset(GIVEN)]""")
)
# The graph breaks there, and another frame gets the copy.
COPIED = {"list(copy.copy(GIVEN))", "broken(GIVEN)", "broken(FROZEN)"}
PROGRAM = PROGRAM.replace(
    "GENERATED", "\n".join(f"def {name}(x, a, b, c): return weighed(x, {text})" for name, text in GENERATED.items())
)
REFUSED = {"as_text", "as_text_within", "as_text_by_percent"}
ANYWHERE = {"kept_in_order", "only_asked", "numbers_as_text", "given_as_text"}
if versions.at_hand() >= (2, 13):  # before, Dynamo has Python join the keys
    ANYWHERE.add("shared_keys")


@pytest.mark.exhaustive
def test_the_order_of_a_set_is_this_processs(run_python):
    """Of texts, members of enums and tuples: made in the frame, folded in, given back, or held by classes."""
    seeds = {seed: run_python(PROGRAM + OUTCOMES, PYTHONHASHSEED=seed) for seed in ("1", "2", "3")}
    again = run_python(PROGRAM + OUTCOMES, PYTHONHASHSEED="1")
    for found in (*seeds.values(), again):
        assert {name for name, (got, want) in found["found"].items() if got != want} == set()
    refused = {name for name, events in seeds["1"]["outcomes"].items() if events[0][1] == "not-restorable"}
    assert {GENERATED.get(name, name) for name in refused} == REFUSED | AS_TEXT
    asked = set(_of_both_kinds(ASKED))
    for seed in ("2", "3"):
        events = seeds[seed]["outcomes"]
        restored = {name for name in again["found"].keys() & events if events[name][0][0] == "restored"}
        assert restored - GENERATED.keys() == ANYWHERE
        assert {GENERATED[name] for name in restored & GENERATED.keys()} <= asked | COPIED
        assert {GENERATED[name] for name in GENERATED.keys() - restored} & asked <= ASKED_NEEDLESSLY
    restored = {name for name, events in again["outcomes"].items() if events[0][0] == "restored"}
    assert restored == again["outcomes"].keys() - refused
