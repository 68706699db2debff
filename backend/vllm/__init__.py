"""vLLM's own compilation in pieces (mode 3), through the cache. Not its mode 2, which names a backend.

vLLM calls `register` in each of its processes (entry point `vllm.general_plugins`). Nothing changes there, and nothing
is imported, unless the program runs under `warmgraph run`. Read and run on vLLM 0.32.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

log = logging.getLogger(__name__)
_NOT_USED = "warmgraph is not used for vLLM's pieces: this vLLM is not as it is known (%s: %s)"


def register() -> None:
    """Have vLLM compile pieces through warmgraph where it would give them to Inductor. Never raises."""
    import torch

    from ..torch_api.entrances.redirect import redirected

    if not redirected(torch):
        return
    try:
        from vllm.compilation import backends

        make = backends.make_compiler
        if not hasattr(make, "of_warmgraph"):  # vLLM may call a plugin more than once
            ours = functools.wraps(make)(functools.partial(_made, make))
            ours.of_warmgraph = True  # type: ignore[attr-defined]
            backends.make_compiler = ours
    except Exception as error:  # noqa: BLE001 (whatever vLLM's modules raise, it starts as it would without us)
        log.warning(_NOT_USED, type(error).__name__, error)


def _made(make: Any, config: Any) -> Any:
    """vLLM's compiler for `config`, or ours in place of Inductor's."""
    theirs = make(config)
    try:
        from .compiler import in_place_of

        return in_place_of(theirs)
    except Exception as error:  # noqa: BLE001 (as above)
        log.warning(_NOT_USED, type(error).__name__, error)
        return theirs
