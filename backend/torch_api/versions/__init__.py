"""Versions of torch: which are known, what each has of its own (a file for each), and which one is at hand.

Where a name lies and what a function takes is looked at in the torch at hand (`surface.py`), so that a version that
nobody has read works as long as nothing that is needed has moved.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from . import torch_2_11, torch_2_12, torch_2_13, torch_2_14, torch_2_15
from .base import Version

KNOWN: Mapping[tuple[int, int], Version] = {
    (2, 11): torch_2_11.VERSION,
    (2, 12): torch_2_12.VERSION,
    (2, 13): torch_2_13.VERSION,
    (2, 14): torch_2_14.VERSION,
    (2, 15): torch_2_15.VERSION,
}
OLDEST, NEWEST = min(KNOWN), max(KNOWN)


def at_hand() -> tuple[int, int]:
    """Major and minor version of this process's torch. Of an unreadable one: newer than all that are known."""
    parts = str(torch.__version__).split("+")[0].split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (IndexError, ValueError):
        return NEWEST[0] + 1, 0


def here() -> Version:
    """What is noted of this torch; of one that is newer than all that are known, what the newest has."""
    return KNOWN.get(at_hand(), KNOWN[NEWEST])


def too_old() -> str | None:
    """One line, or None."""
    if at_hand() >= OLDEST:
        return None
    return f"torch {torch.__version__} is older than {OLDEST[0]}.{OLDEST[1]}; upgrade torch"


def _patch_release(version: str) -> int:
    """The third number of a version; 0 where there is none."""
    found = version.split("+")[0].split(".")[2:3]
    return int(found[0]) if found and found[0].isdecimal() else 0


def untested() -> str | None:
    """One line on a torch that no test was run on, though it may work; None on one that was tested."""
    known = KNOWN.get(at_hand())
    if known is not None and _patch_release(str(torch.__version__)) <= max(map(_patch_release, known.tested)):
        return None
    newest = (known or KNOWN[NEWEST]).tested[-1]
    return f"torch {torch.__version__} was not tested with this warmgraph; the nearest that was is {newest}"
