"""torch 2.14: what it has otherwise. Read and run on 2.14.1."""

from __future__ import annotations

from .base import Version

VERSION = Version(tested=("2.14.1",))
