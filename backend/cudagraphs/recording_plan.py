"""The recording plan of a graph: what its run decided here, told to later processes. Records and tunes nothing.

A CUDA graph cannot be carried to another process, but what is worth recording can: sizes, skips, and apart from these
the configurations that were chosen for Triton kernels (`tuned`). The plan lies beside the entry under
a key of its own, as lines that any number of processes add to (`cache.Profile`): joined by union, sealed, bounded, and
forgotten when no process has recorded a size for a month. Sizes are those of the compiled graph's integer inputs, by
position, so that symbols may be called as they like. A line that is wrong costs a recording, never a result: a plan is
asked only by who records ahead (`ahead`), and checked there against the entry's guards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from warmgraph.cache import ProfileStore, Reason, fork_safe_lock, profile_of, today
from warmgraph.hashing import sha256_hex

from ..reporting.report import Report
from .watching import Recording

MAX_TOLD = 64  # lines that one process adds for one graph: sizes may come without bound
MAX_LINES = 512  # the same, of kernels: as many as a profile holds

_NUMBERS = r"\d{1,9}(?:,\d{1,9})*"
_PAIRS = r"\d{1,9}=\d{1,18}(?:,\d{1,9}=\d{1,18})*"
_RECORDED = re.compile(rf"(forward|backward) recorded(?: ({_PAIRS}))?(?: static ({_NUMBERS}))?", re.ASCII)
_TUNED = re.compile(r"tuned ([0-9a-f]{32}) ([0-9a-f]{16})", re.ASCII)
_SKIPPED = re.compile(r"(forward|backward) skipped ([a-z-]{1,40})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Plan:
    """recorded: in a fixed order. skipped: sides that ran without CUDA graphs, and why (a Reason's value)."""

    recorded: tuple[Recording, ...] = ()
    skipped: frozenset[tuple[bool, str]] = frozenset()


def plan_key(key: str) -> str:
    """Where the plan of an entry's key lies: one for all variants, whose guards part the sizes."""
    return f"wg1{sha256_hex(f'recording plan 1 of {key}'.encode())}"


def choices_key(key: str) -> str:
    """Where the chosen configurations of an entry's Triton kernels lie."""
    return f"wg1{sha256_hex(f'chosen configurations 1 of {key}'.encode())}"


def parsed_choices(lines: Iterable[str]) -> dict[str, str]:
    """By kernel; of several, which hosts may have made each for themselves, one and always the same."""
    return {match[1]: match[2] for line in sorted(lines) if (match := _TUNED.fullmatch(line))}


def parsed(lines: Iterable[str]) -> Plan:
    """The plan in the lines of a profile. Total: lines that are none are passed by."""
    recorded: list[Recording] = []
    skipped: set[tuple[bool, str]] = set()
    for line in sorted(lines):
        if match := _RECORDED.fullmatch(line):
            side, sizes, static = match.groups()
            pairs = (pair.split("=") for pair in sizes.split(",")) if sizes else ()
            fixed = tuple(int(place) for place in static.split(",")) if static else ()
            recorded.append(Recording(side == "backward", {int(at): int(size) for at, size in pairs}, fixed))
        elif match := _SKIPPED.fullmatch(line):
            skipped.add((match[1] == "backward", match[2]))
    return Plan(tuple(recorded), frozenset(skipped))


def line_of(recording: Recording) -> str:
    sizes = ",".join(f"{place}={size}" for place, size in sorted(recording.sizes.items()))
    static = ",".join(map(str, recording.static))
    return f"{_side(recording.backward)} recorded{sizes and ' '}{sizes}{static and ' static '}{static}"


def _side(backward: bool) -> str:
    return "backward" if backward else "forward"


def plan_of(learning: ProfileStore, key: str) -> Plan:
    """What is known of an entry's key: one round trip to a remote store. Raises StoreUnavailable only when strict."""
    return parsed(learning.profile(plan_key(key)).lines)


class PlanWriter:
    """Adds to the plan of one graph what becomes of it in this process. Slow paths only; writes in the background."""

    def __init__(self, learning: ProfileStore, report: Report) -> None:
        self._learning = learning
        self._report = report
        self._told: set[str] = set()
        self._lock = fork_safe_lock()

    def recorded(self, recording: Recording) -> None:
        self._tell(line_of(recording), plan_key, MAX_TOLD)

    def skipped(self, backward: bool, reason: Reason) -> None:
        """A verdict of this process's run. What the compile decided is in the entry itself."""
        self._tell(f"{_side(backward)} skipped {reason.value}", plan_key, MAX_TOLD)

    def tuned(self, kernel: str, choice: str) -> None:
        self._tell(f"tuned {kernel} {choice}", choices_key, MAX_LINES)

    def choices(self) -> dict[str, str]:
        """One round trip to a remote store. Raises StoreUnavailable only when strict."""
        key = self._report.key_id
        return {} if key is None else parsed_choices(self._learning.profile(choices_key(key)).lines)

    def _tell(self, line: str, key_for: Callable[[str], str], most: int) -> None:
        key = self._report.key_id
        with self._lock:
            if key is None or line in self._told or len(self._told) >= most:
                return
            self._told.add(line)
        about = f"recordings of {self._report.place.function or 'a graph'}"
        self._learning.learn(key_for(key), profile_of({line: today()}), about)
