"""How long a collective waits for the other ranks before the job ends. Read on 2.13."""

from __future__ import annotations

import sys
from typing import Any

_NCCL_SECONDS = 600.0  # torch's defaults, where a group does not say
_SECONDS = 1800.0


def collective_seconds() -> float:
    """The timeout of the default process group; where there is none yet, the shortest that torch would give it."""
    distributed: Any = sys.modules.get("torch.distributed.distributed_c10d")
    if distributed is None or not distributed.is_initialized():
        return _NCCL_SECONDS
    try:
        group = distributed._get_default_group()
        timeouts = [group._get_backend(device).options._timeout for device in group._device_types]
        return float(min(timeout.total_seconds() for timeout in timeouts))
    except (AttributeError, RuntimeError, TypeError, ValueError):  # a backend of another kind, or another torch
        return _NCCL_SECONDS if "nccl" in distributed.get_backend() else _SECONDS
