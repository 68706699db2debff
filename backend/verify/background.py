"""Compiling beside the training step: daemon threads that end with the process. Knows nothing of what they do."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import weakref
from collections.abc import Callable

from warmgraph.cache import at_process_end

EXIT_SECONDS = 10.0  # how long the end of a process waits for threads that it has told to stop

_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_registered_in = -1


def run_in_background(job: Callable[[], None]) -> None:
    """Run `job` in a thread of its own. Raises RuntimeError when no thread can be had."""
    global _registered_in
    thread = threading.Thread(target=job, name="warmgraph-verify", daemon=True)
    thread.start()
    _threads.add(thread)
    if _registered_in != os.getpid():
        at_process_end(_stop_all)
        _registered_in = os.getpid()


def _stop_all() -> None:
    """A daemon thread that is inside torch's C++ when the interpreter ends can abort the process; so none is left."""
    alive = [thread for thread in list(_threads) if thread.is_alive()]
    for thread in alive:
        if thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
    deadline = time.monotonic() + EXIT_SECONDS
    for thread in alive:
        thread.join(max(0.0, deadline - time.monotonic()))
