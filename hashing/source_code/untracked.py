"""What a function may use that no walk of its code can follow: the interpreter's own state, files. Walks nothing."""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import inspect
import itertools
import types
from typing import Any

from ..encoding.encode import Uncacheable, encode
from ..encoding.values import bound_cells, place_of
from ..origin import foreign, is_torch_or_stdlib, named_by_torch
from .purity import frames_asked
from .references import Reach, codes_in, reach_of
from .saying import is_code

# Builtins through which a function sees more than its names say.
_OUTSIDE = frozenset("eval exec compile globals __import__ open input breakpoint".split())
# The same, asked of `cache_hash` alone.
_TABLES = frozenset("vars locals dir".split())
# Methods of containers (`add` is one of tensors as well).
_CHANGING = frozenset(
    "append appendleft extend insert update setdefault pop popleft popitem remove discard clear".split()
)
MORE = (
    "so what it does depends on more than its code; tell what on with warmgraph.describe, or pass that as an argument"
)


def reject_untracked_inputs(function: types.FunctionType, reach: Reach, *, strict: bool) -> None:
    """Raise Uncacheable, naming the place, if `function` may depend on what no name in it leads to."""
    space = function.__globals__
    outside = sorted((reach.loads & (_OUTSIDE | _TABLES if strict else _OUTSIDE)) - space.keys())
    if (frame := frames_asked(reach.attributes)) is not None:
        outside.append(frame)
    if outside:
        raise Uncacheable(f"{place_of(function)} uses {outside[0]}, {MORE}")
    if not strict:
        return
    if reach.stores:
        stored = min(reach.stores)
        raise Uncacheable(f"{place_of(function)} changes {stored}, so what it does depends on earlier calls")
    unknown = sorted(reach.loads - space.keys() - vars(builtins).keys())
    if unknown:
        raise Uncacheable(
            f"{place_of(function)} refers to {unknown[0]}, which is not defined (yet): ask when everything is"
        )


@functools.lru_cache(maxsize=4096)
def changes_objects(code: types.CodeType, made: tuple[str, ...] = ()) -> str | None:
    """In words, what it does that may change an object which was there before; None for nothing.

    Not that it sets attributes of `ctx`, which autograd makes for each call, or of what an `__init__` makes, nor
    that it fills a list of its own. made: other variables whose attributes it may set.
    """
    if _CHANGING & reach_of(code).attributes and (called := set().union(*map(_changing_calls, codes_in(code)))):
        return f"calls {min(called)}()"
    for nested in codes_in(code):
        own = {"ctx", *made, *(nested.co_varnames[:1] if nested.co_name in ("__init__", "__post_init__") else ())}
        before: Any = None
        for one in dis.get_instructions(nested):
            if one.opname in ("STORE_ATTR", "DELETE_ATTR"):
                loaded = before.argval if "LOAD_FAST" in before.opname else None
                if (loaded[-1] if isinstance(loaded, tuple) else loaded) not in own:  # two at once, since 3.12
                    return f"sets attribute {one.argval}"
            elif one.opname in ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"):
                return "sets items"
            before = one
    return None


def _changing_calls(code: types.CodeType) -> set[str]:
    """Methods that change what they are asked of, but for variables that are only given what is written there."""
    instructions = list(dis.get_instructions(code))
    pairs = list(itertools.pairwise(instructions))
    made = [one for before, one in pairs if before.opname.startswith(_DISPLAYS) and not one.is_jump_target]
    own = {one.argval for one in made if one.opname == "STORE_FAST"}
    others = [one.argval for one in instructions if "STORE_FAST" in one.opname and one not in made]
    given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    own = own.difference(given, *((name,) if type(name) is str else name for name in others))  # two since 3.13
    return {
        one.argval
        for before, one in pairs
        if one.argval in _CHANGING
        and (one.is_jump_target or not before.opname.startswith("LOAD_FAST") or before.argval not in own)
    }


_DISPLAYS = ("BUILD_LIST", "BUILD_MAP", "BUILD_SET")


def given_before(cached: Any) -> str | None:
    """Raise Uncacheable for a function of `functools.lru_cache` that may give what was computed from earlier state.

    One that is still empty is computed now; one that reads nothing but its arguments and torch's own functions gives
    the same at any time, if it asks none of them for torch's state. Of one without arguments, what it gives (as text).
    """
    function = cached.__wrapped__
    if not isinstance(function, types.FunctionType) or named_by_torch(function) or not cached.cache_info().currsize:
        return None
    reach = reach_of(function.__code__)
    values = {**bound_cells(function), **{name: function.__globals__.get(name) for name in reach.loads}}
    earlier = [name for name, value in values.items() if not _is_the_same_ever(value)]
    earlier += sorted(name for name in (reach.attributes | values.keys()) - _OF_TENSORS if name.startswith(_STATE))
    if not earlier:
        return None
    code = function.__code__
    if not (code.co_argcount or code.co_kwonlyargcount or code.co_flags & _ANY_ARGUMENTS):
        with contextlib.suppress(Uncacheable):
            return encode(cached())  # it is there: nothing runs
    raise Uncacheable(
        f"{place_of(function)} is cached by functools and was called before; what it gave then may come from "
        f"another {earlier[0]}, {MORE}"
    )


def _is_the_same_ever(value: Any) -> bool:
    if isinstance(value, types.ModuleType):
        return is_torch_or_stdlib(value.__name__)
    return value is None or (is_code(value) and foreign(value) is None)


_STATE = ("get_", "is_", "are_", "_get_", "_is_", "current_", "initial_seed", "backends")  # names of what torch asks
_OF_TENSORS = frozenset("is_tensor is_complex is_contiguous is_floating_point is_nonzero is_signed".split())
_ANY_ARGUMENTS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
