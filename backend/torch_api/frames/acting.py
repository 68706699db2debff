"""What acts at once where Dynamo traces a call of it: a restored frame would leave it undone."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch._dynamo.decorators import DynamoConfigPatchProxy, ErrorOnGraphBreakDecoratorContextManager

# How torch's own `mark_static` (of which `flex_attention` asks) makes a size fixed: it is so in the record.
_BY_TORCH = ("G['__import_torch_dot__dynamo_dot_decorators'].comptime", "G['__import_torch_dot__dynamo_dot_comptime']")


def acts_while_traced(value: Any, name: str) -> str | None:
    """In words; None for what is traced. name: of its source."""
    module = sys.modules.get("torch._dynamo.comptime")
    if module is not None and (value is module or value is module.comptime) and not name.startswith(_BY_TORCH):
        return "comptime"
    if isinstance(value, (DynamoConfigPatchProxy, ErrorOnGraphBreakDecoratorContextManager)):
        return "a setting of Dynamo"
    if value is torch.seed or value is torch.initial_seed:
        return "a random seed"
    return None
