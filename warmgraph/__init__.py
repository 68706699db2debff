"""warmgraph: a shared, persistent compilation cache for `torch.compile`. The front door; nothing lives here.

model = torch.compile(model, backend="warmgraph")
"""

from __future__ import annotations

from pathlib import Path as _Path
from typing import TYPE_CHECKING, Any

# In a source checkout the rooms are siblings of this folder, not children; let them be found there too.
_root = _Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file() and (_root / "hashing" / "key.py").is_file():
    __path__.append(str(_root))

from warmgraph.cache import ConfigError, configure, flush, stats  # noqa: E402

if TYPE_CHECKING:
    from warmgraph.hashing import Uncacheable, cache_hash, describe


def __getattr__(name: str) -> Any:
    if name in ("Uncacheable", "cache_hash", "describe"):  # they need torch, which `import warmgraph` must not
        from warmgraph import hashing

        return getattr(hashing, name)
    if name == "__version__":  # read on demand: importlib.metadata takes 20 ms to import
        from importlib import metadata

        return metadata.version("warmgraph")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["ConfigError", "Uncacheable", "__version__", "cache_hash", "configure", "describe", "flush", "stats"]
