"""Code that may change an object which was there before is told from code that fills lists of its own."""

import sys

import pytest
from warmgraph.hashing.source_code.untracked import changes_objects

THERE = []


def fills_its_own(x):
    found = []
    for one in x:
        found.append(one)
    table = {}
    table.update(found)
    return table


class Wrapper:
    def __new__(cls, held):
        self = object.__new__(cls)
        self.held = held
        return self

    def __init__(self, held):
        self.held = held


def of_an_argument(x):
    x.append(1)


def of_a_default(x, found=None):
    if found is None:
        found = []
    found.append(x)


def of_a_global(x):
    THERE.append(x)


def bound_again(x):
    found = []
    found = THERE
    found.append(x)


def bound_with_another(x):
    found = []
    found, more = THERE, x
    found.append(more)


def bound_in_a_branch(x):
    found = THERE if x else []
    found.append(x)


def chosen(x):
    found = []
    (found if x else THERE).append(x)


def of_a_cell(x):
    found = []

    def put():
        found.append(x)

    return put


def filled_from_it(x):
    found = []
    for found in THERE:
        found.append(x)


class OfItsClass:
    count = 0

    def __new__(cls):
        cls.count += 1
        return object.__new__(cls)


@pytest.mark.parametrize("function", [fills_its_own, Wrapper.__init__])
def test_what_it_makes_it_may_change(function):
    if function is fills_its_own and sys.version_info >= (3, 13):
        pytest.skip("it is not known there: one instruction stores and loads")
    assert changes_objects(function.__code__) is None


@pytest.mark.parametrize(
    "function",
    [
        *(of_an_argument, of_a_default, of_a_global, bound_again, bound_with_another, bound_in_a_branch, chosen),
        *(of_a_cell, filled_from_it, OfItsClass.__new__),
    ],
)
def test_what_was_there_is_told(function):
    assert changes_objects(function.__code__) is not None


def test_attributes_of_what_a_new_makes_are_told_unless_it_is_said():
    code = Wrapper.__new__.__code__
    assert changes_objects(code) == "sets attribute held"
    assert changes_objects(code, ("self",)) is None
    assert changes_objects(OfItsClass.__new__.__code__, ("self",)) is not None
