"""The probes: each a program, what is compiled of it, and one change. See `test_probes.py`."""

from __future__ import annotations

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

__all__ = ["PROBES"]
