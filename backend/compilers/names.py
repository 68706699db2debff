"""Symbol names of the process that compiled, as those of this one. Texts only: nothing here knows torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping


def renamer(theirs: Mapping[str, str], ours: Mapping[str, str]) -> Callable[[str], str]:
    """Turns the symbol names of the process that compiled into those of this one, through their slots."""
    here = {slot: name for name, slot in ours.items()}
    names = {name: here[slot] for slot, name in theirs.items() if slot in here and here[slot] != name}
    if not names:
        return lambda text: text
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b")
    return lambda text: pattern.sub(lambda found: names[found.group(1)], text)
