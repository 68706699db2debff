"""torch 2.12: what it has otherwise. Read and run on 2.12.1."""

from __future__ import annotations

from .base import Version

VERSION = Version(tested=("2.12.1",))
