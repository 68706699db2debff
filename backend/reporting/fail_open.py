"""Where the backend fails open, and only here: whatever breaks, the graph is compiled normally."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from msgspec import Struct
from warmgraph.cache import fork_safe_lock

from ..torch_api.compile import COMPILE_ERRORS, CONTROL_FLOW, BackendCompilerFailed

log = logging.getLogger(__name__)

T = TypeVar("T")

_warned: set[str] = set()
_lock = fork_safe_lock()


class Failure(Struct, frozen=True):
    """A stage that did not work: which, and one line on why."""

    stage: str
    why: str
    error: Exception | None = None


class Done(Struct, Generic[T], frozen=True):
    value: T


def attempt(stage: str, strict: bool, function: Callable[..., T], *args: Any) -> Done[T] | Failure:
    """Call `function`; an exception becomes a Failure, unless `strict` or it steers Dynamo itself."""
    try:
        return Done(function(*args))
    except Exception as error:
        if strict or (isinstance(error, CONTROL_FLOW) and not _may_be_the_backwards(stage, error)):
            raise
        if stage == "compile" and isinstance(error, COMPILE_ERRORS):
            raise
        why = f"{type(error).__name__}: {error}".split("\n")[0]
        log.debug("%s failed", stage, exc_info=True)
        return Failure(stage, why, error)


def _may_be_the_backwards(stage: str, error: Exception) -> bool:
    """Whether Inductor may have failed on a backward, which is compiled at once here: nobody may ever run it. (Under
    `no_grad` as well: a function may turn gradients on within.)
    """
    return stage == "compile" and isinstance(error, BackendCompilerFailed)


# What a name, an argument or a module of torch's that is no longer there raises where we use it.
MOVED = (AttributeError, ImportError, TypeError)


def what_moved(error: Exception) -> str | None:
    """What is wrong and where, of an error that our own code raised; None of one that comes from deeper within.

    A graph that cannot be compiled raises below torch's or the user's code, and that is to be seen.
    """
    # Not what is around our code: an environment, torch with it, may lie in a checkout.
    rooms = [sys.modules[name] for name in ("warmgraph.backend", "warmgraph.cache", "warmgraph.hashing")]
    here = tuple(f"{Path(str(room.__file__)).parent}{os.sep}" for room in rooms)
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or not frames[-1].filename.startswith(here):
        return None
    return f"{error} ({Path(frames[-1].filename).name}:{frames[-1].lineno})".split("\n")[0]


# Trouble of this process or host, which says nothing of an entry.
_LOCAL = (MemoryError, OSError, ImportError, torch.OutOfMemoryError)


def blames_entry(failure: Failure) -> bool:
    """Whether a failed load is the entry's fault, so that it should fail nobody else."""
    return not isinstance(failure.error, _LOCAL)


def warn_once(about: str, message: str, *args: Any) -> None:
    """One WARNING per process and subject; repeats go to DEBUG."""
    with _lock:
        first = about not in _warned
        _warned.add(about)
    log.log(logging.WARNING if first else logging.DEBUG, message, *args)
