"""One change between a process that recorded a frame and one that may restore it: the result is plain torch's.

Of each probe three fresh processes (forked; `tests/fork_server.py`): `save` traces and records; `changed` comes to its
store with one thing changed, and is compared with `backend="inductor"` in that same process; `same` comes with nothing
changed, has to restore where the probe can be recorded at all, then makes the change and calls again, as `save` did.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # the steps' view of these files: names without a package

from frame_probes import CHANGES, PROBES
from probe import frames, is_as_said


@pytest.fixture
def step(ask, tmp_path):
    return lambda name, which: ask(tmp_path, which, module="steps", probe=name)


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_restored_is_what_plain_torch_gives(name, step):
    probe = PROBES[name]
    saved = step(name, "save")
    refused = [event for event in frames(saved, "traced") if event[1] == "not-restorable"]
    if is_as_said(probe):
        assert bool(refused) == (probe.refused is not None), refused or "it was recorded"
        assert probe.refused is None or any(probe.refused in event[3] for event in refused), refused
    changed = step(name, "changed")
    if not probe.random:
        assert changed["got"] == changed["want"], changed["events"]
    if probe.restores and not refused:
        assert frames(changed, "restored"), changed["events"]
        assert not frames(changed, "traced"), changed["events"]
    elif probe.seen:
        assert not frames(changed, "restored"), changed["events"]
    elif is_as_said(probe) and not (probe.random or probe.agrees):
        assert changed["got"] != saved["first"], "the change changes nothing: the probe shows nothing"
    same = step(name, "same")
    if not refused and frames(saved, "traced"):  # Dynamo leaves some frames alone
        assert frames(same, "restored"), same["events"]
        assert not frames(same, "traced"), same["events"]
    if not probe.random:
        assert same["first"] == saved["first"]
        assert same.get("second") == saved.get("second"), "the second call, after the change"
