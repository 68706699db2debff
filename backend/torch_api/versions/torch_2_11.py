"""torch 2.11: what it has otherwise. Read and run on 2.11.0."""

from __future__ import annotations

from .base import Version

VERSION = Version(tested=("2.11.0",))
