"""What a function's bytecode says of it: what it does, and which names it looks up elsewhere. Follows nothing.

Bytecode and not source: a file may have been edited since it was imported, several lambdas share a line, and what
`exec` made (a dataclass's methods) has no source. The interpreter's version is in the key's toolchain part.
"""

from __future__ import annotations

import dis
import functools
import itertools
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from ..encoding.encode import encode

_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_FREE = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"})
_STORE = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF"})
_NAMED = _GLOBAL | _ATTRIBUTE
_LOADED = _NAMED | _FREE
# Instructions that take one item of a set after the other, and what does when it is called.
_GOING_OVER = frozenset(
    "GET_ITER GET_YIELD_FROM_ITER UNPACK_SEQUENCE UNPACK_EX LIST_EXTEND SET_UPDATE DICT_UPDATE CALL_FUNCTION_EX".split()
)
_ORDERED = frozenset(
    """
    list tuple iter next sorted reversed enumerate zip map filter min max sum any all set frozenset dict fromkeys str
    repr format join pop reduce chain deque OrderedDict extend update __iter__ accumulate product
    """.split()
)
# What a class body looks up to name itself; a function asks for a global of that name.
_UNSAID = frozenset(("LOAD_NAME", name) for name in ("__name__", "__qualname__", "__module__"))
_ASKING = frozenset({"getattr", "hasattr", "attrgetter", "methodcaller"})
_TABLES = frozenset({"vars", "__dict__"})
_SAYING = frozenset({"str", "repr", "ascii", "format"})  # of a function or class, what it is called
_ASKING_ANY = frozenset({"dir", "__getattribute__", "getmembers", "getattr_static"})


class Import(Struct, frozen=True):
    """`import name` or `from name import ...` inside a function; `level` counts the leading dots."""

    name: str
    level: int
    whole: bool  # `from`: the module itself is used, not the package at its top


class Reach(Struct, frozen=True):
    """Names in a function's code and in the functions nested in it.

    loads: global names that it reads. attributes: every attribute that it may ask for by name. paths: global names and
    variables of enclosing functions with the attributes asked of them at once (`torch.ops.mine`: torch, ops, mine); a
    name alone is used as a value. stores: global names and variables of enclosing functions that it assigns. asks: it
    may ask for an attribute by a string, which stands in its code; asks_any: by any. words: the strings in it. parts:
    with which names begin or end that it puts together. goes_over: it may go over a set. used: names and attributes
    that it loads for anything but `... in X`; sets: constant ones.
    """

    loads: frozenset[str]
    attributes: frozenset[str]
    paths: frozenset[tuple[str, ...]]
    stores: frozenset[str]
    imports: tuple[Import, ...]
    asks: bool
    asks_any: bool
    words: frozenset[str]
    parts: frozenset[str]
    goes_over: bool
    used: frozenset[str]
    sets: tuple[frozenset[Any], ...]


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
    attributes: set[str] = set()
    paths: set[tuple[str, ...]] = set()
    imports: list[Import] = []
    used: set[str] = set()
    sets: list[frozenset[Any]] = []
    by_place = goes_over = False
    for nested in codes_in(code):
        before: list[Any] = [None, None]  # the instructions before this one
        outer = {*code.co_freevars}  # what an enclosing function outside `code` owns
        path: tuple[str, ...] = ()
        for instruction in dis.get_instructions(nested):
            name, value = instruction.opname, instruction.argval
            goes_over |= name in _GOING_OVER or (name in _NAMED and value in _ORDERED)
            if name != "CONTAINS_OP" and before[-1] is not None:
                if before[-1].opname in _LOADED:
                    used.add(before[-1].argval)
                elif isinstance(before[-1].argval, frozenset):
                    sets.append(before[-1].argval)
            if name in _ATTRIBUTE:
                attributes.add(value)
                path = (*path, value) if path else ()
            else:
                paths.add(path)
                path = (value,) if (name in _GLOBAL and (name, value) not in _UNSAID) or name in _FREE else ()
            if name in _GLOBAL and (name, value) not in _UNSAID:
                loads.add(value)
            elif name in _STORE and (name.endswith("GLOBAL") or value in outer):
                stores.add(value)
            elif name == "IMPORT_NAME":
                level, wanted = before[-2].argval, before[-1].argval
                imports.append(Import(value, level if isinstance(level, int) else 0, bool(wanted)))
                attributes.update(value.split("."))
            elif name == "IMPORT_FROM":
                attributes.add(value)
            elif name.startswith("FORMAT_") and nested.co_name != "__repr__":  # a dataclass's
                attributes.add("__qualname__")
            elif name == "MATCH_CLASS":  # `case Config(scale=s)` asks for `scale`
                attributes.update(word for word in _words(before[-1].argval))
                by_place |= bool(instruction.arg)  # `case Config(s)`: what its class says in `__match_args__`
            before = [before[-1], instruction]
        paths.add(path)
    names = {name for nested in codes_in(code) for name in nested.co_names}
    if not _SAYING.isdisjoint(names):
        attributes.add("__qualname__")
    asked = [_asked_names(nested) for nested in codes_in(code)] if not (_ASKING | _TABLES).isdisjoint(names) else []
    words = {word for nested in codes_in(code) for constant in nested.co_consts for word in _words(constant)}
    return Reach(
        loads=frozenset(loads),
        attributes=frozenset(attributes),
        paths=frozenset(paths - {()}),
        stores=frozenset(stores),
        imports=tuple(imports),
        asks=by_place or not (_ASKING | _TABLES).isdisjoint(names),
        asks_any=not _ASKING_ANY.isdisjoint(names) or any(anyhow for anyhow, _ in asked),
        words=frozenset(words),
        parts=frozenset().union(*(parts for _, parts in asked)),
        goes_over=goes_over,
        used=frozenset(used),
        sets=tuple(sets),
    )


def _asked_names(code: types.CodeType) -> tuple[bool, set[str]]:
    """How `getattr` and its like get their names in `code`: (whether anyhow, constant parts of f-strings).

    A name that stands there, that is an argument, or that a loop gives, is one of the strings in the code; what a call
    or an attribute gives may be any.
    """
    instructions = [single for i in dis.get_instructions(code) if i.opname not in _SKIPPED for single in _singles(i)]
    given = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}
    for before, this in itertools.pairwise(instructions):
        if before.opname == "FOR_ITER" and this.opname.startswith("STORE_FAST"):
            given.add(str(this.argval))
    anyhow, parts = False, set[str]()
    for at, instruction in enumerate(instructions):
        if instruction.opname not in (*_GLOBAL, *_ATTRIBUTE, *_FREE):
            continue
        if instruction.argval in _ASKING:
            found = _name_of_call(instructions, at, given)
            anyhow = anyhow or found is None
            parts |= found or set()
        elif instruction.argval in _TABLES:  # `vars(config)["scale"]`
            items = [n for n in range(at + 1, min(at + 6, len(instructions))) if instructions[n].opname == _ITEM]
            anyhow = anyhow or not any(_is_written(instructions[n - 1], given) for n in items)
    return anyhow, parts


def _singles(instruction: dis.Instruction) -> list[dis.Instruction]:
    """One for each variable: since Python 3.13 an instruction may load or store two."""
    if not isinstance(instruction.argval, tuple) or "_FAST_" not in instruction.opname:
        return [instruction]
    names = _FAST.findall(instruction.opname)
    return [instruction._replace(opname=n, argval=v) for n, v in zip(names, instruction.argval, strict=True)]


_FAST = re.compile(r"(?:LOAD|STORE)_FAST(?:_BORROW)?")
_ITEM = "BINARY_SUBSCR" if sys.version_info < (3, 14) else "BINARY_OP"


def _name_of_call(instructions: list[dis.Instruction], at: int, given: set[str]) -> set[str] | None:
    """Parts of the name that the `getattr` loaded at `at` is called with; None if it may be any name.

    Its call is the one after which its result is all that is left of what was loaded since.
    """
    depth = _left_by(instructions[at])
    for call in range(at + 1, len(instructions)):
        depth += _left_by(instructions[call])
        if depth > 1 or not instructions[call].opname.startswith("CALL"):
            continue
        if instructions[call].argval not in (1, 2, 3):
            return None
        name = instructions[call - (2 if instructions[call].argval == 3 else 1)]
        if _is_written(name, given):
            return set()
        if name.opname == "BUILD_STRING":
            near = instructions[max(0, call - 3 * (name.argval or 1) - 2) : call]
            return {i.argval for i in near if i.opname == "LOAD_CONST" and isinstance(i.argval, str)} or None
        return None
    return None


def _is_written(name: dis.Instruction, given: set[str]) -> bool:
    """Whether what is loaded is a text in the code, or an argument or a loop's variable that may be one."""
    return (name.opname == "LOAD_CONST" and isinstance(name.argval, str)) or (
        name.opname.startswith("LOAD_FAST") and name.argval in given
    )


_SKIPPED = frozenset({"PRECALL", "PUSH_NULL", "KW_NAMES", "NOP"})


def _left_by(this: dis.Instruction) -> int:
    """By how much an instruction changes the stack, without the NULLs that Python pushes beside what it calls."""
    name, argument = this.opname, this.arg if this.opcode >= dis.HAVE_ARGUMENT else None
    if name.startswith(("LOAD_FAST", "STORE_FAST")):  # one of two, since 3.13
        return 1 if name.startswith("LOAD") else -1
    if name.startswith("CALL") and name not in ("CALL_INTRINSIC_1", "CALL_INTRINSIC_2", "CALL_FUNCTION_EX"):
        return -int(this.argval or 0) - (1 if name.endswith("_KW") else 0)
    if name in _ATTRIBUTE:
        return -2 if name == "LOAD_SUPER_ATTR" else 0
    if name in _GLOBAL:
        return 1
    return dis.stack_effect(this.opcode, argument, jump=False)


def _words(constant: Any) -> Iterator[str]:
    """The strings in a constant of a function's code."""
    if isinstance(constant, str):
        yield constant
    elif isinstance(constant, (tuple, frozenset)):
        for item in constant:
            yield from _words(item)


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """It, and the functions nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_in(constant)
