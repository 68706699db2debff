"""What a function's bytecode says of it: what it does, and which names it looks up elsewhere. Follows nothing.

Bytecode and not source: a file may have been edited since it was imported, several lambdas share a line, and what
`exec` made (a dataclass's methods) has no source. The interpreter's version is in the key's toolchain part.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .encode import encode

_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_STORE = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF"})
_UNSAID = frozenset({"__name__", "__qualname__", "__module__"})  # what a class body looks up to name itself
_ASKING = frozenset({"getattr", "hasattr", "vars", "attrgetter", "methodcaller", "__dict__", "__getattribute__"})


@dataclass(frozen=True, slots=True)
class Import:
    """`import name` or `from name import ...` inside a function; `level` counts the leading dots."""

    name: str
    level: int
    whole: bool  # `from`: the module itself is used, not the package at its top


@dataclass(frozen=True, slots=True)
class Reach:
    """Names in a function's code and in the functions nested in it.

    loads: global names that it reads. names: those and every attribute it may ask for. stores: global names and
    variables of enclosing functions that it assigns. asks: it may ask for an attribute by a string. words: the
    strings in it. operators: how it came by `ops`, and what it asks it for (`torch.ops.mine`: torch, ops; mine).
    """

    loads: frozenset[str]
    names: frozenset[str]
    stores: frozenset[str]
    imports: tuple[Import, ...]
    asks: bool
    words: frozenset[str]
    operators: frozenset[tuple[tuple[str, ...], str]]


def meaning(code: types.CodeType) -> str:
    """Canonical text of all that decides what `code` does, given its globals and closure. No names, lines or paths."""
    arguments = code.co_argcount + code.co_kwonlyargcount
    constants = [f"code {meaning(c)}" if isinstance(c, types.CodeType) else encode(c) for c in code.co_consts]
    return encode(
        [
            code.co_code,
            getattr(code, "co_exceptiontable", b""),
            [code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount],
            code.co_varnames[:arguments],  # arguments may be passed by name
            code.co_names,
            [code.co_freevars, code.co_cellvars],
            constants,
        ]
    )


@functools.lru_cache(maxsize=4096)
def reach_of(code: types.CodeType) -> Reach:
    """What `code` looks up, stores and imports."""
    loads: set[str] = set()
    stores: set[str] = set()
    operators: set[tuple[tuple[str, ...], str]] = set()
    imports: list[Import] = []
    for nested in _codes(code):
        before: list[Any] = [None, None, None]  # the instructions before this one
        outer = {*code.co_freevars}  # what an enclosing function outside `code` owns
        for instruction in dis.get_instructions(nested):
            name, value = instruction.opname, instruction.argval
            if name in _GLOBAL and value not in _UNSAID:
                loads.add(value)
            elif name in _STORE and (name.endswith("GLOBAL") or value in outer):
                stores.add(value)
            elif name == "IMPORT_NAME":
                level, wanted = before[-2].argval, before[-1].argval
                imports.append(Import(value, level if isinstance(level, int) else 0, bool(wanted)))
            elif name in _ATTRIBUTE and before[-1] is not None and before[-1].argval == "ops":
                owner = before[-2].argval if before[-1].opname in _ATTRIBUTE and before[-2] is not None else None
                operators.add(((owner, "ops") if isinstance(owner, str) else ("ops",), value))
            before = [*before[1:], instruction]
    names = {name for nested in _codes(code) for name in nested.co_names}
    words = {c for nested in _codes(code) for c in nested.co_consts if isinstance(c, str)}
    asks = not _ASKING.isdisjoint(names)
    names |= {part for imported in imports for part in imported.name.split(".")}
    return Reach(
        loads=frozenset(loads),
        names=frozenset(names),
        stores=frozenset(stores),
        imports=tuple(imports),
        asks=asks,
        words=frozenset(words),
        operators=frozenset(operators),
    )


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
