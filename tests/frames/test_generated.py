"""Random programs, one random edit each: what is restored in the edited program is what plain torch gives there.

`FRAMES_PAIRS` in the environment: how many; a few by default, since each pair is two compiles.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from probe import frames

PAIRS = int(os.environ.get("FRAMES_PAIRS", "8"))
FIRST = int(os.environ.get("FRAMES_FIRST_PAIR", "0"))


def test_an_edited_program_is_never_given_the_record_of_the_other(ask, tmp_path, inductor_cache):
    wrong, recorded, restored = [], 0, 0
    for number in range(FIRST, FIRST + PAIRS):
        chance = random.Random(number)
        task = {"seed": chance.randrange(10**9), "edit": chance.randrange(10**9), "name": f"made{number}"}
        home = tmp_path / str(number)
        saved = ask(home, "save", module="generated", **task)
        changed = ask(home, "changed", module="generated", **task)
        recorded += bool([event for event in frames(saved, "traced") if event[1] == "absent"])
        restored += bool(frames(changed, "restored"))
        if changed["got"] != changed["want"]:
            wrong.append((number, changed["events"]))
    assert not wrong
    assert recorded >= PAIRS * 0.9, "few programs can be recorded: this shows little"
