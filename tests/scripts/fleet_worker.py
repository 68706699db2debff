"""A process of a planted fleet: looks up, publishes and journals as the backend does, without torch.

    fleet_worker.py '{"host": "host-a", "steps": [["lookup", 1, {...}], ...]}'

Its compiles take the planted seconds, its events say the planted functions; everything else is the cache's own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PLAN = json.loads(sys.argv[1])
_real = os.uname()
os.uname = lambda: os.uname_result((_real[0], PLAN["host"], *_real[2:]))  # before anything asks for the host's name

from warmgraph.cache import Entry, Event, Hit, Outcome, Role, flush, open_journaled, record, settings  # noqa: E402


def key_of(number: int) -> str:
    return f"wg1{number:064x}"


def place_of(function: str) -> dict[str, Any]:
    return {"function": function, "file": f"/src/{function}.py", "line": len(function)}


class Worker:
    def __init__(self) -> None:
        self.cache, self.journal = open_journaled(settings())

    def lookup(self, number: int, *, function: str, accepted: bool = True, compile: float = 8.0) -> None:
        """Hit, or compile and publish."""
        key = key_of(number)
        found = self.cache.lookup(key, lambda entry: accepted)
        if isinstance(found, Hit):
            saved = float(found.entry.facts["compile_seconds"] or 0) - 0.25
            seconds = {"hash": 0.125, "load": 0.125}
            self.tell(Outcome.HIT, function, seconds, key=key, tier=found.tier, seconds_saved=saved)
            return
        with self.cache.flight(key) as flight:
            facts = {"function": function, "compile_seconds": compile, "created": time.time()}
            variant = "v0" if accepted else "v1"
            draft = Entry(key, variant, {"graph": "a" * 64}, None, {}, (), facts)
            self.cache.publish(draft, [(Role.AOT_RESULT, "result", os.urandom(1000))], flight)
        seconds = {"hash": 0.125, "compile": compile}
        self.tell(Outcome.MISS, function, seconds, key=key, reason=found.reason, detail=found.detail)
        assert flush()

    def event(self, outcome: str, *, function: str, reason: str, detail: str | None = None) -> None:
        """What the backend tells of a graph that the store was not asked for."""
        self.tell(Outcome(outcome), function, {"hash": 0.125, "compile": 2.0}, reason=reason, detail=detail)

    def outage(self, folder: str, number: int, *, function: str) -> None:
        """The server falls silent, is asked in vain, and comes back."""
        place = Path(folder)
        self.cache.lookup(key_of(999), lambda entry: True)  # connected
        assert flush()
        (place / "ready").touch()
        wait_for(lambda: (place / "silent").exists())
        self.lookup(number, function=function)
        (place / "missed").touch()
        wait_for(lambda: (place / "well").exists())
        wait_for(lambda: not self.cache.health())

    def tell(self, outcome: Outcome, function: str, seconds: Mapping[str, float], **fields: Any) -> None:
        record(self.journal, Event(outcome, seconds=seconds, bytes=1000, **place_of(function), **fields))


def wait_for(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


worker = Worker()
for name, positional, named in PLAN["steps"]:
    getattr(worker, name)(*positional, **named)
assert flush()
