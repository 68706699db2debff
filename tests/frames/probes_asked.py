"""Probes of what a trace asks Python for itself, which no guard says: a reader found each (2026-11-27)."""

from __future__ import annotations

import collections.abc
import decimal
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from probe import put

SOURCE = """
import collections.abc, decimal, functools, sys, types, torch
def make(scale):
    module = sys.modules[f"scales_{scale}"] = types.ModuleType(f"scales_{scale}")
    module.SCALE, module.functools = float(scale), functools
    exec(
        "def scaled(function):\\n"
        "    @functools.wraps(function)\\n"
        "    def inner(x): return function(x) * SCALE\\n"
        "    return inner\\n",
        vars(module),
    )
    return module.scaled
def plain(x): return x * 2
def wrapped(x): return TWICE(x)
TWICE = make(3)(plain)
SPACE, PRICE = types.SimpleNamespace(), decimal.Decimal("1.5")
def librarys(x): return x * (3 if isinstance(SPACE, collections.abc.Sequence) else 2)
def digits(x):
    try: return x * (int("9" * 1000) % 7)
    except ValueError: return x * 50
def price(x):
    try: return x * (3 if PRICE < 2.5 else 2)
    except decimal.FloatOperation: return x * 50
BIG = 2**70
def big(x): return x * (BIG % 7)
"""


def asked(entry: str, what: str, change: Callable[[Any], None] | None = None, **more: Any) -> None:
    put(f"asked: {entry}, {what}", SOURCE, entry, change=change, **{"after": False, **more})


@contextmanager
def few_digits() -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


@contextmanager
def strict_decimals() -> Iterator[None]:
    with decimal.localcontext() as context:
        context.traps[decimal.FloatOperation] = True
        yield


asked("wrapped", "with another's globals", lambda s: setattr(s.m, "TWICE", s.m.make(7)(s.m.plain)))
asked(
    "librarys", "a class of Python's is registered", lambda s: collections.abc.Sequence.register(types.SimpleNamespace)
)
asked("digits", "the most digits of a text", around=few_digits)
asked("price", "how decimals are compared", around=strict_decimals)
asked("big", "another large number", lambda s: setattr(s.m, "BIG", 2**70 + 1))
