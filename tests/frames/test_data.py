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

# Restored wrongly: attributes of `sys` and dunders put on a class of Python's, what a metaclass's own attribute access
# finds, C comparisons that the user allowed, annotations, comparisons that a library generated as text.
KNOWN = """
    on_library_call on_sys c_slot_space metaclass_finds annotations_of_method generated_equals box_of_function
""".split()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.xfail(strict=True)] if name.removeprefix("d6a: ") in KNOWN else [])
        for name in DATA
    ],
)
def test_nothing_is_restored_wrongly(name, ask, tmp_path):
    saved = ask(tmp_path, "save", module="steps", probe=name)
    changed = ask(tmp_path, "changed", module="steps", probe=name)
    assert PROBES[name].random or changed["got"] == changed["want"], changed["events"]
    if not frames(saved, "traced"):
        pytest.skip("Dynamo leaves it alone")
