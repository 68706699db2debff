"""The configurations that were chosen for a graph's Triton kernels, kept beside its entry. Chooses nothing.

They lie under a key of their own, as lines that any number of processes add to (`cache.Profile`): joined by union,
sealed, bounded, and forgotten when no process has chosen for a month. A line that is wrong costs speed, never a result:
each configuration computes the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from warmgraph.cache import ProfileStore, fork_safe_lock, profile_of, today
from warmgraph.hashing import sha256_hex

from ..reporting.report import Report

MAX_LINES = 512  # that one process adds for one graph: as many as a profile holds

_TUNED = re.compile(r"tuned ([0-9a-f]{32}) ([0-9a-f]{16})", re.ASCII)


def choices_key(key: str) -> str:
    """Where the chosen configurations of an entry's Triton kernels lie."""
    return f"wg1{sha256_hex(f'chosen configurations 1 of {key}'.encode())}"


def parsed_choices(lines: Iterable[str]) -> dict[str, str]:
    """By kernel; of several, which hosts may have made each for themselves, one and always the same."""
    return {match[1]: match[2] for line in sorted(lines) if (match := _TUNED.fullmatch(line))}


class KeptChoices:
    """Of one graph: what is known, and what this process adds. Slow paths only; writes in the background."""

    def __init__(self, profiles: ProfileStore, report: Report) -> None:
        self._profiles = profiles
        self._report = report
        self._told: set[str] = set()
        self._lock = fork_safe_lock()

    def tuned(self, kernel: str, choice: str) -> None:
        """A kernel's configuration was chosen, at its first launch. A bypassed graph has no key, and keeps nothing."""
        key, line = self._report.key_id, f"tuned {kernel} {choice}"
        with self._lock:
            if key is None or line in self._told or len(self._told) >= MAX_LINES:
                return
            self._told.add(line)
        about = f"kernels of {self._report.place.function or 'a graph'}"
        self._profiles.learn(choices_key(key), profile_of({line: today()}), about)

    def known(self) -> Mapping[str, str]:
        """What was chosen elsewhere, by kernel. One round trip to a remote store; StoreUnavailable only when strict."""
        key = self._report.key_id
        return {} if key is None else parsed_choices(self._profiles.profile(choices_key(key)).lines)
