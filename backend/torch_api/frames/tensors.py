"""Tensors as Dynamo's guards see them."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def is_wrapper_subclass(value: torch.Tensor) -> bool:
    """Whether torch takes it apart."""
    return bool(is_traceable_wrapper_subclass(value))


def dispatch_keys(value: torch.Tensor) -> int:
    return int(torch._C._dispatch_keys(value).raw_repr())


def is_dtensor(value: Any) -> bool:
    """Exactly torch's own class, which Dynamo knows by name: not a subclass of it."""
    return type(value) is getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
