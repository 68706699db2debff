"""The probes: each a program, what is compiled of it, and one change. See `test_probes.py`."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import probes_classes  # noqa: F401
import probes_environment  # noqa: F401
import probes_functions  # noqa: F401
import probes_identity  # noqa: F401
import probes_library  # noqa: F401
import probes_modules  # noqa: F401
import probes_process  # noqa: F401
import probes_sourceless  # noqa: F401
import probes_values  # noqa: F401
from probe import PROBES

__all__ = ["HUNTED", "PROBES"]

HUNTED: list[str] = []
if "HUNTED_PROBES" in os.environ:  # see hunted/hunt.py
    before = [*PROBES]
    sys.path.append(str(Path(__file__).parent / "hunted"))
    for part in ("a", "b", "c", "d", "e", "transformers"):
        importlib.import_module(f"probes_{part}")
    HUNTED += [name for name in PROBES if name not in before]
