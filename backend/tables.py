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
from typing import Any

import torch
from warmgraph.hashing import foreign, is_generated_by_torch, plain_defaults, sha256_hex

from . import operator_compat as operators
from .patched import patched_functions
from .patterns import foreign_patterns
from .pristine import PRISTINE
from .registered import (
    base_tables,
    count_of_kernels,
    fake_rules,
    fakes_of_primitives,
    generated_functions,
    growing_tables,
    inductor_is_imported,
    inductor_tables,
    is_made_while_compiling,
    kernels_from_outside,
    library_entries,
    operator_tables,
    operators_of_namespaces,
    registry_of_libraries,
    sharding_rules,
)

# By the digest of Dynamo's tables: Inductor's, as this process saw them when it imported Inductor itself.
_pristine: dict[str, dict[str, str]] = {}


def changes() -> tuple[dict[str, str], dict[str, Any]]:
    """(name -> digest) of torch's own tables, and (name -> function, class or object) of what came from outside."""
    _begin()
    base, put_there = _base()
    own, patched = patched_functions(_clean)
    digests = {"tables": _of_all(base), "functions": own}
    if inductor_is_imported():
        inductor, more = _inductor()
        fresh = {**PRISTINE.get(str(torch.__version__), {}), **_pristine.get(digests["tables"], {})}
        digests |= {name: digest for name, digest in inductor.items() if fresh.get(name) != digest}
        put_there = put_there | more | foreign_patterns(_clean)
    return digests, put_there | _growing() | _operators() | dict(_rules()) | _libraries() | _sharding() | patched


def import_inductor() -> None:
    """Import Inductor, if nobody did, and remember its tables as those of a fresh import. A second, and once."""
    if not operators.inductor_is_imported():
        there = inductor_tables().keys()  # somebody may have changed them
        operators.import_inductor()
        _begin()
        fresh = {name: digest for name, digest in _inductor()[0].items() if name not in there}
        _pristine[_of_all(_base()[0])] = fresh


def tables_of_inductor() -> dict[str, str]:
    """The digest of each of Inductor's tables that is imported, as far as it holds torch's own."""
    found: dict[str, str] = _inductor()[0]
    return found


def _of_all(digests: Mapping[str, str]) -> str:
    return sha256_hex("".join(f"{name} {digests[name]} " for name in sorted(digests)).encode())


def kernels() -> set[tuple[str, str]]:
    """(operator, dispatch key) of torch's own operators that have a Python kernel from outside."""
    return _kernels()


def _begin() -> None:
    _clean.clear()  # what an id stood for at the last look may be gone
    if (space := generated_functions()) is not None:
        is_generated_by_torch(space)


_clean: set[int] = set()  # for `foreign`, within one look: the same functions stand in many tables

# --- read again when something changed ------------------------------------------------------------------------


class _Read:
    """The result of `read`, made again when one of the dictionaries that `behind` names has changed."""

    def __init__(
        self, read: Callable[[], Any], behind: Callable[[], Iterable[dict[Any, Any]]], *, few: bool = True
    ) -> None:
        """few: ask each time which dictionaries they are."""
        self._read = read
        self._behind = behind
        self._few = few
        self._watched: list[dict[Any, Any]] = []
        self._versions: list[int] = []
        self._found: Any = None

    def __call__(self) -> Any:
        watched = list(self._behind()) if self._few else self._watched
        if not watched or self._versions != self._versions_of(watched):
            self._found = self._read()
            self._watched = list(self._behind())
            self._versions = self._versions_of(self._watched)
        return self._found

    def _versions_of(self, watched: list[dict[Any, Any]]) -> list[int]:
        """Of few, which ones they are as well. Of thousands, at each key, their versions alone: 40 ns each."""
        return [*map(operators.dict_version, watched), *(map(id, watched) if self._few else ())]


def _split(tables: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """A digest of each table's entries that are torch's own, and the other entries by name."""
    digests, others, texts = {}, {}, dict[int, str]()
    for name, table in tables.items():
        lines = []
        for target, function in table.items() if isinstance(table, dict) else ((item, None) for item in table):
            if foreign(function, _clean) is not None:
                others[f"{name} of {_target(target)}"] = function
            elif not is_made_while_compiling(target, function) and (function is not None or not _is_users(target)):
                lines.append(f"{_target(target)} {_identity(function, texts)}")
        digests[name] = sha256_hex("\n".join(sorted(lines)).encode())[:32]
    return digests, others


def _target(target: Any) -> str:
    """A key of a table: mostly an operator, at times a function or a text."""
    return f"{target.__module__}.{target.__qualname__}" if isinstance(target, _NAMED) else str(target)


_NAMED = (types.FunctionType, types.BuiltinFunctionType, type)


def _is_users(target: Any) -> bool:
    return isinstance(target, operators.OpOverload) and not operators.is_torchs(target)


def _identity(value: Any, texts: dict[int, str], depth: int = 5) -> str:
    """Which of torch's functions it is: two that are made by one have one name, and differ in what they close over."""
    if isinstance(value, (str, int, float, bool, type(None), torch.dtype)):
        return repr(value)
    if (text := texts.get(id(value))) is not None:
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
            text += f"{_identity(sorted(getattr(value, '__dict__', {}).items()), texts, depth - 1)}"
        elif isinstance(value, torch.nn.Module):
            text += value.extra_repr()
    texts[id(value)] = text
    return text


def _is_bound(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _tables_of_operators() -> dict[str, Any]:
    found = {f"fake of {name}": fake for name, fake, _ in fakes_of_primitives() if foreign(fake, _clean) is not None}
    return found | {
        f"{name} for {key}": function
        for name, table in operator_tables()
        for key, function in table.items()
        if foreign(function, _clean) is not None
    }


def _dictionaries(tables: Mapping[str, Any]) -> list[dict[Any, Any]]:
    """What is watched: a list, which has no version, as a dictionary that is a new one each time it has changed."""
    return [table if isinstance(table, dict) else _of_list(tuple(map(id, table))) for table in tables.values()]


@functools.lru_cache(maxsize=16)
def _of_list(items: tuple[int, ...]) -> dict[Any, Any]:
    return {}


def _growing_tables() -> dict[str, Any]:
    return {
        f"{name} of {_target(target)}": function
        for name, table in growing_tables().items()
        for target, function in table.items()
        if foreign(function, _clean) is not None
    }


_base = _Read(lambda: _split(base_tables()), lambda: base_tables().values())
_inductor = _Read(lambda: _split(inductor_tables()), lambda: _dictionaries(inductor_tables()))
_growing = _Read(_growing_tables, lambda: growing_tables().values())
_operators = _Read(
    _tables_of_operators,
    lambda: [
        *operators_of_namespaces(),
        *[table for _, table in operator_tables()],
        *[where for _, _, where in fakes_of_primitives()],
    ],
    few=False,
)
_libraries = _Read(
    lambda: {
        f"{role} of {name}": function
        for name, role, function in library_entries()
        if foreign(function, _clean) is not None
    },
    lambda: [registry_of_libraries()],
)


def _rules() -> list[tuple[str, Any]]:
    return [(name, function) for name, function in fake_rules() if foreign(function, _clean) is not None]


def _shardings() -> dict[str, Any]:
    return {
        f"{name} of {target}": rule
        for name, table in sharding_rules().items()
        for target, rule in table.items()
        if foreign(rule, _clean) is not None
    }


@functools.lru_cache(maxsize=1)
def _kernels_counted(count: tuple[int, int]) -> set[tuple[str, str]]:
    return kernels_from_outside()


def _kernels() -> set[tuple[str, str]]:
    return _kernels_counted(count_of_kernels())


_sharding = _Read(_shardings, lambda: sharding_rules().values())
