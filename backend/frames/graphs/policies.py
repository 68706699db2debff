"""What chose which results of a checkpoint a graph saves: how it is said, and made again."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from warmgraph.hashing import comes_with_torch, policies_in, policy_text

from ...torch_api.frames.plain import Plain, Refused, from_plain, stands_by_name, to_plain
from ...torch_api.frames.seen import Seen
from ...torch_api.frames.state import HigherOrderOperator
from ...torch_api.operators import OpOverload
from ...typing import Request
from ..record import Texts


def policies_of(request: Request) -> Iterator[tuple[Any, str]]:
    """Each `context_fn` of a checkpoint, which torch asks what to save, and what it does. Raises Refused for one that
    does something else than when the key was made.
    """
    policies = policies_in(request.gm)
    said = {line.strip() for line in request.key.texts()["graph"].splitlines()} if policies else set()
    for policy in policies:
        if f"checkpoint {(text := policy_text(policy))}" not in said:
            raise Refused("a checkpoint's context_fn changes what it reads")
        yield policy, text


def policy_rows(seen: Seen, texts: Texts, place: Callable[[Any], Plain]) -> list[Plain]:
    """place: as `policy_place` takes it."""
    rows = ([policy_place(policy, place), texts.number(text)] for policy, text in seen.policies.values())
    return [*{repr(row): row for row in rows}.values()]  # Dynamo makes one for each call


def policy_place(policy: Any, place: Callable[[Any], Plain]) -> Plain:
    """How it is made again. Dynamo makes a `functools.partial` anew, of parts that are found. place: of a function or
    an operator; raises Refused, as this does.
    """
    if isinstance(policy, types.FunctionType):
        is_torchs = comes_with_torch(policy.__code__.co_filename) and stands_by_name(policy)
        by_name = is_torchs and policy.__globals__.get("__name__") == policy.__module__  # no user's that torch wraps
        return [policy.__module__, policy.__qualname__] if by_name else place(policy)
    if isinstance(policy, OpOverload):
        return place(policy)
    if isinstance(policy, HigherOrderOperator):
        name = str(policy.name())
        if getattr(torch.ops.higher_order, name, None) is not policy:
            raise Refused(f"operator {name}, which no name leads to")
        return {"higher": name}
    if type(policy) is functools.partial:
        if vars(policy):
            raise Refused("a checkpoint's context_fn is a functools.partial with attributes (cache_hash, say)")
        named_ones = [[name, policy_place(value, place)] for name, value in policy.keywords.items()]
        return {"partial": [policy_place(one, place) for one in (policy.func, *policy.args)], "named": named_ones}
    if type(policy) in _COLLECTIONS.values():
        parts = [policy_place(one, place) for one in policy]
        return {type(policy).__name__: sorted(parts, key=repr) if isinstance(policy, (set, frozenset)) else parts}
    return {"plain": to_plain(policy)}


_COLLECTIONS = {kind.__name__: kind for kind in (list, tuple, set, frozenset)}


def policy_at(place: Plain, found: Callable[[Plain], Any]) -> Any:
    """It again. found: of what `place` of `policy_place` gave, what is there in this process."""
    if not isinstance(place, dict):
        return found(place)
    if "partial" in place:
        function, *positional = (policy_at(one, found) for one in place["partial"])
        return functools.partial(function, *positional, **{k: policy_at(v, found) for k, v in place["named"]})
    if "plain" in place:
        return from_plain(place["plain"])
    if "higher" in place:
        return getattr(torch.ops.higher_order, place["higher"])
    ((kind, parts),) = place.items()
    return _COLLECTIONS[kind](policy_at(one, found) for one in parts)
