"""The configurations that were chosen for a graph's Triton kernels, kept beside its entry. Chooses nothing.

They lie under a key of their own, as lines that any number of processes add to (`cache.Profile`): joined by union,
sealed, bounded, and forgotten when no process has chosen for a month. A line that is wrong costs speed, never a result:
each configuration computes the same.

What coordinate descent chose, or `dynamic_scale_rblock`, was compiled after the entry was made: such a configuration is
an entry of its own, under a key made of the graph's, the kernel's name and its own, sealed as all are.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Mapping
from typing import Any

from warmgraph.cache import Cache, Entry, Hit, Role, fork_safe_lock, profile_of, today
from warmgraph.hashing import for_current_device, sha256_hex

from ..artifact.records import read
from ..artifact.unpickle import realise
from ..reporting.report import Report, made_here

MAX_LINES = 512  # that one process adds for one graph: as many as a profile holds

_TUNED = re.compile(r"tuned ([0-9a-f]{32}) ([0-9a-f]{16})", re.ASCII)


def choices_key(key: str) -> str:
    """Where the chosen configurations of an entry's Triton kernels lie."""
    return f"wg1{sha256_hex(f'chosen configurations 2 of {key}'.encode())}"


def parsed_choices(lines: Iterable[str]) -> dict[str, str]:
    """By kernel; of several, which hosts may have made each for themselves, one and always the same."""
    return {match[1]: match[2] for line in sorted(lines) if (match := _TUNED.fullmatch(line))}


class KeptChoices:
    """Of one graph: what is known, and what this process adds. Slow paths only; writes in the background."""

    def __init__(self, cache: Cache, report: Report) -> None:
        self._cache = cache
        self._report = report
        self._told: set[str] = set()
        self._lock = fork_safe_lock()

    def tuned(self, kernel: str, choice: str, late: Any = None) -> None:
        """A kernel's configuration was chosen, at its first launch. A bypassed graph has no key, and keeps nothing.

        late: with its binary, where the graph's entry does not have it. Kept first: who finds the line finds it, too.
        """
        key, line = self._report.key_id, f"tuned {kernel} {choice}"
        with self._lock:
            if key is None or line in self._told or len(self._told) >= MAX_LINES:
                return
            self._told.add(line)
        about = f"kernels of {self._report.place.function or 'a graph'}"
        if late is not None:
            if for_current_device():  # it names the device that it was compiled on
                return
            self._keep(_late_key(key, kernel, choice), choice, late, about)
        self._cache.learning.learn(choices_key(key), profile_of({line: today()}), about)

    def known(self) -> Mapping[str, str]:
        """What was chosen elsewhere, by kernel. One round trip to a remote store; StoreUnavailable only when strict."""
        key = self._report.key_id
        return {} if key is None else parsed_choices(self._cache.learning.profile(choices_key(key)).lines)

    def late(self, kernel: str, choice: str) -> Any:
        """What `tuned` was given; None where nobody gave it. One lookup; StoreUnavailable only when strict."""
        key = self._report.key_id
        if key is None or for_current_device():
            return None
        found = self._cache.lookup(_late_key(key, kernel, choice), lambda entry: entry.variant == choice)
        return realise(read(found.blobs[_BLOB])) if isinstance(found, Hit) else None

    def _keep(self, key: str, choice: str, late: Any, about: str) -> None:
        data = pickle.dumps(late, protocol=5)
        realise(read(data))  # what a load would refuse is not kept
        facts = {"kind": "kernel", "function": about[:256], **made_here()}
        entry = Entry(key=key, variant=choice, parts={}, guards=None, symbols={}, blobs=(), facts=facts)
        self._cache.publish(entry, [(Role.KERNEL, _BLOB, data)])


_BLOB = "kernel"


def _late_key(key: str, kernel: str, choice: str) -> str:
    return f"wg1{sha256_hex(f'late configuration 1 of {key}: {kernel} {choice}'.encode())}"
