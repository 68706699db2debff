"""Which code a key's toolchain part fixes already: torch's and the standard library's own. By file, not by claim."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import types
from typing import Any

_NAMES = frozenset(sys.stdlib_module_names) | {"torch", "builtins"}
_STDLIB = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120 - compared as text, once
_INSTALLED = ("site-packages", "dist-packages")
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made at run time, by a `class` statement or a call


def is_fixed(module: str | None) -> bool:
    """Whether code of this module is fixed by the toolchain: torch's own, or the standard library's."""
    top = (module or "").partition(".")[0]
    return top in _NAMES and _is_where_it_belongs(top)


@functools.lru_cache(maxsize=1024)
def _is_where_it_belongs(top: str) -> bool:
    """A user's `test/` or `profile.py` shadows the library's module, and is not fixed by anything."""
    if top == "torch":
        return True
    loaded = sys.modules.get(top)
    spec = getattr(loaded, "__spec__", None) or (importlib.util.find_spec(top) if loaded is None else None)
    origin = getattr(spec, "origin", None)
    if origin in ("built-in", "frozen"):
        return True
    return origin is not None and origin.startswith(_STDLIB) and not any(part in origin for part in _INSTALLED)


def named_by_torch(code: Any) -> bool:
    """Whether a class's or function's name says all of it: torch's own or the library's, and not one around a user's.

    `functools.wraps(torch.relu)` gives a user's function torch's name; `torch.no_grad()(f)` is a function of torch's
    that calls the user's, and has the user's name; a class made by `types.new_class` says that it is of `types`.
    """
    if not is_fixed(getattr(code, "__module__", None)):
        return False
    if not isinstance(code, types.FunctionType):
        return not code.__flags__ & HEAP_TYPE or _leads_back(code)
    if not is_fixed(code.__globals__.get("__name__")):
        return False
    return (code.__closure__ is None and not hasattr(code, "__wrapped__")) or _leads_back(code)


def _leads_back(code: Any) -> bool:
    found: Any = sys.modules.get(code.__module__)
    for part in code.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is code
