"""Python's garbage collector, kept from passing over a whole model while many lasting objects are made at once."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_OF_PYTHON = 1_000  # objects: Python 3.12 begins with 375 frozen ones of its own, which may as well be old


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No collection meanwhile: what is made here is kept, and one pass over a model's objects takes longer than all
    of it.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def make_old() -> None:
    """All objects are old now, without a pass over them. At the end of `uncollected`, where what was made lasts: it
    would cause a pass at once.
    """
    if gc.get_freeze_count() < _OF_PYTHON:  # more are frozen by somebody
        gc.freeze()
        gc.unfreeze()
