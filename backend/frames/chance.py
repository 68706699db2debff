"""What gives something else in each process, or each time, and is folded in where a frame is traced."""

from __future__ import annotations

import builtins
import random
import sys
import types
from typing import Any

# Builtins that give something else in each process, or change it, while they are traced.
STATEFUL = frozenset("autocast_increment_nesting autocast_decrement_nesting initial_seed".split())
# What they give is folded in. Python's own library asks for some, and only code of the user's is refused for it.
OF_A_PROCESS = {
    name: getattr(owner, name)
    for owner, name in (
        (builtins, "id"),
        (builtins, "hash"),
        (sys, "getrecursionlimit"),
        (sys, "get_int_max_str_digits"),
    )
    if hasattr(owner, name)  # the last since Python 3.10.7
}
HARMLESS = frozenset(
    """
    sys.exc_info sys.intern sys.audit sys.getsizeof sys.is_finalizing sys.getrecursionlimit sys.get_int_max_str_digits
    """.split()
)

# Modules whose functions give something else each time.
CHANCE = frozenset("random secrets uuid time datetime".split())


def is_of_a_process(value: Any) -> bool:
    """Whether it is one of OF_A_PROCESS."""
    return any(value is one for one in OF_A_PROCESS.values())


def is_chance(value: Any) -> bool:
    """Whether it gives, or is part of what gives, something else each time."""
    bound = isinstance(value, (types.MethodType, types.BuiltinMethodType))
    return isinstance(value.__self__ if bound else value, random.Random)
