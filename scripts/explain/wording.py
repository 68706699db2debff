"""One difference as people read it, and how long texts are cut. Not how differences are found."""

from __future__ import annotations

from dataclasses import dataclass

_LONG = 120


@dataclass(frozen=True, slots=True)
class Difference:
    """One line. name: of what differs, within its part. before, after: for people; None where there is none.

    how: `changed`, `added` or `removed`; `items` for a list of which some changed, which are in `after`.
    """

    part: str
    name: str
    before: str | None
    after: str | None
    how: str = "changed"

    @property
    def text(self) -> str:
        if self.how == "items":
            return f"{self.part}: {self.name} {self.after}"
        if self.how != "changed":
            sign, value = ("+", self.after) if self.how == "added" else ("-", self.before)
            return f"{self.part}: {sign}{self.name} {value or ''}".rstrip()
        before = "absent" if self.before is None else self.before
        return f"{self.part}: {self.name} {before} -> {'absent' if self.after is None else self.after}"


def short(text: str, most: int = _LONG) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def together(before: str, after: str) -> tuple[str, str]:
    """Both, cut around the first place where they differ if they are long."""
    if max(len(before), len(after)) <= _LONG:
        return before, after
    ends = min(len(before), len(after))
    place = next((at for at in range(ends) if before[at] != after[at]), ends)
    start = max(0, place - _LONG // 3)
    head = "..." if start else ""
    return head + short(before[start:]), head + short(after[start:])
