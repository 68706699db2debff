"""Tensors as Dynamo's guards see them."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def is_wrapper_subclass(value: torch.Tensor) -> bool:
    """Whether torch takes it apart."""
    return bool(is_traceable_wrapper_subclass(value))


def dispatch_keys(value: torch.Tensor) -> int:
    return int(torch._C._dispatch_keys(value).raw_repr())
