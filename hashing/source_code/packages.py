"""Packages whose Python is known by all of their files: functions out of sight, and some that no walk can follow.

An operator that was given its kernel by `torch.library.Library.impl`: torch keeps the function out of sight, and says
from which file it came. And libraries whose functions ask which other packages and which devices there are; DeepSpeed
puts such functions in the place of torch's (ZeRO-3's `linear`).
"""

from __future__ import annotations

import enum
import functools
import hashlib
import os
import sys
import tempfile
import time
import types
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from ..encoding.encode import Uncacheable, encode
from ..encoding.targets import TORCH_NAMESPACES, is_operator
from ..encoding.values import attributes_of, attributes_of_plain, bound_cells
from ..origin import comes_with_torch, is_torch_or_stdlib, module_of_class
from .facts import fact
from .once import once_per_key
from .references import meaning

_MOST_BYTES = 64 << 20
_UNFOLLOWED = frozenset({"torchao", "bitsandbytes", "deepspeed"})
_ENVIRONMENT = {"deepspeed": ("DS_",)}  # how names of settings begin, beside the package's own name
# What its functions ask classes for, through others that are not followed: who adds to these tables is followed.
TABLES = ("_ATEN_OP_TABLE", "_TORCH_FN_TABLE")
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_OF_INSTALLED = (".dist-info", ".egg-info")
_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device)
_SETTINGS = (*_PLAIN, enum.Enum)


def _process_began() -> float:
    """Seconds since 1970. As Linux has it: ticks after the machine's start; elsewhere, when this file was loaded."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        up = float(Path("/proc/uptime").read_text().split()[0])
        return time.time() - up + ticks / os.sysconf("SC_CLK_TCK") - 1
    except (OSError, ValueError, IndexError):
        return time.time()


_BEGAN = _process_began()


@once_per_key
def package_text(name: str) -> str | None:
    """What the package of that name is, its settings, and what is beside it. None where none is installed and loaded.

    Raises Uncacheable for one that was edited since this process began, or into which code was put: nothing says
    what of it is loaded.
    """
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
    places = places_of(name)
    if not places:
        return None
    begins = (name.upper(), *_ENVIRONMENT.get(name, ()))
    told = {key: value for key, value in os.environ.items() if key.startswith(begins)}
    modules = _modules_of(name)
    around = encode([_beside(), sorted(told.items()), fact("accelerator"), list(_settings(modules, name, places))])
    digest = hashlib.sha256(around.encode()).hexdigest()
    return f"{name} {version} {_digest(places, len(modules))} among {digest[:32]}"


def _modules_of(name: str) -> list[tuple[str, Any]]:
    """Those of the package that are loaded, and what stands in the place of one, by their names."""
    begins = f"{name}."
    return sorted((key, held) for key, held in list(sys.modules.items()) if key == name or key.startswith(begins))


def unfollowed_text(function: Any) -> str | None:
    """What stands for a function of such a package instead of its code. None where it holds code of others.

    Raises Uncacheable, as `package_text` does.
    """
    name = (function.__module__ or "").partition(".")[0] if isinstance(function, types.FunctionType) else ""
    return function_of_package(function, name) if name in _UNFOLLOWED else None


def of_unfollowed(functions: Iterable[types.FunctionType]) -> tuple[str, ...]:
    """Folders of such packages from which any of these comes: what else lies there is said with it."""
    places = [place for name in sorted(_UNFOLLOWED) for place in places_of(name)]
    files = [one.__code__.co_filename for one in functions]
    return tuple(place for place in places if any(file.startswith(place) for file in files))


def function_of_package(function: Any, name: str) -> str | None:
    """A function by the files of the package of that name. None where it is not the package's, or holds what is not."""
    if not isinstance(function, types.FunctionType):
        return None
    held = _held_by(function, places_of(name), name, 0)
    package = package_text(name) if held is not None else None
    return None if package is None else f"{held} of {package}"


def places_of(name: str) -> tuple[str, ...]:
    """Folders of a package that is loaded, each with a separator behind it."""
    return tuple(str(Path(place)) + os.sep for place in getattr(sys.modules.get(name), "__path__", ()))


def _held_by(value: Any, places: tuple[str, ...], package: str, depth: int) -> str | None:
    """A function of the package's files with all that it holds: plain values, others of these, and torch's functions
    and operators. None for others.
    """
    if isinstance(value, _PLAIN):
        return repr(value)
    if is_operator(value) and str(value).partition(".")[0] in TORCH_NAMESPACES:
        return str(value)
    if depth and isinstance(value, _METHODS) and isinstance(value.__self__, type):  # what it replaced
        known = is_torch_or_stdlib(value.__self__.__module__) and _is_known_code(value)
        return f"{value.__self__.__module__}.{value.__qualname__}" if known else None
    if isinstance(value, type) and is_torch_or_stdlib(value.__module__):
        there = getattr(sys.modules.get(value.__module__), value.__name__, None) is value
        return f"{value.__module__}.{value.__name__}" if there else None
    kind: Any = value if isinstance(value, type) else type(value)
    own = module_of_class(kind).partition(".")[0] == package
    place = f"{kind.__module__}.{kind.__qualname__}"
    if own and isinstance(value, (type, enum.Enum)):
        return f"{place} {getattr(value, '_name_', '')}"
    if depth > 8:
        return None
    if isinstance(value, types.FunctionType):
        code = value.__code__
        if depth and comes_with_torch(code.co_filename) and not value.__closure__:
            return f"torch's {value.__module__}.{value.__qualname__} line {code.co_firstlineno}"
        if not code.co_filename.startswith(places or ("\0",)):
            return None
        place = f"{value.__module__}.{value.__qualname__} line {code.co_firstlineno}"
        held = [*bound_cells(value).values(), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    elif type(value) in (tuple, list):
        held = list(value)
    elif own and (fields := attributes_of(value) or attributes_of_plain(value)):
        held = [one for pair in fields for one in pair]
    else:
        return None
    inner = [_held_by(one, places, package, depth + 1) for one in held]
    return None if None in inner else f"{place} holds {inner}"


def _is_known_code(method: Any) -> bool:
    """By its file: `functools.wraps` lends a function another one's module."""
    function = getattr(method, "__func__", None)
    if function is None:
        return True
    file = function.__code__.co_filename if isinstance(function, types.FunctionType) else ""
    return (file.startswith("<frozen ") or comes_with_torch(file)) and not function.__closure__


_METHODS = (types.MethodType, types.BuiltinMethodType)


def _settings(modules: Iterable[tuple[str, Any]], name: str, places: tuple[str, ...]) -> Iterator[str]:
    """Plain values in the package's modules, which a program may set. Raises Uncacheable for code put there."""
    classes = set()  # each is looked at where it is found first: most modules hold classes of others
    for module, held in modules:
        if held is None:
            continue
        for key, value in sorted(vars(held).items()):
            if key.startswith("__"):
                continue
            if _is_plain(value) or (key.isupper() and type(value) in (dict, list) and _is_plain(_items(value))):
                # A table in any order: one that was made of a set has another in each process (tensordict's).
                yield f"{module}.{key}={sorted(value.items(), key=repr) if type(value) is dict else value!r}"
            elif isinstance(value, type) and (value.__module__ or "").partition(".")[0] == name:
                if id(value) not in classes:
                    classes.add(id(value))
                    for member, function in vars(value).items():
                        where = f"{module}.{key}.{member}"
                        yield from _put_there(where, getattr(function, "__func__", function), name, places)
            else:
                if module_of_class(type(value)).partition(".")[0] == name:  # DeepSpeed's accelerator
                    yield f"{module}.{key} is a {module_of_class(type(value))}.{type(value).__qualname__}"
                yield from _put_there(f"{module}.{key}", value, name, places)


def _put_there(where: str, value: Any, name: str, places: tuple[str, ...]) -> Iterator[str]:
    """Text of a function that the package wrote; nothing for what it brought. Raises Uncacheable for code of others."""
    if not isinstance(value, types.FunctionType) or value.__code__.co_filename.startswith(places):
        return
    if (text := _written_text(value, name)) is not None:
        yield f"{where} {text}"
    else:
        _refuse_put_there(where, value, name)


def _written_text(value: types.FunctionType, name: str) -> str | None:
    """A function by its code, in a module that the package itself wrote, of a template, into a folder for temporary
    files (torch_geometric's for each kind of layer). None for others.
    """
    module = value.__module__ or ""
    if (
        module.partition(".")[0] != name
        or getattr(sys.modules.get(module), "__file__", None) != value.__code__.co_filename
    ):
        return None
    if not value.__code__.co_filename.startswith(tempfile.gettempdir()) or value.__closure__:
        return None
    return hashlib.sha256(meaning(value.__code__).encode()).hexdigest()[:16]


def _is_plain(value: Any) -> bool:
    return isinstance(value, _SETTINGS) or (type(value) is tuple and all(map(_is_plain, value)))


def _items(table: Any) -> tuple[Any, ...]:
    return tuple(table.items()) if type(table) is dict else tuple(table)


def _refuse_put_there(where: str, value: types.FunctionType, name: str) -> None:
    file, module = value.__code__.co_filename, value.__module__ or ""
    generated = file.startswith("<") and (module.partition(".")[0] == name or module.startswith("namedtuple_"))
    if not (generated or comes_with_torch(file) or any(folder in file for folder in _INSTALLED)):
        raise Uncacheable(f"{where} is not what {name} brought")


@functools.cache
def _digest(places: tuple[str, ...], loaded: int) -> str:
    """Of a package's Python files: some 10 ms for 500 of them, for each number of its modules that is loaded.

    A file may be edited between the first look at it and its import.
    """
    found, size = hashlib.sha256(), 0
    for place in map(Path, places):
        for path in sorted(place.rglob("*.py")):
            try:
                content, stat = path.read_bytes(), path.stat()
            except OSError as error:
                raise Uncacheable(f"package {place.name}, whose Python is known by its files: {error}") from None
            size += len(content)
            if size > _MOST_BYTES or max(stat.st_mtime, stat.st_ctime) > _BEGAN:
                why = "was edited since this process began" if size <= _MOST_BYTES else "is too large to be looked at"
                raise Uncacheable(f"package {place.name}, whose Python is known by its files, {why}")
            found.update(f"{path.relative_to(place)} {len(content)}\n".encode() + content)
    return found.hexdigest()


@functools.cache
def _beside() -> list[str]:
    """Names and versions of all that is installed, as folders say them. Not what is within a package: setuptools puts a
    folder of its own on the path where something is compiled, and a process that hits compiles nothing.
    """
    found: set[str] = set()
    folders = [f"{place.rstrip(os.sep)}{os.sep}" for place in sys.path]
    roots = [folder for folder in folders if folder.endswith(_INSTALLED)]
    for place, folder in zip(sys.path, folders, strict=True):
        if any(folder != root and folder.startswith(root) for root in roots):
            continue
        try:
            found |= {entry for entry in os.listdir(place or ".") if entry.endswith(_OF_INSTALLED)}  # noqa: PTH208
        except OSError:  # a zip file, or nothing
            continue
    return sorted(found)
