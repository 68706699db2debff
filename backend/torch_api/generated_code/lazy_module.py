"""Stands in for `torch._inductor.debug` until somebody wants more of it than a loaded graph does. No debugging here.

A loaded graph asks that module at every call whether executions are recorded, and importing it imports Inductor's
scheduler: 0.2 s of a warm start, for a flag. When it is imported, Python puts it where this was. Read on 2.11 to 2.13.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch

from .. import patches

_NAME = "torch._inductor.debug"


class _Debug:
    """The module, imported when anything but that flag is asked for."""

    @property
    def RECORD_GRAPH_EXECUTION(self) -> bool:
        """Whether executions are recorded: only the module itself can have been told so."""
        module = sys.modules.get(_NAME)
        return module is not None and bool(module.RECORD_GRAPH_EXECUTION)

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(_NAME), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(importlib.import_module(_NAME), name, value)


def use_lazy_debug_module() -> None:
    """Once, if nobody has imported it. `import torch._inductor.debug` still does."""
    if _NAME not in sys.modules:
        patches.replace("debug", torch._inductor, "debug", _Debug())
