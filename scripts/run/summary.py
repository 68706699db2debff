"""What `warmgraph run` says at the end of a process of what became of its graphs. Not the whole audit (`audit`)."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict

from warmgraph.cache import Event, at_process_end, watch_events

VARIABLE = "WARMGRAPH_RUN"
WARM = "WARMGRAPH_WARM"  # in a dry run (`warm`)
_MOST_EVENTS = 100_000  # of a process; beyond them the summary counts no further

_events: list[Event] = []
_watching = False
_told_in: int | None = None


def begin() -> None:
    """Keep the events of this process from now on, and tell of them at its end. Called before the first graph."""
    global _watching
    if not _watching:
        _watching = True
        watch_events(_keep)
    at_process_end(tell)


def _keep(event: Event) -> None:
    if len(_events) < _MOST_EVENTS:
        _events.append(event)


def tell() -> None:
    """Once per process, on stderr. Never raises: the program's own status is what counts."""
    global _told_in
    if _told_in == os.getpid() or not _wanted():
        return
    _told_in = os.getpid()
    ours = [event for event in _events if event.pid == os.getpid()]  # a forked child has its parent's as well
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, taken away, or its reader has gone
        sys.stdout.flush()  # what the program printed stands before what is said of it
        sys.stderr.write("".join(f"{line}\n" for line in _lines(ours)))
        sys.stderr.flush()


def _wanted() -> bool:
    """The processes of a job's ranks say the same: one of them is enough, unless all were asked for."""
    whose = os.environ.get(VARIABLE, "").split(" ")[0]
    return whose == "all" or (whose == "rank0" and os.environ.get("RANK", "0") == "0")


def _lines(events: Sequence[Event]) -> list[str]:
    from ..audit import audit_events, summary_lines  # late: programs wait for what is imported before their first graph

    rank = os.environ.get("RANK")
    who = f"warmgraph, rank {rank}" if rank is not None else "warmgraph"
    if not events:
        return [f"{who}: nothing in this process ({os.getpid()}) was compiled through it"]
    plain = (asdict(event) | {"outcome": event.outcome.value} for event in events)
    first, *more = summary_lines(audit_events(plain))
    return [f"{who}: {first}", *(f"  {line}" for line in more)]
