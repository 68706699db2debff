"""The encoder: equal values have one text, different values have different ones, unknown values have none."""

import enum
import functools
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from warmgraph.hashing import Uncacheable, encode

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.binary(max_size=8)
    | st.sampled_from([torch.float32, torch.int64, torch.strided, torch.device("cpu"), torch.channels_last, ...]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=4)
        | st.builds(slice, inner, inner, inner)
    ),
    max_leaves=12,
)


def same(a, b):
    """Equal in type and content, all the way down (1 is not True, 0.0 is not -0.0)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return sorted(map(encode, a)) == sorted(map(encode, b)) and all(
            any(same(k, k2) and same(v, v2) for k2, v2 in b.items()) for k, v in a.items()
        )
    if isinstance(a, slice):
        return same((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    if isinstance(a, float):
        return a.hex() == b.hex()
    return a == b


@given(plain, plain)
def test_two_values_share_a_text_only_if_they_are_the_same(a, b):
    """Injective: no two different values have one encoding."""
    assert (encode(a) == encode(b)) == same(a, b)


@given(plain)
def test_a_text_is_one_line_of_ascii(value):
    """A part's text can be split into lines, and diffs show them."""
    text = encode(value)
    assert "\n" not in text
    assert text.isascii()


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ("1", 1),
        ([1], (1,)),
        ((1,), 1),
        ([["a"], []], [["a", []]]),
        ("a, b", ["a", "b"]),
        ({"a": 1}, [("a", 1)]),
        (slice(1, 2), (1, 2, None)),
        (torch.float16, torch.bfloat16),
        (torch.device("cuda:0"), torch.device("cuda")),
        (b"a", "a"),
        (float("inf"), float("-inf")),
    ],
)
def test_near_values_differ(a, b):
    """Pairs that a careless encoder confuses."""
    assert encode(a) != encode(b)


def test_order_of_dictionaries_and_sets_does_not_matter():
    """Insertion order is history, not meaning."""
    assert encode({"a": 1, "b": 2}) == encode({"b": 2, "a": 1})
    assert encode({"x", "y", "z"}) == encode({"z", "y", "x"})


class Colour(enum.Enum):
    RED = 1


def test_an_enum_is_named_not_numbered():
    """An enum's member is its qualified name."""
    assert encode(Colour.RED).endswith("Colour.RED>")


@pytest.mark.parametrize(
    "value",
    [
        object(),
        lambda: 1,
        functools.partial(print),
        iter([]),
        type("Local", (), {}),
        {"a": object()},
        [lambda: 1],
    ],
    ids=["object", "lambda", "partial", "iterator", "local class", "in a dict", "in a list"],
)
def test_an_unknown_value_is_refused_not_guessed(value):
    """No repr, no pickle, no address."""
    with pytest.raises(Uncacheable):
        encode(value)


def test_subclasses_of_plain_types_are_refused():
    """A str, int or float subclass may mean anything (numpy's float64 is a float)."""

    class Word(str):
        __slots__ = ()

    with pytest.raises(Uncacheable):
        encode(Word("a"))


def test_hash_seeds_do_not_matter():
    """Sets of strings iterate differently in every process."""
    program = "from warmgraph.hashing import encode; print(encode({'a', 'b', 'c', 'd', 'e'}))"
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": str(seed), "PATH": ""},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in (0, 7)
    }
    assert len(found) == 1
