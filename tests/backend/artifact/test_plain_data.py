"""Dataclasses and named tuples in the metadata of a graph's inputs: read back bare, and no line of theirs is run."""

from __future__ import annotations

import dataclasses
import enum
import pickle
from typing import Any, NamedTuple

import pytest
import torch
from warmgraph.backend.artifact.attributes import bare_data
from warmgraph.backend.artifact.records import read
from warmgraph.backend.artifact.unpickle import NotAllowed, _types_of, realise


class Kind(enum.Enum):
    ROWS = 1


class Pair(NamedTuple):
    size: int
    kind: Kind


@dataclasses.dataclass
class Block:
    pair: Pair
    size: int = 2

    def __post_init__(self) -> None:
        self.size += 1

    def method(self) -> int:
        return self.size


@dataclasses.dataclass(frozen=True)
class Slotted:
    __slots__ = ("size",)
    size: int


@dataclasses.dataclass
class SetsItself:
    size: int

    def __setstate__(self, state: Any) -> None:
        raise AssertionError("it was run")


@dataclasses.dataclass
class MakesItself:
    size: int

    def __new__(cls, *args: Any) -> Any:
        return super().__new__(cls)


class Holds(torch.Tensor):
    """A subclass with such metadata."""

    held: Any

    @staticmethod
    def __new__(cls, held: Any) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, (2,))
        made.held = held
        made.inner = torch.ones(2)
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(func)

    def __tensor_flatten__(self) -> Any:
        return ["inner"], self.held


def back(value: Any, held: Any) -> Any:
    """`value`, pickled and read by a graph whose input holds `held`."""
    return realise(read(pickle.dumps(value, protocol=5)), _types_of([Holds(held)]))


def test_plain_data_of_the_inputs_comes_back() -> None:
    block = Block(Pair(3, Kind.ROWS))
    assert back(block, [block]) == block  # with its size as it was: nothing is counted again
    assert type(back(block, {"a": block}).pair) is Pair


def test_what_no_input_holds_is_refused() -> None:
    block = Block(Pair(3, Kind.ROWS))
    for held in (None, block.pair, Kind.ROWS):
        with pytest.raises(NotAllowed, match="Block"):
            back(block, held)


@dataclasses.dataclass(frozen=True)
class PicklesItself:
    by: float = 1.0

    def __reduce__(self) -> Any:
        return PicklesItself, (self.by,)


class OddPair(NamedTuple):
    size: int

    def __setstate__(self, state: Any) -> None:
        raise AssertionError("it was run")


@dataclasses.dataclass
class Counts:
    size: int

    def __hash__(self) -> int:
        raise AssertionError("it was run")


@pytest.mark.parametrize("made", [SetsItself(1), MakesItself(1), PicklesItself(3.0), OddPair(1), Counts(1)])
def test_a_class_that_would_run_its_own_code_is_refused(made: Any) -> None:
    assert bare_data(type(made)) is None
    with pytest.raises(NotAllowed):
        back(made, made)


def test_a_field_does_not_stand_in_the_place_of_a_method() -> None:
    block = Block(Pair(3, Kind.ROWS))
    vars(block)["method"] = 1
    with pytest.raises(NotAllowed, match="method"):
        back(block, block)


def test_slots_come_back() -> None:
    assert bare_data(Slotted) is not None
    assert bare_data(Kind) is bare_data(int) is None
