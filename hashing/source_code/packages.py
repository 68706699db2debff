"""Packages whose Python is known by all of their files: functions out of sight, and some that no walk can follow.

An operator that was given its kernel by `torch.library.Library.impl`: torch keeps the function out of sight. Where the
operator's namespace is that of an installed package that was imported, it was that package: torch lets nobody else
fill a kernel twice. And torchao, whose functions ask which other packages and which devices there are.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import time
import types
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from ..encoding.encode import Uncacheable, encode
from ..origin import comes_with_torch
from .facts import fact

_MOST_BYTES = 64 << 20
_BEGAN = time.time()
_UNFOLLOWED = frozenset({"torchao"})
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_OF_INSTALLED = (".dist-info", ".egg-info")
_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device)


def package_text(name: str) -> str | None:
    """Version and digest of the Python files of the package of that name; None where none is installed and imported.

    Raises Uncacheable for one that was edited since: nothing says what of it is loaded.
    """
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
    places = _places(name)
    return f"{name} {version} {_digest(places)}" if places else None


def unfollowed_text(function: Any) -> str | None:
    """What stands for a function of such a package instead of its code. None where it holds code of others.

    Raises Uncacheable where a function of the package was replaced.
    """
    if not isinstance(function, types.FunctionType):
        return None
    name = (function.__module__ or "").partition(".")[0]
    if name not in _UNFOLLOWED or not _is_own(function, _places(name), set()):
        return None
    package = package_text(name)
    if package is None:
        return None
    _refuse_replaced(name)
    told = {key: value for key, value in os.environ.items() if key.startswith(name.upper())}
    around = encode([_beside(), sorted(told.items()), fact("accelerator")])
    return f"{function.__module__}.{function.__qualname__} {_bound(function)} of {package} beside {_short(around)}"


def _places(name: str) -> tuple[str, ...]:
    return tuple(getattr(sys.modules.get(name), "__path__", ()))


def _is_own(value: Any, places: tuple[str, ...], seen: set[int]) -> bool:
    """Whether it is a function of the package's files that holds plain values and others of these alone."""
    if isinstance(value, (tuple, list)):
        return all(_is_own(one, places, seen) for one in value)
    if not isinstance(value, types.FunctionType) or id(value) in seen:
        return isinstance(value, _PLAIN) or id(value) in seen
    seen.add(id(value))
    held = [*_cells(value), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    return value.__code__.co_filename.startswith(places) and all(_is_own(one, places, seen) for one in held)


def _bound(function: types.FunctionType) -> str:
    """What it holds: two wrappers of one decorator have one name."""
    held = [*_cells(function), *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    names = [f"{v.__module__}.{v.__qualname__}" if isinstance(v, types.FunctionType) else str(v) for v in held]
    return f"line {function.__code__.co_firstlineno} holds {names}"


def _cells(function: types.FunctionType) -> list[Any]:
    return [cell.cell_contents for cell in function.__closure__ or ()]


def _refuse_replaced(name: str) -> None:
    for module, space in [(key, vars(one)) for key, one in list(sys.modules.items()) if key.partition(".")[0] == name]:
        for key, value in space.items():
            if isinstance(value, types.FunctionType):
                file = value.__code__.co_filename
                if not (file.startswith(_places(name)) or comes_with_torch(file) or any(p in file for p in _INSTALLED)):
                    raise Uncacheable(f"{module}.{key} is not what {name} brought")


@functools.cache
def _digest(places: tuple[str, ...]) -> str:
    """Of a package's Python files: some 10 ms for 500 of them, once per process."""
    found, size = hashlib.sha256(), 0
    for place in map(Path, places):
        for path in sorted(place.rglob("*.py")):
            content = path.read_bytes()
            size += len(content)
            if size > _MOST_BYTES or path.stat().st_mtime > _BEGAN:
                why = "was edited since this process began" if size <= _MOST_BYTES else "is too large to be looked at"
                raise Uncacheable(f"package {place.name}, whose Python is known by its files, {why}")
            found.update(f"{path.relative_to(place)} {len(content)}\n".encode() + content)
    return found.hexdigest()


@functools.cache
def _beside() -> list[str]:
    """Names and versions of all that is installed, as folders say them."""
    places = [place for place in map(Path, sys.path) if place.is_dir()]
    return sorted({entry.name for place in places for entry in place.iterdir() if entry.suffix in _OF_INSTALLED})


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
