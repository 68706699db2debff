"""Which program this is: the user's files that are loaded, and what is installed. Its records serve no other.

A trace folds in more than anybody can list, and most of it changes by an edit; so an edit of any file that is loaded
ends a record, whatever else was compared.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import types
from bisect import bisect_left
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from warmgraph.hashing import comes_with_torch, sha256_hex

from ..torch_api.frames.plain import NotServed

_INSTALLED = ("site-packages", "dist-packages")
_WITHIN = [f"{os.sep}{folder}{os.sep}" for folder in _INSTALLED]
# Module -> digest of its file as it was first looked at, and under which load; None: not the user's.
_known: dict[str, tuple[Any, str] | None] = {}
_NOT_YET: Any = object()


def program() -> dict[str, str]:
    """Module -> digest of its file, of all that are loaded and not installed; and `installed` itself.

    Raises NotServed for a program that has no file: a notebook, a terminal.
    """
    found = {}
    for name, module in list(sys.modules.items()):  # at once: other threads import
        known = _known.get(name, _NOT_YET)
        if known is None:
            continue
        held = vars(module) if isinstance(module, types.ModuleType) else {}  # not asked for: some load lazily then
        load = held.get("__spec__")  # a reload has another one
        if known is _NOT_YET or known[0] is not load:
            digest = _digest(name, held.get("__file__"))
            known = _known[name] = None if digest is None else (load, digest)
        if known is not None:
            found[name] = known[1]
    return {**dict(sorted(found.items())), "installed": _installed()}


def differing(was: dict[str, str], now: dict[str, str]) -> str | None:
    """Names of modules that are other ones, in words; None where all are the same."""
    other = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
    if not other:
        return None
    more = f" and {len(other) - 3} more" if len(other) > 3 else ""
    return f"the program: {', '.join(other[:3])}{more} changed since"


def _digest(name: str, file: Any) -> str | None:
    if name.startswith(("torch.", "warmgraph.")) or name in ("torch", "warmgraph", "__mp_main__"):
        return None
    if not isinstance(file, str):
        return _of_main() if name == "__main__" else None
    if is_installed(file) or comes_with_torch(file):
        return None
    if file.endswith(tuple(EXTENSION_SUFFIXES)) and not _is_found_by_name(name, file):
        return None  # kernels that were compiled just now
    try:
        content = Path(file).read_bytes()
    except OSError:
        raise NotServed(f"{name} was loaded from {file}, which cannot be read: nothing says what it is") from None
    if content.startswith(b"#!"):  # of a script that was installed: the environment's path
        content = content.partition(b"\n")[2]
    return hashlib.sha256(content).hexdigest()[:16]


def is_installed(file: str) -> bool:
    """Whether a package that was installed brings it."""
    return any(map(file.__contains__, _WITHIN))


def _is_found_by_name(name: str, file: str) -> bool:
    base = name.replace(".", os.sep)
    return any(file.startswith(f"{os.path.join(folder, base)}.") for folder in sys.path)  # noqa: PTH118


def _of_main() -> str:
    """`python -c`: its text is an argument. (Names of notebooks' cells and lines of a terminal say nothing.)"""
    if "-c" in sys.orig_argv:
        return sha256_hex(sys.orig_argv[sys.orig_argv.index("-c") + 1].encode("utf-8", "surrogateescape"))[:16]
    raise NotServed("the program is typed in: no file says what it is")


@functools.cache
def _installed() -> str:
    """Digest of the packages on the path, by the sha256s of their files as installed (5 to 10 ms)."""
    digest = hashlib.sha256()
    for record in _records():
        try:
            lines = record.read_bytes().splitlines()
        except OSError:  # installed by something else than pip
            lines = []
        name = record.parent.name.encode()
        code = sorted([line for line in lines if line[-1:] != b","])  # others have no hash: bytecode, and RECORD itself
        # Not what differs with how a package was installed, nor scripts and links, which hold paths of this host.
        for prefix in (name + b"/", b"..", b"__editable__"):
            del code[bisect_left(code, prefix) : bisect_left(code, prefix + b"\xff")]
        digest.update(name + b"\n" + b"\n".join(code))
    return digest.hexdigest()[:16]


def _records() -> Iterator[Path]:
    """The same whatever the order of folders: packages by name."""
    found: dict[str, Path] = {}
    for folder in sys.path:
        if os.path.basename(folder) in _INSTALLED and os.path.isdir(folder):  # noqa: PTH112, PTH119
            for entry in os.scandir(folder):
                if entry.name.endswith((".dist-info", ".egg-info")):
                    found.setdefault(entry.name, Path(entry.path) / "RECORD")
    for name in sorted(found):
        yield found[name]
