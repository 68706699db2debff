"""Calling something when this process ends, whichever way it ends in order. Nothing helps against kill -9."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable

_ending: tuple[int, float] | None = None  # (process, monotonic): a forked child is not ending


def at_process_end(function: Callable[[], None]) -> None:
    """Call `function` at the end of this very process, not of one forked from it."""
    owner = os.getpid()

    def run() -> None:
        if os.getpid() == owner:  # a forked child inherits its parent's list
            _begin()
            function()

    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        # A forked multiprocessing child ends in os._exit: no atexit functions, only these. Safe to run twice.
        util.Finalize(None, run, exitpriority=10)
    atexit.register(run)


def ending() -> bool:
    """Whether this process is at its end: from the first function called there on, somebody waits for all of them."""
    return _ending is not None and _ending[0] == os.getpid()


def seconds_ending() -> float:
    """How long this process has been at its end; 0 when it is not."""
    return time.monotonic() - _ending[1] if _ending is not None and ending() else 0.0


def _begin() -> None:
    global _ending
    if not ending():
        _ending = os.getpid(), time.monotonic()
