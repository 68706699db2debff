"""What is looked at once for each key: nothing changes while one is made. Outside of that nothing is remembered."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Made = TypeVar("Made")

_thread = threading.local()  # known: by function and arguments, while a key is made


def making_a_key(make_key: Callable[Given, Made]) -> Callable[Given, Made]:
    """Decorator of what makes a key."""

    @functools.wraps(make_key)
    def made(*args: Given.args, **kwargs: Given.kwargs) -> Made:
        before, _thread.known = getattr(_thread, "known", None), {}
        try:
            return make_key(*args, **kwargs)
        finally:
            _thread.known = before

    return made


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
