"""Which tiers are sick, since when, and who was told. It decides nothing about lookups and publishes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Literal

logger = logging.getLogger(__package__)

Use = Literal["read", "write"]

RETRY_SECONDS = 60.0

_told: set[tuple[str, str]] = set()  # (tier, use) warned of in this process, over all caches


class Health:
    """A tier that failed is left alone for a minute, for reading or for writing, then tried again.

    One warning per tier and use in the life of a process; later failures go to the debug log.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sick: dict[tuple[str, Use], tuple[str, float]] = {}

    def usable(self, tier: str, use: Use) -> bool:
        sick = self._sick.get((tier, use))
        return sick is None or self._clock() >= sick[1]

    def failed(self, tier: str, use: Use, message: str) -> None:
        self._sick[tier, use] = (message, self._clock() + RETRY_SECONDS)
        if (tier, use) in _told:
            logger.debug("cache tier %s: %s", tier, message)
            return
        _told.add((tier, use))
        what = "it is left out" if use == "read" else "nothing new is kept there"
        logger.warning("cache tier %s is unavailable and %s: %s", tier, what, message)

    def worked(self, tier: str, use: Use) -> None:
        self._sick.pop((tier, use), None)

    def message(self, tier: str, use: Use) -> str:
        sick = self._sick.get((tier, use))
        return "" if sick is None else sick[0]

    def report(self) -> dict[str, str]:
        """The last failure of each tier that has not worked since."""
        report: dict[str, str] = {}
        for (tier, _), (message, _) in sorted(self._sick.items()):
            report[tier] = message if tier not in report else f"{report[tier]}; {message}"
        return report
