"""What a frame can reach of data: the walk over it, where it begins, and which values are one."""

from __future__ import annotations

from .places import module_with
from .roots import everything_is_asked, free_numbers, reach
from .sharing import one_text, sharing_of
from .spaces import globals_held, globals_of, scope_of, space_at, spaces_of

__all__ = [
    "everything_is_asked", "free_numbers", "globals_of", "globals_held", "module_with", "one_text", "reach",
    "scope_of", "sharing_of", "space_at", "spaces_of",
]  # fmt: skip
