"""torch 2.13: what it has otherwise. Read and run on 2.13.0."""

from __future__ import annotations

from .base import Version

VERSION = Version(tested=("2.13.0",))
