"""The same files, other data: a value of a file of settings, of the environment, of a checkpoint.

Of each probe two fresh processes: one traces and records, the other comes with the other value, and its result is
compared with `backend="inductor"` in that same process. To be refused is right, a wrong result is not.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from frame_probes import DATA, PROBES
from probe import frames


@pytest.mark.parametrize("name", DATA)
def test_nothing_is_restored_wrongly(name, ask, tmp_path):
    saved = ask(tmp_path, "save", module="steps", probe=name)
    changed = ask(tmp_path, "changed", module="steps", probe=name)
    assert PROBES[name].random or changed["got"] == changed["want"], changed["events"]
    if not frames(saved, "traced"):
        pytest.skip("Dynamo leaves it alone")
