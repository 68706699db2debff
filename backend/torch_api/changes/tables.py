"""What code outside torch changed in torch: entries of tables that a compile reads, and torch's own functions.

None of it stands in a graph. What was put there is described by its source; torch's own entries are told by a digest
for each table, so that one that was taken out, or exchanged for another of torch's own, is seen as well. Inductor's
tables count as unchanged until it is imported, since a hit does not import it; so their digests stand in a key only
where they are not those of a fresh import. Each table is read again when it has changed.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Mapping
from operator import is_
from typing import Any

import torch
from warmgraph.hashing import encode, foreign, is_generated_by_torch, plain_defaults, sha256_hex

from .. import operators
from .functions import patched_functions
from .kernels import kernels_from_outside, state_of_kernels
from .patterns import foreign_patterns
from .pristine import PRISTINE, release
from .registries import (
    FILLED_WHILE_COMPILING,
    LOWERINGS,
    base_tables,
    exchanged_sharding,
    fake_rules,
    fakes_of_primitives,
    generated_functions,
    growing_tables,
    inductor_is_imported,
    inductor_tables,
    is_made_while_compiling,
    kernel_accesses,
    library_entries,
    name_of,
    operator_tables,
    operators_of_namespaces,
    registered_early,
    registry_of_libraries,
    sharding_handlers,
    sharding_rules,
)

# By the digest of Dynamo's tables: Inductor's, as this process saw them when it imported Inductor itself.
_pristine: dict[str, dict[str, str]] = {}


def changes() -> tuple[dict[str, str], dict[str, Any]]:
    """(name -> digest) of torch's own tables, and (name -> function, class or object) of what came from outside."""
    global _last
    if registered_early():
        import_inductor()  # by all of that table is told what a program has put there
    _begin()
    whole = inductor_is_imported()
    found = [_base(), patched_functions(_clean), _growing(), _operators(), _rules(), _libraries(), _sharding()]
    found.append(_accesses())
    if whole:
        found += [_inductor(), foreign_patterns(_clean)]
    if len(found) != len(_last[0]) or not all(map(is_, found, _last[0])):  # what has not changed is the same
        _last = found, _together(*found)
    return _last[1]


_last: tuple[list[Any], tuple[dict[str, str], dict[str, Any]]] = ([], ({}, {}))


def _together(base: Any, patched: Any, *found: Any) -> tuple[dict[str, str], dict[str, Any]]:
    digests = {"tables": _of_all(base[0]), "functions": patched[0]}
    put_there = base[1] | patched[1]
    for more in found:
        if isinstance(more, tuple):  # those that PRISTINE has
            fresh = {**PRISTINE.get(release(), {}), **_pristine.get(digests["tables"], {})}
            digests |= {name: digest for name, digest in more[0].items() if fresh.get(name) != digest}
            more = more[1]
        put_there |= more
    return digests, put_there


def import_inductor() -> None:
    """Import Inductor, if nobody did, and remember its tables as those of a fresh import. A second, and once."""
    if not operators.inductor_is_imported():
        there = inductor_tables(unfilled=True).keys()  # somebody may have changed them
        operators.import_inductor()
        _begin()
        fresh = {name: digest for name, digest in _inductor()[0].items() if name not in there}
        _pristine[_of_all(_base()[0])] = fresh


def tables_of_inductor() -> dict[str, str]:
    """The digest of each of Inductor's tables that is imported, as far as it holds torch's own."""
    found: dict[str, str] = _inductor()[0] | _accesses()[0]
    return found


def _of_all(digests: Mapping[str, str]) -> str:
    return sha256_hex("".join(f"{name} {digests[name]} " for name in sorted(digests)).encode())


def kernels() -> set[tuple[str, str]]:
    """(operator, dispatch key) of torch's own operators that have a Python kernel from outside."""
    found: set[tuple[str, str]] = _kernels()
    return found


def _begin() -> None:
    _clean.clear()  # what an id stood for at the last look may be gone
    if (space := generated_functions()) is not None:
        is_generated_by_torch(space)


_clean: set[Any] = set()  # for `foreign`, within one look: the same functions stand in many tables

# --- read again when something changed ------------------------------------------------------------------------


class _Read:
    """The result of `read`, made again when `state` has changed: something cheap that tells of every change."""

    def __init__(self, read: Callable[[], Any], state: Callable[[], Any]) -> None:
        self._read = read
        self._state = state
        self._seen: Any = None
        self._found: Any = None

    def __call__(self) -> Any:
        if self._seen is None or self._seen != self._state():
            self._found = self._read()
            self._seen = self._state()
        return self._found


def _state_of(tables: Iterable[Any]) -> list[Any]:
    """Which tables there are, and which version each of them has; of a list, which has none, what is in it.

    Not their addresses: what is in a list may go, and leave its own to what comes in its place. And how much is in a
    table: from Python 3.12 on an empty one that is filled by `update` keeps its version.
    """
    found: list[Any] = []
    for table in tables:
        found += (id(table), operators.dict_version(table), len(table)) if isinstance(table, dict) else table
    return found


def _split(tables: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """A digest of each table's entries that are torch's own, and the other entries by name."""
    digests, others, texts = {}, {}, dict[int, str]()
    lowerings = tables.get(LOWERINGS, {})
    made = {target for target, function in lowerings.items() if is_made_while_compiling(target, function)}
    for name, table in tables.items():
        lines = []
        filled = name in FILLED_WHILE_COMPILING
        for target, function in table.items() if isinstance(table, dict) else ((item, None) for item in table):
            if foreign(function, _clean) is not None:
                others[f"{name} of {_target(target)}"] = function
            elif filled and is_made_while_compiling(target, function):
                continue
            elif function is not None or not (
                name != _NEVER_FOLDED and (operators.is_users(target) or target in made)
            ):  # None: an operator in a set
                lines.append(f"{_target(target)} {_identity(function, texts)}")
        digests[name] = sha256_hex("\n".join(sorted(lines)).encode())[:32]
    return digests, others


def _split_accesses() -> tuple[dict[str, str], dict[str, Any]]:
    rows = {name: [*vars(one).items()] for name, one in kernel_accesses().items()}
    return _split({"accesses": rows} if rows else {})


_NEVER_FOLDED = "_inductor.constant_folding._dont_constant_fold"  # torch adds nothing here


def _target(target: Any) -> str:
    """A key of a table: mostly an operator, at times a function or a text."""
    if isinstance(target, operators.OpOverload):
        return _text_of(target)
    return f"{target.__module__}.{target.__qualname__}" if isinstance(target, _NAMED) else str(target)


_text_of = functools.cache(str)  # an operator stands in several tables


_NAMED = (types.FunctionType, types.BuiltinFunctionType, type)


def _identity(value: Any, texts: dict[int, str], depth: int = 5) -> str:
    """Which of torch's functions it is: two that are made by one have one name, and differ in what they close over."""
    if isinstance(value, (str, int, float, bool, type(None), torch.dtype)):
        return repr(value)
    identity = id(value)
    if (text := texts.get(identity)) is not None:
        return text
    if isinstance(value, types.FunctionType):
        code = value.__code__
        text = f"{value.__module__}.{value.__qualname__}:{code.co_name}:{code.co_firstlineno}"
        if value.__closure__ is not None and depth:
            cells = [cell.cell_contents for cell in value.__closure__ if _is_bound(cell)]
            text += f"({', '.join([_identity(content, texts, depth - 1) for content in cells])})"
        if value.__defaults__ is not None:
            text += plain_defaults(value)
    elif isinstance(value, functools.partial):
        text = f"partial({_identity([value.func, *value.args, *sorted(value.keywords.items())], texts, depth)})"
    elif isinstance(value, (list, tuple)):
        return f"[{', '.join([_identity(item, texts, depth) for item in value])}]"
    elif isinstance(value, (operators.OpOverload, operators.OpOverloadPacket)):
        text = str(value)
    elif type(value).__module__ == "operator":  # `methodcaller` and its like say what they are
        text = repr(value)
    else:
        text = f"{type(value).__qualname__} {getattr(value, '__name__', '')}"
        if depth and not isinstance(value, (type, dict)) and type(value).__module__.startswith("torch._inductor"):
            held = {**getattr(value, "__dict__", {})}
            if "src_hash" in held:  # a choice's, which notes two things when it is first used
                held["src_hash"] = None
                held.pop("ordered_kwargs_for_cpp_kernel", None)
            text += f"{_identity(sorted(held.items()), texts, depth - 1)}"
        elif isinstance(value, torch.nn.Module):
            text += f"{value.extra_repr()} {_identity(list(value.named_children()), texts, depth - 1) if depth else ''}"
        elif isinstance(value, _PLAIN):
            text = encode(value)
        elif isinstance(value, types.MethodType) and isinstance(value.__self__, torch.nn.Module) and depth:
            text += _identity(value.__self__, texts, depth - 1)
    texts[identity] = text
    return text


_PLAIN = (complex, bytes, slice, torch.device, torch.layout, torch.memory_format)


def _is_bound(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _foreign_in(tables: Mapping[str, Mapping[Any, Any]]) -> dict[str, Any]:
    return {
        f"{name} of {_target(target)}": function
        for name, table in tables.items()
        for target, function in table.items()
        if foreign(function, _clean) is not None
    }


class _Thousands:
    """The tables of single operators. Most are empty, and asking all for a version would take half of a small key."""

    def __init__(self) -> None:
        self._empty: list[dict[Any, Any]] = []
        self._full: list[dict[Any, Any]] = []
        self._spaces: list[dict[str, Any]] = []

    def read(self) -> dict[str, Any]:
        self._spaces = list(operators_of_namespaces())
        primitives = list(fakes_of_primitives())
        self._empty, self._full = [], [where for _, _, where in primitives]
        found = {f"fake of {name}": fake for name, fake, _ in primitives if foreign(fake, _clean) is not None}
        for operator, table in operator_tables():
            (self._full if table else self._empty).append(table)
            for key, function in table.items():
                if foreign(function, _clean) is not None:
                    found[f"{name_of(operator)} for {key}"] = function
        return found

    def state(self) -> tuple[Any, ...]:
        """Namespaces only grow: what an operator's name leads to is made once."""
        held = sum(map(len, self._full))  # as in `_state_of`
        return any(self._empty), sum(map(len, self._spaces)), held, [*map(operators.dict_version, self._full)]


_thousands = _Thousands()
_base = _Read(lambda: _split(base_tables()), lambda: _state_of(base_tables().values()))
_inductor = _Read(lambda: _split(inductor_tables()), lambda: _state_of(inductor_tables().values()))
_growing = _Read(lambda: _foreign_in(growing_tables()), lambda: _state_of(growing_tables().values()))
_sharding = _Read(
    lambda: exchanged_sharding() | _foreign_in({**sharding_rules(), "handler": sharding_handlers()}),
    lambda: _state_of([*sharding_rules().values(), sharding_handlers()]),
)
_rules = _Read(lambda: _foreign_in({"rules for fakes": fake_rules()}), lambda: _state_of([fake_rules().values()]))
_accesses = _Read(_split_accesses, lambda: _state_of([kernel_accesses()]))
_kernels = _Read(kernels_from_outside, state_of_kernels)
_operators = _Read(_thousands.read, _thousands.state)
_libraries = _Read(
    lambda: {
        f"{role} of {name}": function
        for name, role, function in library_entries()
        if foreign(function, _clean) is not None
    },
    lambda: _state_of([registry_of_libraries()]),
)
