"""Tables that a hostile journal cannot blow up: rows by key up to a bound, buckets of time. Knows no events."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")


_MOST_REFUSED = 100_000


class Rows(dict[K, R], Generic[K, R]):
    """Rows by key, at most `bound`; then new keys get none."""

    def __init__(self, make: Callable[[], R], bound: int) -> None:
        super().__init__()
        self._make = make
        self._bound = bound
        self._refused: set[int] = set()  # hashes, which are a tenth of the keys' size

    @property
    def left_out(self) -> int:
        """How many keys were refused a row, however often each came; no more than _MOST_REFUSED are told apart."""
        return len(self._refused)

    def row(self, key: K) -> R | None:
        found = self.get(key)
        if found is None:
            if len(self) >= self._bound:
                if len(self._refused) < _MOST_REFUSED:
                    self._refused.add(hash(key))
                return None
            found = self[key] = self._make()
        return found

    def top(self, order: Callable[[K, R], Any], limit: int) -> tuple[list[tuple[K, R]], int]:
        """The first `limit` in this order (smallest first), and how many more there are, as far as is known."""
        ranked = sorted(self.items(), key=lambda item: order(*item))
        return ranked[:limit], max(0, len(ranked) - limit) + self.left_out


@dataclass(slots=True)
class Waits:
    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds
        self.longest = max(self.longest, seconds)


@dataclass(slots=True)
class Sums:
    """What is summed for a function, a process, a bucket of time, ... Outcomes by name."""

    outcomes: dict[str, int] = field(default_factory=dict)
    saved: float = 0.0
    spent: float = 0.0
    compiled: float = 0.0
    bytes: int = 0

    def add(self, outcome: str, spent: float, saved: float) -> None:
        try:
            self.outcomes[outcome] += 1
        except KeyError:
            self.outcomes[outcome] = 1
        self.spent += spent
        self.saved += saved

    def merge(self, other: Sums) -> None:
        for outcome, count in other.outcomes.items():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + count
        self.spent += other.spent
        self.saved += other.saved

    def count(self, outcome: str) -> int:
        return self.outcomes.get(outcome, 0)


# Each divides the next, so that buckets merge without a rest. Seconds; the longest are weeks.
_WIDTHS = (1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400, 604_800, 4 * 604_800, 16 * 604_800, 64 * 604_800)
MAX_BUCKETS = 120


class Timeline:
    """Sums by time, in buckets of one length that grows until all events lie in at most MAX_BUCKETS of them.

    first, last: of what was added. What lies outside of (earliest, latest) is no time of ours and is passed by:
    one host with a broken clock must not press all others into one bucket.
    """

    def __init__(self, earliest: float, latest: float) -> None:
        self._earliest, self._latest = earliest, latest
        self._level = 0
        self._buckets: dict[int, Sums] = {}
        self.first: float | None = None
        self.last: float | None = None

    def at(self, time: float) -> Sums | None:
        """The bucket of `time`."""
        if not self._earliest < time < self._latest:
            return None
        if self.first is None or self.last is None:
            self.first = self.last = time
        elif time < self.first:
            self.first = time
        elif time > self.last:
            self.last = time
        number = int(time // _WIDTHS[self._level])
        found = self._buckets.get(number)
        if found is None:
            found = self._new(time, number)
        return found

    def buckets(self) -> Iterable[tuple[float, float, Sums]]:
        """(from, to, sums) of every bucket between the first and the last, the empty ones too."""
        width = _WIDTHS[self._level]
        for number in range(min(self._buckets, default=0), max(self._buckets, default=-1) + 1):
            yield float(number * width), float((number + 1) * width), self._buckets.get(number) or Sums()

    def _new(self, time: float, number: int) -> Sums:
        while self._span(number) > MAX_BUCKETS and self._level + 1 < len(_WIDTHS):
            self._level += 1
            merged: dict[int, Sums] = {}
            ratio = _WIDTHS[self._level] // _WIDTHS[self._level - 1]
            for old, sums in self._buckets.items():
                merged.setdefault(old // ratio, Sums()).merge(sums)
            self._buckets = merged
            number = int(time // _WIDTHS[self._level])
        return self._buckets.setdefault(number, Sums())

    def _span(self, number: int) -> int:
        return max(number, max(self._buckets, default=number)) - min(number, min(self._buckets, default=number)) + 1
