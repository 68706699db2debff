"""The walk over what a frame can reach: the same for the same data, another one for any that is asked for."""

from __future__ import annotations

import collections
import enum
import functools
import types

import pytest
import torch
from warmgraph.backend.frames.reached.walk import Walk
from warmgraph.backend.torch_api.frames.plain import Refused

ASKED = {"k", "inner", "scale", "run"}


def digests(value, *, asked=ASKED, free=(), names=False, everything=False):
    return Walk(set(asked), set(free), names=names, everything=everything).digests([(0, "value", value)])


class Holder:
    def __init__(self, **values):
        vars(self).update(values)


class Kind(enum.Enum):
    A = 1
    B = 2


class Slots:
    __slots__ = ("k",)

    def __init__(self, k):
        self.k = k


class Named(dict):
    def __getitem__(self, key):
        raise AssertionError("code of the user's runs")

    __iter__ = keys = items = values = __len__ = __getitem__


class Guarded:
    def __init__(self, k):
        vars(self)["k"] = k

    def __getattr__(self, name):
        raise AssertionError("code of the user's runs")

    @property
    def inner(self):
        raise AssertionError("code of the user's runs")


def scaled(k):
    return lambda x: x * k


def class_of(k):
    return type("Made", (), {"k": k})


def tied(same):
    one = torch.zeros(2)
    return [one, one if same else torch.zeros(2)]


DIFFERENT = {
    "a number": lambda v: Holder(k=v),
    "its type": lambda v: Holder(k=[1, 1.0][v]),
    "zeros": lambda v: Holder(k=[0.0, -0.0][v]),
    "nested": lambda v: Holder(inner=Holder(inner={"a": [Holder(k=v)]})),
    "slot": Slots,
    "cell": scaled,
    "cell within": lambda v: Holder(run=scaled(Holder(k=v))),
    "default": lambda v: types.FunctionType(scaled(1).__code__, {}, "f", (v,), scaled(1).__closure__),
    "class": class_of,
    "object of class": lambda v: class_of(v)(),
    "method": lambda v: types.MethodType(scaled(1), Holder(k=v)),
    "partial": lambda v: functools.partial(scaled, v),
    "keys": lambda v: {v: 1},
    "order": lambda v: {v: 0, 1 - v: 0},
    "ordered": lambda v: collections.OrderedDict({v: 0, 1 - v: 0}),
    "set": lambda v: {v, 7},
    "own dict": lambda v: Named(k=v),
    "own attribute access": Guarded,
    "member": lambda v: [Kind.A, Kind.B][v],
    "one object or two": lambda v: (lambda one: [one, one if v else Holder(k=1)])(Holder(k=1)),
    "one tensor or two": tied,
    "dtype": lambda v: torch.zeros(2, dtype=[torch.float32, torch.float64][v]),
    "on a tensor": lambda v: setattr(t := torch.zeros(2), "k", v) or t,
    "function": lambda v: [torch.relu, torch.sigmoid][v],
    "module's part": lambda v: torch.nn.Sequential([torch.nn.ReLU(), torch.nn.GELU()][v]),
    "module's setting": lambda v: Holder(inner=torch.nn.Dropout(0.5).train(bool(v))),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_other_data_is_told_and_the_same_is_not(name):
    make = DIFFERENT[name]
    assert digests(make(0)) == digests(make(0))
    assert digests(make(0)) != digests(make(1))


def test_names_that_no_code_asks_for_do_not_count():
    assert digests(Holder(k=1, seen=1)) == digests(Holder(k=1, seen=2))
    assert digests(Holder(k=1, seen=1), everything=True) != digests(Holder(k=1, seen=2), everything=True)


def test_numbers_that_may_vary_do_not_count():
    one, other = Holder(k=1), Holder(k=2)
    assert digests(one, free=[(id(one), "k")]) == digests(other, free=[(id(other), "k")])


def test_which_text_it_is_counts_where_code_asks():
    text, again = "".join(["a", "b c"]), "".join(["a", "b c"])
    assert digests([text, again]) == digests([text, text])
    assert digests([text, again], names=True) != digests([text, text], names=True)


def test_there_is_an_end():
    loop = []
    loop.append({"k": loop})
    assert len(digests(loop)) == 4 * 3
    deep = functools.reduce(lambda inner, _: [inner], range(50_000), [])
    assert digests(deep) == digests(deep)


def test_too_much_is_refused():
    with pytest.raises(Refused, match="more data"):
        digests([[] for _ in range(400_001)])


def test_what_somebody_put_on_torch_counts(monkeypatch):
    before = digests(torch.nn.functional)
    monkeypatch.setattr(torch.nn.functional.relu6, "scale", Holder(k=1), raising=False)
    assert digests(torch.nn.functional, asked=[*ASKED, "relu6"]) != before
    monkeypatch.setattr(torch.Tensor, "scale", 3.0, raising=False)
    first = digests(torch.Tensor)
    monkeypatch.setattr(torch.Tensor, "scale", 4.0)
    assert digests(torch.Tensor) != first


class Slotted:
    __slots__ = ("k",)

    def __init__(self, k):
        self.k = k

    def __getattr__(self, name):
        raise AssertionError("code of the user's runs")


def test_an_object_without_a_dictionary_is_not_asked_for_one():
    assert digests(Slotted(1)) == digests(Slotted(1)) != digests(Slotted(2))


def test_data_of_one_run_in_a_table_that_has_guards_does_not_count():
    def walked(table):
        walk = Walk(ASKED, set(), names=False, everything=False, sourced=[table])
        return walk.digests([(0, "value", table)])

    assert walked({"k": 1, "folder": "a"}) == walked({"k": 1, "folder": "b"})
    assert walked({"k": 1}) != walked({"k": 2})
    assert walked({"act": Holder(k=1)}) != walked({"act": Holder(k=2)})
