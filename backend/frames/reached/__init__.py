"""What a frame can reach of data: the walk over it, where it begins, and which values are one."""

from __future__ import annotations

from .places import are_names_said, has_hooks_said, places_of
from .roots import everything_is_asked, free_numbers, reach
from .sharing import one_text, sharing_of

__all__ = [
    "are_names_said",
    "everything_is_asked",
    "free_numbers",
    "has_hooks_said",
    "one_text",
    "places_of",
    "reach",
    "sharing_of",
]
