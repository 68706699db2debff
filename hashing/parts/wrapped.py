"""Calls made through `torch.fx.wrap`: by the user's hash, or a reason that names the function and what to set.

Such a function is a leaf of the graph, and AOTAutograd calls it while it traces: its code reaches the compiled
result, and no node says what it is.
"""

from __future__ import annotations

from typing import Any

from ..encoding.encode import Cause, Uncacheable, encode
from ..encoding.targets import identify, needs_source
from ..encoding.values import name_of, place_of


def wrapped_call(target: Any, user_hash: Any) -> str:
    """Identity of a wrapped call: the function's name and `node.meta["user_cache_hash"]`. Raises Uncacheable.

    The name as well, since "v1" is a hash that several functions have. The user vouches for the rest.
    """
    if not user_hash:
        return _unhashed(target)
    try:
        told = encode(user_hash)
    except Uncacheable as bad:
        raise Uncacheable(
            f"node.meta['user_cache_hash'] for {place_of(target)}: {bad}; set it to a string", Cause.WRAPPED_CALL
        ) from None
    return f"wrapped {encode([getattr(target, '__module__', None), name_of(target)])} {told}"


def _unhashed(target: Any) -> str:
    """Functions of Python and torch are what their names say (a symbolic trace wraps `math`'s without being asked)."""
    if not needs_source(target):
        try:
            return identify(target)
        except Uncacheable:
            pass  # it only claims to be torch's
    raise Uncacheable(
        f"it calls {place_of(target)} through torch.fx.wrap, and nothing says what that function does. Set "
        f"node.meta['user_cache_hash'] on this node to warmgraph.cache_hash({name_of(target).rpartition('.')[2]}), "
        "or to a string of your own that changes whenever the function's behaviour does",
        Cause.WRAPPED_CALL,
    )
