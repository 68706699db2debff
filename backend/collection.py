"""Python's garbage collector, kept from passing over a whole model while many lasting objects are made at once."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected(*, lasting: bool = True) -> Iterator[None]:
    """No collection meanwhile: what is made here is kept, and one pass over a model's objects takes longer than all
    of it. lasting: afterwards all objects are old, without a pass over them: those that were just made would cause one
    at once.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            if lasting and not gc.get_freeze_count():  # frozen by somebody else
                gc.freeze()
                gc.unfreeze()
            gc.enable()
