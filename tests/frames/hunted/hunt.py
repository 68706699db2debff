"""Candidates of a hunt for wrong restores that nobody has gone through yet: a refusal is right, a wrong result is not.

    HUNTED_PROBES=1 pytest -n 2 tests/frames/hunted/hunt.py

Not part of the suite: those that are right move to the probes beside this folder, with what is expected of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent))

from frame_probes import HUNTED, PROBES
from probe import frames


@pytest.mark.parametrize("name", HUNTED)
def test_nothing_is_restored_wrongly(name, ask, tmp_path):
    probe = PROBES[name]
    saved = ask(tmp_path, "save", module="steps", probe=name)
    changed = ask(tmp_path, "changed", module="steps", probe=name)
    assert probe.random or changed["got"] == changed["want"], changed["events"]
    if not frames(saved, "traced"):
        pytest.skip("Dynamo leaves it alone")
