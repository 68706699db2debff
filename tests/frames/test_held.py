"""What lies on an object in words: all of it or only its type, never without end."""

from __future__ import annotations

import _abc
import collections.abc
import enum
import functools

import pytest
import torch
from warmgraph.backend.frames.classes import counted
from warmgraph.backend.frames.held import attributes_of, is_said, plain_text
from warmgraph.backend.torch_api.frames.state import words


class Kind(enum.Enum):
    A = 1
    B = 2


class Slots:
    __slots__ = ("empty", "filled")

    def __init__(self, value):
        self.filled = value


DIFFERENT = [
    1, 1.0, True, -0.0, 0.0, "1", b"1", None, ..., (1,), [1], {1}, frozenset({1}), {1: 1}, {1: [1]}, {1: {1: 2}},
    {1: {1: 3}}, collections.deque([1]), torch.float32, torch.float64, torch.strided, Kind.A, Kind.B,
    [8.0, 0.0], [0.0, 8.0], {8.0, 0.0}, functools.partial(print, 1), functools.partial(print, 2),
    functools.partial(print, end=""),
    torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA,
]  # fmt: skip


def test_different_values_have_different_words():
    texts = [plain_text(one, repr) for one in DIFFERENT]
    assert len(set(texts)) == len(texts)
    assert texts == [plain_text(one, repr) for one in DIFFERENT]


def test_slots_count_as_attributes():
    assert attributes_of(Slots(3)) == {"filled": 3}
    assert attributes_of(object()) == {}


def endless():
    found = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    "value",
    [endless(), list(range(5_000)), [object()], {"a": [object()]}, functools.reduce(lambda x, _: [x], range(500), 1)],
    ids=["endless", "long", "an object", "an object within", "deep"],
)
def test_what_cannot_be_said_is_known(value):
    assert not is_said(value)
    assert len(plain_text(value, repr)) < 1_000


def test_tables_of_labels_are_said():
    labels = {number: f"LABEL_{number}" for number in range(1_000)}
    assert is_said(labels)
    assert plain_text(labels, repr) != plain_text({**labels, 7: "other"}, repr)


def test_the_device_of_default_tensors_is_in_the_words(monkeypatch):
    """`torch.set_default_tensor_type(torch.cuda.FloatTensor)`, of which no public function tells."""
    before = words()["device"]
    monkeypatch.setattr(torch._C, "_get_default_device", lambda: "cuda")
    assert words()["device"] != before


def test_who_counts_is_the_same_whatever_cython_module_is_imported():
    """Each registers classes of its own: numpy's does."""
    registered = [reference() for reference in _abc._get_dump(collections.abc.Sequence)[0]]
    assert "_memoryviewslice" in {cls.__name__ for cls in registered}
    assert "memoryview" not in counted(collections.abc.Sequence)


def test_who_counts_as_a_class_of_the_programs():
    class Like:
        pass

    before = counted(collections.abc.Sequence)
    collections.abc.Sequence.register(Like)
    assert counted(collections.abc.Sequence) != before
    assert "Like" in counted(collections.abc.Sequence)
