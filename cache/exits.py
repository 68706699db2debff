"""Calling something when this process ends, whichever way it ends in order. Nothing helps against kill -9."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable


def at_process_end(function: Callable[[], None]) -> None:
    """Call `function` at the end of this very process, not of one forked from it."""
    owner = os.getpid()

    def run() -> None:
        if os.getpid() == owner:  # a forked child inherits its parent's list
            function()

    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        # A forked multiprocessing child ends in os._exit: no atexit functions, only these. Safe to run twice.
        util.Finalize(None, run, exitpriority=10)
    atexit.register(run)
