"""How a trace is listened to: only while somebody wants to know, and without taking it down."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch._dynamo.exc import TorchDynamoException

from ... import patches
from ..seen import seen

_LISTENERS = str(Path(__file__).parents[1])
_HOOK = str(Path(__file__).parents[1] / "hook.py")


def listen(name: str, listener: patches.Wrap) -> None:
    """Put `listener(original)` in the place of one of `patches.PATCHES`, for the frames that somebody watches.

    Raises patches.Moved.
    """

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        told = listener(original)

        @functools.wraps(original)
        def call(*args: Any, **options: Any) -> Any:
            return (original if seen() is None else told)(*args, **options)

        return call

    patches.install(name, wrap)


def may_be_ours(error: BaseException) -> bool:
    """Whether a trace may have failed because it was listened to: a listener asked what Dynamo cannot answer.

    Then it is made again, unheard. What Dynamo raises itself (a graph break that is not allowed, a failed compile) is
    the program's.
    """
    if isinstance(error, TorchDynamoException):
        return False
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(_LISTENERS) and file != _HOOK:
            return True
        trace = trace.tb_next
    return False
