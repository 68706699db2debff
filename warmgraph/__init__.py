"""warmgraph: a shared, persistent compilation cache for `torch.compile`. The front door; nothing lives here.

model = torch.compile(model, backend="warmgraph")
"""

from __future__ import annotations

from importlib import metadata as _metadata
from pathlib import Path as _Path

# In a source checkout the rooms are siblings of this folder, not children; let them be found there too.
_root = _Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file() and (_root / "hashing" / "key.py").is_file():
    __path__.append(str(_root))

from warmgraph.cache import ConfigError, configure, flush, stats  # noqa: E402

try:
    __version__ = _metadata.version("warmgraph")
except _metadata.PackageNotFoundError:  # a checkout that was never installed
    __version__ = "0+unknown"

__all__ = ["ConfigError", "__version__", "configure", "flush", "stats"]
