"""Profiles: which inputs of a frame are known to vary, as lines that any number of writers add to. No I/O.

A line is one observation of one process ("this input came with other sizes here"); what it says is the backend's.
A profile is a set of lines, each with the day on which it was last seen. Two are joined by taking both their lines,
and the later day of each: commutative, associative and idempotent, so that neither order nor repetition matters, and
ranks and hosts need no agreement. A profile that would grow too large keeps the lines whose digests are smallest,
which is the same choice in every order.

A profile decides which graph is traced, never what a graph's key is: a wrong one costs a compile, not a result.
So lines age: one that no process has seen for MAX_AGE_DAYS counts no more, and is learnt again if it is still true.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping

from msgspec import Struct, field

from ..typing import CorruptEntry, Entry

MAX_LINES = 512
MAX_LINE_CHARACTERS = 512
MAX_AGE_DAYS = 30
_SEEN_AGAIN_DAYS = 7  # a line is written anew when it was seen so much later: not every day
_KIND = "profile"
_LINE = "line "  # begins the names of the facts that are lines


def today() -> int:
    """Days since 1970."""
    return int(time.time() // 86_400)


class Profile(Struct, frozen=True):
    """lines: by line, the day on which it was last seen."""

    lines: Mapping[str, int] = field(default_factory=dict)

    def joined(self, other: Profile) -> Profile:
        """What either knows."""
        if not other.lines:
            return self
        lines = dict(self.lines)
        for line, day in other.lines.items():
            lines[line] = max(day, lines.get(line, 0))
        return _bounded(lines)

    def covers(self, other: Profile) -> bool:
        """Whether nothing would be gained by joining `other`."""
        newest = ((self.lines.get(line), day) for line, day in other.lines.items())
        return all(seen is not None and day < seen + _SEEN_AGAIN_DAYS for seen, day in newest)

    def still_true(self, day: int) -> Profile:
        """Without lines that are too old on `day`, or from a future that no clock's error explains."""
        return Profile({line: seen for line, seen in self.lines.items() if day - MAX_AGE_DAYS <= seen <= day + 1})

    @property
    def variant(self) -> str:
        """The name of a record of this profile: one for equal lines, so that no record ever replaces other lines."""
        digest = hashlib.sha256("\n".join(sorted(self.lines)).encode("utf-8", "backslashreplace"))
        return f"profile-{digest.hexdigest()[:24]}"


def profile_of(lines: Mapping[str, int]) -> Profile:
    """A profile of what may be kept: lines that are too long, or not printable, are left out."""
    return _bounded({line: day for line, day in lines.items() if _may_be_kept(line)})


def profile_entry(key: str, profile: Profile, about: str) -> Entry:
    """The entry that keeps `profile` under `key`. about: of what it is, for people."""
    facts = {f"{_LINE}{line}": day for line, day in profile.lines.items()}
    return Entry(
        key=key,
        variant=profile.variant,
        parts={},
        guards=None,
        symbols={},
        blobs=(),
        facts={"kind": _KIND, "function": f"profile of {about}"[:256], **facts},
    )


def profile_in(entry: Entry) -> Profile:
    """The profile that an entry keeps. Raises CorruptEntry when it is none; lines that cannot be are passed by."""
    if entry.facts.get("kind") != _KIND or entry.blobs:
        raise CorruptEntry("not a profile")
    lines = {
        name.removeprefix(_LINE): day
        for name, day in entry.facts.items()
        if name.startswith(_LINE) and type(day) is int and _may_be_kept(name.removeprefix(_LINE))
    }
    return _bounded(lines)


def _may_be_kept(line: str) -> bool:
    return 0 < len(line) <= MAX_LINE_CHARACTERS and line.isprintable()


def _bounded(lines: Mapping[str, int]) -> Profile:
    if len(lines) <= MAX_LINES:
        return Profile(lines)
    kept = sorted(lines, key=lambda line: hashlib.sha256(line.encode("utf-8", "backslashreplace")).digest())
    return Profile({line: lines[line] for line in kept[:MAX_LINES]})
