"""vLLM's own compilation in pieces (mode 3), through the cache. Not its mode 2, which names a backend.

vLLM calls `register` in each of its processes (entry point `vllm.general_plugins`). Nothing changes there unless the
program runs under `warmgraph run`, or vLLM was told `-cc.backend=warmgraph`. Read and run on vLLM 0.32.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

log = logging.getLogger(__name__)


def register() -> None:
    """Have vLLM compile pieces through warmgraph where it would give them to Inductor. Never raises."""
    try:
        from vllm.compilation import backends

        make = backends.make_compiler
    except (ImportError, AttributeError) as error:
        log.warning("warmgraph is not used for vLLM's pieces: this vLLM has other names (%s)", error)
        return
    if not hasattr(make, "__wrapped__"):  # vLLM may call a plugin more than once
        backends.make_compiler = functools.wraps(make)(functools.partial(_made, make))


def _made(make: Any, config: Any) -> Any:
    """vLLM's compiler for `config`, or ours in its place."""
    import torch

    from ..torch_api.entrances.redirect import redirected

    if config.backend == "warmgraph" or (config.backend == "inductor" and redirected(torch)):
        try:
            from .compiler import PieceCompiler

            return PieceCompiler(config)
        except (ImportError, AttributeError) as error:
            log.warning("warmgraph is not used for vLLM's pieces: this vLLM has other names (%s)", error)
            config.backend = "inductor"
    return make(config)
