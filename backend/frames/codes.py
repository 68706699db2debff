"""Code objects by what they execute, and the names that they ask for; what of that is another thing in each process."""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import itertools
import marshal
import random
import re
import string
import sys
import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from warmgraph.hashing import Uncacheable, encode, reach_of, said_with, sha256_hex, untraced_texts

from ..torch_api.frames.devices import of_one_device
from ..torch_api.frames.orders import NEVER, SAME, order_of
from ..torch_api.frames.plain import NotServed, Refused, nested
from ..torch_api.frames.ran import BUSY, name_of
from ..torch_api.frames.seen import Seen
from ..torch_api.frames.state import is_loaded_again, is_namespace_of_operators
from .classes import is_known

# By identity, kept alive: equal code objects of two functions may still differ in their lines.
_digests: dict[int, tuple[types.CodeType, str]] = {}


def code_digest(code: types.CodeType) -> str:
    """16 hex digits for what `code` executes, nested code included. No paths and no lines. Raises Refused."""
    found = _digests.get(id(code))
    if found is None:
        try:
            content = marshal.dumps(_plain(code), _ALIKE)
        except Uncacheable as bad:
            raise Refused(f"the code of {code.co_name}: {bad}") from None
        found = _digests[id(code)] = (code, sha256_hex(content)[:16])
    return found[1]


# The newest format of `marshal` in which equal values are equal bytes: later ones say what is one object, or interned.
_ALIKE = 2
_EXACT = frozenset(map(type, (None, True, 0, b"", "", ...)))


def _plain(code: types.CodeType) -> tuple[Any, ...]:
    """What `hashing.meaning` says, and what code may say of itself (`inner.__name__`, `locals()`), and sets in the
    order in which it goes over them. As Python has it: a restore asks for a thousand.
    """
    return (
        (code.co_code, getattr(code, "co_exceptiontable", b"")),
        (code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        (code.co_name, getattr(code, "co_qualname", "")),
        (code.co_varnames, code.co_names, code.co_freevars, code.co_cellvars),
        *[
            value if type(value) in _EXACT else _constant(value)
            for value in code.co_consts
            if not (type(value) is int and _is_hash_of_attrs(code))
        ],
    )


def _is_hash_of_attrs(code: types.CodeType) -> bool:
    """A `__hash__` that attrs generated: its number is the hash of a text, which each process has of its own. A frame
    that traces through it is refused.
    """
    return code.co_name == "__hash__" and code.co_filename.startswith("<attrs generated")


def _constant(value: Any) -> tuple[Any, ...]:
    if isinstance(value, types.CodeType):
        return _plain(value)
    of_numbers = isinstance(value, frozenset) and {*map(type, value)} <= {bool, int, float}
    return encode(value), f"{value}" if of_numbers else ""


def function_name(function: Any) -> str:
    """Where a function says it is from, and where it looks for globals: `functools.wraps` lends it another's module."""
    space = function.__globals__
    module = str(space.get("__name__"))
    other = "" if getattr(sys.modules.get(module), "__dict__", None) is space else " of another module"
    return f"{function.__module__}.{function.__qualname__} {function.__name__} {module}{other}"


def reads_globals(code: types.CodeType) -> bool:
    """Or code nested in it does; also those of Python, of which anybody may have put another one there."""
    reach = reach_of(code)
    return bool(reach.loads or reach.stores or reach.imports)


def iterates_over_sets(codes: Iterable[types.CodeType]) -> bool:
    """Whether code may depend on the order of a constant set of texts, which each process shuffles. Raises Refused for
    a set whose order no two processes share.
    """
    for outer in codes:
        for code in (outer, *nested(outer)):
            if any(map(_is_shuffled, code.co_consts)):
                instructions = list(dis.get_instructions(code))
                for at, this in enumerate(instructions):
                    if this.opname == "LOAD_CONST" and _is_shuffled(this.argval) and not _is_asked(instructions, at):
                        if order_of(this.argval) == NEVER:
                            raise Refused(f"{code.co_name} goes over a set whose order differs from process to process")
                        return True
    return False


def makes_sets(codes: Iterable[types.CodeType]) -> bool:
    """Whether code may go over a set that it makes: of texts in an order that each process has for itself."""
    for code in codes:
        if {"set", "frozenset"}.intersection(code.co_names):
            return True
        instructions = list(dis.get_instructions(code))
        if any(
            this.opname == "BUILD_SET" and then.opname != "CONTAINS_OP"
            for this, then in itertools.pairwise(instructions)
        ):
            return True
    return False


def _is_asked(instructions: Sequence[dis.Instruction], at: int) -> bool:
    """Whether code only asks a constant set for items: at once, or by a variable (`known = {"a", "b", "c"}`)."""
    after = instructions[at + 1]
    if after.opname != "SET_UPDATE" or (store := instructions[at + 2]).opname != "STORE_FAST":
        return after.opname == "CONTAINS_OP"
    for this, then in itertools.pairwise(instructions):
        names = this.argval if isinstance(this.argval, tuple) else (this.argval,)  # since 3.13 two at once
        if this is store or store.argval not in names or "_FAST" not in this.opname:
            if this.argval == "locals":
                return False
        elif names[-1] != store.argval or then.opname != "CONTAINS_OP":
            return False
    return True


def users_code(codes: Mapping[types.CodeType, Mapping[str, Any]]) -> list[types.CodeType]:
    """Those of `codes`, which are given with their globals, that are not torch's and not the standard library's."""
    return [code for code, space in codes.items() if not is_known(str(space.get("__name__", "")))]


def looked_names(codes: Mapping[types.CodeType, Mapping[str, Any]]) -> set[str]:
    """Names of which code of the user's may ask whether they are there: by `hasattr`, by `getattr`, or in a `try`."""
    whole = [(code, *nested(code)) for code in users_code(codes)]
    looking = [one for one in itertools.chain(*whole) if _LOOKS & {*one.co_names} or _instructions_say(one)[0]]
    return asked_names(looking)


_LOOKS = frozenset(("hasattr", "getattr"))


def compares_identity(codes: Mapping[types.CodeType, Mapping[str, Any]]) -> bool:
    """Whether code of the user's asks by `is` for anything but None, True and False. codes: with their globals."""
    return any(_instructions_say(code)[1] for outer in users_code(codes) for code in (outer, *nested(outer)))


@functools.lru_cache(maxsize=1 << 14)  # most code is traced through in many frames
def _instructions_say(code: types.CodeType) -> tuple[bool, bool, frozenset[str]]:
    """Whether it handles errors, whether it compares identities (`compares_identity`), and which modules it imports."""
    handles = compares = plain = False
    imported = set()
    for this in dis.get_instructions(code):
        handles |= this.opname in ("SETUP_FINALLY", "PUSH_EXC_INFO")
        compares |= this.argval in _IDENTITY or (this.opname == "IS_OP" and not plain)
        plain = this.opname == "LOAD_CONST" and this.argval in (None, True)
        if this.opname == "IMPORT_NAME":
            imported.add(str(this.argval))
    return handles, compares, frozenset(imported)


_IDENTITY = ("is_", "is_not")  # of `operator`


def _is_shuffled(value: Any) -> bool:
    return isinstance(value, frozenset) and order_of(value) != SAME


def asked_names(codes: Iterable[types.CodeType]) -> set[str]:
    """Names of globals and attributes that code asks for, and its texts, which may be such names."""
    names: set[str] = set()
    for code in codes:
        for one in (code, *nested(code)):
            names.update(one.co_names)
            for constant in one.co_consts:
                words = constant if isinstance(constant, (tuple, frozenset)) else (constant,)
                names.update(word for word in words if isinstance(word, str) and word.isidentifier())
                if isinstance(constant, str) and "{" in constant:
                    names.update(_fields(constant))
    return names


def _fields(text: str) -> Iterator[str]:
    """Names of attributes in a text for `format`."""
    with contextlib.suppress(ValueError):
        for _, field, _, _ in string.Formatter().parse(text):
            yield from re.findall(r"[^\W\d]\w*", field or "")


def imported_names(codes: Mapping[types.CodeType, Mapping[str, Any]]) -> set[str]:
    """Modules that code of the user's imports while it runs. codes: with their globals."""
    inner = (code for outer in users_code(codes) for code in (outer, *nested(outer)))
    return {name for code in inner for name in _instructions_say(code)[2]}


# -- what gives something else in each process, or each time, and is folded in where a frame is traced

# Builtins that give something else in each process, or change it, while they are traced.
STATEFUL = frozenset("autocast_increment_nesting autocast_decrement_nesting initial_seed".split())
# What they give is folded in. Python's own library asks for some, and only code of the user's is refused for it.
OF_A_PROCESS = (id, hash, sys.getrecursionlimit, getattr(sys, "get_int_max_str_digits", None))  # from 3.10.7 on
HARMLESS = frozenset(
    """
    sys.exc_info sys.intern sys.audit sys.getsizeof sys.is_finalizing sys.getrecursionlimit sys.get_int_max_str_digits
    """.split()
)

# Modules whose functions give something else each time.
CHANCE = frozenset("random secrets uuid time datetime".split())


def is_of_a_process(value: Any) -> bool:
    """Whether it is one of OF_A_PROCESS."""
    return value is not None and any(value is one for one in OF_A_PROCESS)


def is_chance(value: Any) -> bool:
    """Whether it gives, or makes, or is part of what gives, something else each time."""
    if isinstance(value, type) and issubclass(value, random.Random):
        return True
    bound = isinstance(value, (types.MethodType, types.BuiltinMethodType))
    return isinstance(value.__self__ if bound else value, random.Random)


def module_text(module: types.ModuleType) -> str:
    """Which module it is, by its name. Raises Refused for one that is not found by that."""
    if is_namespace_of_operators(module):
        return f"ops:{module.__name__}"
    name, again = module.__name__, is_loaded_again(module)
    if not again and sys.modules.get(name) is not module:
        spec = getattr(module, "__spec__", None)  # `_collections_abc` calls itself `collections.abc`
        name = getattr(spec, "name", name)
        if sys.modules.get(name) is not module:
            raise Refused(f"module {module.__name__} is not the one of that name")
    if name in CHANCE:
        raise Refused(f"it reads module {name}: what that gives may be folded in")
    return f"module:{name}{' again' * again}"


def untraced(values: Sequence[Any]) -> dict[int, str]:
    """What runs for values while a frame is traced, and is not traced itself, by their ids (`hashing.untraced`). Raises
    Refused.
    """
    try:
        return dict(zip(map(id, values), untraced_texts(values), strict=True)) if values else {}
    except Uncacheable as why:
        raise Refused(str(why)) from None


def said_beside(values: Sequence[Any], seen: Seen) -> tuple[set[types.CodeType], set[types.CodeType]]:
    """Code that ran for values, and of which `untraced` speaks: the user's, and packages' that are known as a whole.

    Raises Refused where it changed what it reads.
    """
    told = {place: text for place, (_, text) in seen.untraced.items()}
    try:
        return said_with(values, [code for code in seen.ran if code is not BUSY], told)
    except Uncacheable as why:
        raise Refused(str(why)) from None


def refuse_of_a_process(value: Any, source: str, codes: Mapping[types.CodeType, Mapping[str, Any]]) -> None:
    """Raises Refused for one of OF_A_PROCESS that code of the user's reads: Python's own library may.

    source: by which the trace read it. Code that names it may not have come there.
    """
    if not is_of_a_process(value):
        return
    name, root = value.__name__, source.removeprefix("G['__import_").partition("'")[0].replace("_dot_", ".")
    by_library = source.startswith("G['__import_") and is_known(root) and root not in ("builtins", "sys")
    if not by_library and not source.startswith("G['__builtins_dict__"):
        raise Refused(f"it calls {name}() by another name, which differs from process to process")
    for code in users_code(codes):
        if name in code.co_names and name not in codes[code]:
            raise Refused(f"{code.co_name} asks for {name}(), which differs from process to process")


def refuse_chance(
    codes: Mapping[types.CodeType, Mapping[str, Any]], seen: Seen, said: Collection[types.CodeType]
) -> None:
    """What differs from process to process, or with the place of code in its file, and Dynamo folds in. Raises Refused.

    codes: those that were traced through, with their globals. said: code that may run (`said_beside`).
    """
    if BUSY in seen.ran:
        raise NotServed("another profiler is on: what runs while a frame is traced is not seen")
    if others := set(seen.ran).difference(said):
        raise Refused(f"{min(map(name_of, others))} runs while it is traced, instead of being traced")
    if seen.chance:
        raise Refused(f"it folds in {seen.chance[0]}")
    for code in users_code(codes):
        if _is_hash_of_attrs(code):
            raise Refused("a __hash__ that attrs generated is traced, which differs from process to process")
        if lines := _LINES & (asked := asked_names((code,))):
            raise Refused(f"{code.co_name} asks for {min(lines)}: files and lines are in no record")
        if (held := next((name for name in sorted(asked) if _is_added(name)), None)) is not None:
            raise Refused(f"{code.co_name} asks for {held}, which somebody put among Python's builtins")
        if special := (_UNSAID | of_one_device()) & asked:
            raise Refused(f"{code.co_name} asks for {min(special)}, which differs from process to process")
        if "comptime" in asked:
            raise Refused("it uses comptime while it is traced, which has to be done in each process")
    if named := (_LINES | _UNSAID | of_one_device()) & seen.names:
        raise Refused(f"it asks for {min(named)} by its name, which differs from process to process")


def _is_added(name: str) -> bool:
    """Whether it is a constant among Python's builtins, which has no guard there."""
    held = vars(builtins).get(name)
    return isinstance(held, (int, float, str, bytes, tuple)) and not name.startswith("_")


_LINES = frozenset(
    """
    co_firstlineno co_filename co_lines co_positions co_linetable tb_lineno f_lineno lineno extract_tb extract_stack
    """.split()
)
_UNSAID = frozenset("__hash__ __repr__ __abstractmethods__ __flags__ isabstract".split())
