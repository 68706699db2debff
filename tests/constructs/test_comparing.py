"""The suite's own eyes: what two ways must agree on is seen when they do not. No process is started."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).resolve().parent))

from compare import close, exact, only
from harness import Raised, outcome, raised
from listing import ALL, Listed
from observe import observe
from outcomes import broken_promises


def seen(value, printed=()):
    return {"seen": observe(value), "printed": list(printed)}


def tensors():
    """A tensor with a view and a gradient."""
    leaf = torch.arange(4.0, requires_grad=True)
    x = leaf * 1
    (x * x).sum().backward()
    return {"x": x, "view": x[1:], "leaf": leaf, "list": [torch.ones(2), None, 3]}


def without(name):
    def change(value):
        value.pop(name)

    return change


DIFFERENCES = {
    "a value": lambda v: v["x"].data.add_(1),
    "an alias that is a copy": lambda v: v.update(view=v["x"][1:].clone()),
    "a view of a detached tensor": lambda v: v.update(view=v["x"].detach()[1:]),
    "a write": lambda v: v["list"][0].add_(0),
    "a gradient": lambda v: v["leaf"].grad.mul_(2),
    "no gradient": lambda v: setattr(v["leaf"], "grad", None),
    "a history": lambda v: v.update(x=v["x"].detach()),
    "a dtype": lambda v: v["list"].__setitem__(0, torch.ones(2, dtype=torch.float64)),
    "strides": lambda v: v["list"].__setitem__(0, torch.ones(2, 2)[:, 0]),
    "an offset": lambda v: v["list"].__setitem__(0, torch.ones(4)[2:]),
    "one tensor twice": lambda v: v.update(view=v["x"]),
    "a constant": lambda v: v["list"].__setitem__(2, 4),
    "a type": lambda v: v.update(list=tuple(v["list"])),
    "a length": lambda v: v["list"].append(None),
    "a missing name": without("view"),
    "an error instead": lambda v: v.update(x=Raised("RuntimeError", "no")),
}


@pytest.mark.parametrize("what", DIFFERENCES)
def test_a_difference_is_seen(what):
    """By the exact comparison and by the one between eager and compiled."""
    one, other = tensors(), tensors()
    assert exact(seen(one), seen(other)) == close(seen(one), seen(other)) == []
    DIFFERENCES[what](other)
    assert exact(seen(one), seen(other))
    assert close(seen(one), seen(other))


def test_rounding_is_seen_by_the_exact_comparison_alone():
    """As is how often a version rose."""
    one, other = torch.full((3,), 0.1), torch.full((3,), 0.1 * (1 + 1e-6))
    assert exact(seen(one), seen(other))
    assert not close(seen(one), seen(other))
    assert only(["value"], seen(one), seen(other)) == []
    once, twice = torch.ones(2).add_(1), torch.ones(2).add_(0.5).add_(0.5)
    assert exact(seen(once), seen(twice))
    assert not close(seen(once), seen(twice))


def test_what_is_printed_counts():
    """In order."""
    assert exact(seen(None, ["a", "b"]), seen(None, ["b", "a"]))
    assert close(seen(None, ["a"]), seen(None))


def test_only_the_fields_that_torch_gets_wrong_are_left_out():
    """A case marked for its versions is still compared in everything else."""
    one, other = torch.zeros(2), torch.zeros(2).add_(0)
    assert close(seen(one), seen(other))
    assert close(seen(one), seen(other), without=["version"]) == []
    assert close(seen(one), seen(other.add_(1)), without=["version"])
    assert only(["version"], seen(one), seen(other))


def test_an_expected_error_that_does_not_come_is_an_error():
    """`raised` insists; `outcome` takes either; a backend's name is not part of an error."""
    with pytest.raises(AssertionError):
        raised(lambda: 1)
    assert outcome(lambda: 1) == 1

    def fail():
        raise ValueError("backend='warmgraph' raised:\nKeyError: at 0x7f00")

    assert raised(fail) == Raised("ValueError", "KeyError: at ...")


HIT = Listed("group", "name", "sentence")
BYPASS = Listed("group", "name", "sentence", bypass="cond")
NOTHING = Listed("group", "name", "sentence", uncompiled="refused")


def events(*outcomes, detail=None):
    return [{"outcome": outcome, "reason": "unsafe-op", "detail": detail} for outcome in outcomes]


def test_the_promised_outcomes_are_accepted():
    """Misses that become hits, the named bypass, and nothing where nothing is compiled."""
    assert broken_promises(HIT, events("miss", "hit"), events("hit", "hit")) == []
    bypassed = events("bypass", detail="target cond")
    assert broken_promises(BYPASS, [*events("miss"), *bypassed], [*events("hit"), *bypassed]) == []
    assert broken_promises(NOTHING, [], []) == []


@pytest.mark.parametrize(
    ("case", "cold", "warm"),
    [
        (HIT, events("miss"), events("miss")),
        (HIT, events("miss"), []),
        (HIT, [], []),
        (HIT, events("failed"), events("failed")),
        (HIT, events("bypass", detail="cond"), events("bypass", detail="cond")),
        (BYPASS, events("bypass", detail="scan"), events("bypass", detail="scan")),
        (BYPASS, events("bypass", detail="cond"), events("hit")),
        (BYPASS, events("miss"), events("hit")),
        (NOTHING, events("miss"), events("hit")),
    ],
)
def test_a_broken_promise_is_told(case, cold, warm):
    """A needless miss, a silent bypass, a bypass for another reason."""
    assert broken_promises(case, cold, warm)


def test_every_case_promises_one_thing():
    """Names are unique; no case is both bypassed and not compiled; what is left out is left out for a reason."""
    assert len({case.word for case in ALL}) == len(ALL)
    for case in ALL:
        assert case.bypass is None or case.uncompiled is None, case.word
        assert not case.fields or case.torch_wrong, case.word
