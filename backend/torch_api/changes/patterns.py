"""Patterns that code outside torch added to Inductor's own passes (`register_graph_pattern` and its like)."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from operator import is_
from types import FunctionType
from typing import Any

from warmgraph.hashing import bound_cells, foreign

from ..compile import freezing

_PASSES = "torch._inductor.fx_passes."
_FREEZING = _PASSES + "freezing_patterns"  # run while weights are frozen alone
_OURS = "torch._inductor."  # where Inductor's own patterns are made of functions
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def foreign_patterns(clean: set[Any]) -> dict[str, Any]:
    """Name -> what a pattern from outside is made of: its text, and the functions that check and replace.

    clean: as `foreign` takes it.
    """
    global _read
    passes = list(_passes())
    parts = [
        part
        for _, pass_ in passes
        for some in (*pass_.patterns.values(), (pass_,))
        for entry in some
        for part in (entry, *vars(entry).values())
    ]
    fusions = list(_fusions())
    parts += [fusion for _, fusion in fusions]
    if len(parts) != len(_read[0]) or not all(map(is_, parts, _read[0])):
        found: dict[str, Any] = {}
        for name, pass_ in passes:
            found |= _foreign_in(name, pass_, clean)
        found |= {f"fusion {name}": fusion for name, fusion in fusions if foreign(fusion) is not None}
        _read = parts, found  # the parts themselves: one that is gone could leave its address to another
    return _read[1]


_read: tuple[list[Any], dict[str, Any]] = ([], {})


def _foreign_in(name: str, pass_: Any, clean: set[Any]) -> dict[str, Any]:
    hung = {part: value for part, value in vars(pass_).items() if foreign(value, clean) is not None}
    found: dict[str, Any] = {f"{part} of {name}": value for part, value in hung.items() if part != "patterns"}
    # In the order of what they begin with: torch adds its own, for others, when it first compiles.
    for (op, target), entries in sorted(pass_.patterns.items(), key=lambda item: _ADDRESS.sub("", str(item[0]))):
        for entry in entries:
            parts = {part: value for part, value in vars(entry).items() if part != "pattern"}
            if any(_is_foreign(value, clean) for value in (type(entry), *parts.values())):
                # Numbered among themselves: torch adds its own when it first compiles for a device.
                text, kind = pattern_text(entry.pattern), type(entry)
                made_of = kind if foreign(kind, clean) is not None else kind.__qualname__  # torch's, as it made it
                found[f"pattern {len(found)} of {name}"] = [op, target, text, made_of, parts]
    return found


def _is_foreign(value: Any, clean: set[Any]) -> bool:
    """Also a function that holds one which Inductor has not itself: `register_replacement` may be given functions of
    torch's.
    """
    if foreign(value, clean) is not None:
        return True
    held = bound_cells(value).values() if isinstance(value, FunctionType) else ()
    functions = [inspect.unwrap(getattr(one, "func", one)) for one in held]
    return any(isinstance(one, FunctionType) and not str(one.__module__).startswith(_OURS) for one in functions)


def pattern_text(pattern: Any) -> str:
    """A pattern's own account of itself; it names operators, not addresses."""
    return _ADDRESS.sub("", repr(pattern))


def is_pattern(value: Any) -> bool:
    """Whether `value` is an expression or a cache of the pattern matcher, or a pass of torch's: no code of a user's."""
    matcher: Any = sys.modules.get("torch._inductor.pattern_matcher")
    if matcher is None:
        return False
    cache = getattr(matcher, "_SpecificPatternCache", ())  # since 2.15
    if isinstance(value, matcher.PatternMatcherPass):
        return any(value is known for _, known in _passes())
    return isinstance(value, (matcher.PatternExpr, cache))


_found: tuple[tuple[int, bool], list[tuple[str, Any]]] = ((0, False), [])


def _passes() -> list[tuple[str, Any]]:
    """Every pass of Inductor's that matches patterns, by the name that leads to it."""
    global _found
    if _found[0] != (now := (len(sys.modules), freezing())):
        _found = now, list(_passes_anew())
    return _found[1]


def _passes_anew() -> Iterator[tuple[str, Any]]:
    matcher: Any = sys.modules.get("torch._inductor.pattern_matcher")
    if matcher is None:
        return
    seen = set()
    for module in [sys.modules[name] for name in sorted(sys.modules) if name.startswith(_PASSES)]:
        if module.__name__ == _FREEZING and not freezing():
            continue
        for attribute, value in tuple(vars(module).items()):
            named = {"": value}
            if isinstance(value, (list, tuple)):
                named = {f"[{number}]": item for number, item in enumerate(value)}
            elif type(value) is dict:
                named = {f"[{key}]": item for key, item in value.items()}
            for key, item in named.items():
                if isinstance(item, matcher.PatternMatcherPass) and id(item) not in seen:
                    seen.add(id(item))
                    yield f"{module.__name__}.{attribute}{key}", item


def _fusions() -> Iterator[tuple[str, Any]]:
    fusions: Any = sys.modules.get(_PASSES + "group_batch_fusion")
    for table in ("PRE_GRAD_FUSIONS", "POST_GRAD_FUSIONS"):
        for name, fusion in getattr(fusions, table, {}).items():
            yield f"{table}[{name}]", fusion if isinstance(fusion, type) else type(fusion)
