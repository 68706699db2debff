"""The probes: each a program, what is compiled of it, and one change. See `test_probes.py`."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import probes_asked  # noqa: F401
import probes_assumed  # noqa: F401
import probes_beside  # noqa: F401
import probes_called  # noqa: F401
import probes_carried  # noqa: F401
import probes_classes  # noqa: F401
import probes_configs  # noqa: F401
import probes_environment  # noqa: F401
import probes_functions  # noqa: F401
import probes_generated  # noqa: F401
import probes_given_up  # noqa: F401
import probes_identity  # noqa: F401
import probes_keys  # noqa: F401
import probes_library  # noqa: F401
import probes_library_names  # noqa: F401
import probes_modules  # noqa: F401
import probes_operators  # noqa: F401
import probes_optimizers  # noqa: F401
import probes_process  # noqa: F401
import probes_protocols  # noqa: F401
import probes_sizes  # noqa: F401
import probes_sourceless  # noqa: F401
import probes_texts  # noqa: F401
import probes_torch_functions  # noqa: F401
import probes_values  # noqa: F401
import probes_wrappers  # noqa: F401
from probe import PROBES

__all__ = ["CHANGES", "DATA", "HUNTED", "PROBES"]

HERE = Path(__file__).parent
CHANGES = [*PROBES]

# The same files, other data: what hunts by readers of torch found.
sys.path.append(str(HERE / "data"))
for part in ("1", "2", "3", "4", "5", "6", "7"):
    importlib.import_module(f"probes_data_{part}")
DATA = [name for name in PROBES if name not in CHANGES]

HUNTED: list[str] = []
if "HUNTED_PROBES" in os.environ:  # see hunted/hunt.py
    before = [*PROBES]
    sys.path.append(str(HERE / "hunted"))
    for part in ("a", "b", "c", "transformers"):
        importlib.import_module(f"probes_{part}")
    HUNTED += [name for name in PROBES if name not in before]
