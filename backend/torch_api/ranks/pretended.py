"""A job of one process that believes to be one rank of many: for `warmgraph warm`. No other rank exists.

torch's own fake process groups give back what a collective was given, with the sizes that it would have. Imports
nothing before the program makes its first group.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

from .. import patches


def pretend() -> None:
    """From now on each process group of this process is a fake one, of the rank and world that the environment says.

    Raises patches.Moved on a torch that makes them in another way.
    """
    patches.install("fake world", _world)
    patches.install("fake groups", _group)
    patches.install("fake gradients", _ddp)


def _world(original: Callable[..., Any]) -> Callable[..., Any]:
    def init_process_group(*args: Any, **named: Any) -> None:
        from torch.distributed import HashStore
        from torch.testing._internal.distributed import fake_pg  # noqa: F401 (registers the backend)

        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        original("fake", store=HashStore(), rank=rank, world_size=world)

    return init_process_group


def _ddp(original: Callable[..., Any]) -> Callable[..., Any]:
    """DDP's own hook wants of a collective what a fake one does not give; this one leaves gradients as they are."""

    def init(self: Any, *args: Any, **named: Any) -> None:
        from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook

        original(self, *args, **named)
        self.register_comm_hook(None, noop_hook)
        self.register_comm_hook = lambda state, hook: None  # the program's own has nothing to send

    return init


def _group(original: Callable[..., Any]) -> Callable[..., Any]:
    """Parts of the world are made by the backend of the whole, whatever they name."""
    signature = inspect.signature(original)

    def new_group(*args: Any, **named: Any) -> Any:
        given = signature.bind(*args, **named)
        given.arguments |= {"backend": None, "backend_options": None}
        return original(*given.args, **given.kwargs)

    return new_group
