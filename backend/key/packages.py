"""Packages that define operators in Python under their own name (torchao): known by all of their files.

torch does not hand out what `torch.library.Library.impl` was given. Where the operators' namespace is that of an
installed package that was imported, it was given by that package: torch lets nobody else fill a kernel twice.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import time
from importlib import metadata
from pathlib import Path

from warmgraph.hashing import Uncacheable

_MOST_BYTES = 64 << 20
_BEGAN = time.time()


def package_text(namespace: str) -> str | None:
    """Version and digest of the Python files of the package of that name; None where none is installed and imported.

    Raises Uncacheable for one that was edited since: nothing says what of it is loaded.
    """
    try:
        version = metadata.version(namespace)
    except metadata.PackageNotFoundError:
        return None
    places = tuple(getattr(sys.modules.get(namespace), "__path__", ()))
    return f"{namespace} {version} {_digest(places)}" if places else None


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
                raise Uncacheable(f"package {place.name}, which defines operators in Python, {why}")
            found.update(f"{path.relative_to(place)} {len(content)}\n".encode() + content)
    return found.hexdigest()
