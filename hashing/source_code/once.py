"""What is looked at once for each key: nothing changes while one is made. Outside of that nothing is remembered."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Made = TypeVar("Made")

# While a key is made: known, by function and arguments; given, asked: see there.
_thread = threading.local()


def making_a_key(make_key: Callable[Given, Made]) -> Callable[Given, Made]:
    """Decorator of what makes a key. It is made again where one piece of code asks for what another did not know of."""

    @functools.wraps(make_key)
    def made(*args: Given.args, **kwargs: Given.kwargs) -> Made:
        before = vars(_thread).copy()
        together: frozenset[Any] = frozenset()
        try:
            while True:  # each time more names are given: those of a program come to an end
                _thread.known, _thread.given, _thread.asked = {}, together, []
                key = make_key(*args, **kwargs)
                together = together.union(*(asked for asked, _ in _thread.asked))
                if all(asked >= together for asked, matters in _thread.asked if matters):
                    return key
        finally:
            vars(_thread).clear()
            vars(_thread).update(before)

    return made


@contextlib.contextmanager
def looking_once(known: dict[Any, Any]) -> Iterator[None]:
    """What is looked at once for each key is looked at once meanwhile, in this thread: where several texts are made of
    which each stands for itself. known: what was found so far; it grows.
    """
    before = vars(_thread).copy()
    vars(_thread).clear()
    _thread.known = known
    try:
        yield
    finally:
        vars(_thread).clear()
        vars(_thread).update(before)


def given() -> frozenset[Any]:
    """What all code that one key is about asks for, as far as is known: each piece may be given what another holds."""
    found: frozenset[Any] = getattr(_thread, "given", frozenset())
    return found


def note_asked(asked: frozenset[Any], *, matters: bool) -> None:
    """What a piece of code asks for, with what was given. matters: whether it reaches anything that may be asked."""
    if (noted := getattr(_thread, "asked", None)) is not None:
        noted.append((asked, matters))


def once_per_key(look: Callable[..., Made]) -> Callable[..., Made]:
    """Decorator of a look at texts, and at classes that live as long as the key is made."""

    @functools.wraps(look)
    def looked(*args: Any) -> Made:
        known = getattr(_thread, "known", None)
        if known is None:
            return look(*args)
        place = (look, *(arg if type(arg) is str else id(arg) for arg in args))
        if place not in known:
            known[place] = look(*args)
        found: Made = known[place]
        return found

    return looked
