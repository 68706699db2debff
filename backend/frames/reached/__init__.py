"""What a frame can reach of data: the walk over it, where it begins, and which values are one."""

from __future__ import annotations

from .places import module_with
from .roots import everything_is_asked, free_numbers, reach
from .sharing import one_text, sharing_of

__all__ = ["everything_is_asked", "free_numbers", "module_with", "one_text", "reach", "sharing_of"]
