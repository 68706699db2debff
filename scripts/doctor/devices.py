"""What ranks of this host compiled for each of its accelerators alone, as its journal says."""

from __future__ import annotations

import time
from collections.abc import Iterator

from warmgraph.cache import ONE_DEVICE, ConfigError, StoreUnavailable, journal_dir, read

from ..reasons import ADVICE
from .command import Finding, ok, warning
from .settings import current_settings

_DAY = 86_400.0


def check_devices() -> Iterator[Finding]:
    """Of the last day. Nothing is said where no code names one of several devices."""
    current = current_settings()
    if isinstance(current, ConfigError):
        return
    found: dict[tuple[str | None, str | None], set[str]] = {}
    try:
        for event in read(journal_dir(current), since=time.time() - _DAY):
            detail = event["detail"] or ""
            if event["outcome"] == "miss" and detail.startswith(ONE_DEVICE):
                place = (event["function"], event["file"])
                found.setdefault(place, set()).add(detail.removeprefix(ONE_DEVICE))
    except StoreUnavailable:
        return  # the folder's own check says so
    several = {place: devices for place, devices in found.items() if len(devices) > 1}
    if not several:
        if found:
            yield ok("devices", "within a day no code was compiled for several devices of a host")
        return
    (function, file), devices = max(several.items(), key=lambda item: len(item[1]))
    more = f", and {len(several) - 1} others" if len(several) > 1 else ""
    said = f"{function or 'a graph'} ({file}){more}: compiled within a day for each of {', '.join(sorted(devices))}"
    yield warning("devices", said, ADVICE["devices"])
