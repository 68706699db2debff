"""Records in the store of results: as entries of their own kind, sealed, tiered and evicted as those are."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

from msgspec import Struct
from warmgraph.cache import Cache, Entry, Hit, Reason, Role
from warmgraph.hashing import sha256_hex

from ..reporting.report import made_here
from .record import Record, decode_record, encode_record, identity
from .reporting import FrameReport

MAX_RECORDS = 16  # under one key; those that were used last are tried first
MAX_OF_MANY = 4  # under one that all ranks ask
_BLOB = "frame"
_REFUSED = "refused"
_ORIGIN = uuid.uuid4().hex
_DAY = 86_400.0


def _is_next(tried: set[str], dynamic: bool, program: str, entry: Entry) -> bool:
    facts = entry.facts
    if _REFUSED in facts or entry.variant in tried:
        return False
    return facts.get("program") == program and bool(facts.get("dynamic")) is dynamic


def _is_of_another(program: str, entry: Entry) -> bool:
    return entry.facts.get("program") != program and _REFUSED not in entry.facts


def _is_refusal(program: str, entry: Entry) -> bool:
    return _REFUSED in entry.facts and entry.facts.get("program") == program


def _process() -> str:
    return f"{_ORIGIN}-{os.getpid()}"  # one that was forked is another


class Kept(Struct, frozen=True):
    record: Record
    hit: Hit


class RecordStore(Struct, frozen=True):
    cache: Cache

    def records(self, key: str, program: str, *, dynamic_first: bool) -> Iterator[Kept]:
        """One lookup each: mostly the first one fits. Raises Refused for one that is no record.

        Those of this program, by its digest.

        dynamic_first: as a trace that knows which sizes varied elsewhere; one that does not begins with fixed sizes.
        """
        tried: set[str] = set()
        for dynamic in (dynamic_first, not dynamic_first):
            for _ in range(MAX_RECORDS):
                found = self.cache.lookup(key, partial(_is_next, tried, dynamic, program))
                if not isinstance(found, Hit):
                    if found.reason is Reason.ABSENT:
                        return  # nothing at all: not asked twice
                    break
                tried.add(found.entry.variant)
                yield Kept(decode_record(found.blobs[_BLOB]), found)

    def refusal(self, key: str, program: str) -> str | None:
        """Why other processes found this frame of this program not restorable; empty where they did not; None where
        nothing at all is kept under the key.

        Two of them, and within a day: what one met may have been of the moment (a signal, a switch for debugging). Not
        this one: decorators have one code for many functions, and another may be restorable.
        """
        found = self.cache.lookup(key, partial(_is_refusal, program))
        if not isinstance(found, Hit):
            return None if found.reason is Reason.ABSENT else ""
        facts: Any = found.entry.facts
        holds = facts["times"] > 1 and facts["process"] != _process() and time.time() - facts["created"] < _DAY
        return str(facts[_REFUSED]) if holds else ""

    def of_another_program(self, key: str, program: str) -> Kept | None:
        """One of them: what it says tells what changed. Raises Refused."""
        found = self.cache.lookup(key, partial(_is_of_another, program))
        return Kept(decode_record(found.blobs[_BLOB]), found) if isinstance(found, Hit) else None

    def keep(self, key: str, program: str, record: Record, report: FrameReport) -> None:
        data = encode_record(record)
        facts = {"guards": len(record.guards), "dynamic": record.is_dynamic}
        self._publish(f"frame-{identity(record)}", key, program, report, facts, [(Role.FRAME, _BLOB, data)])
        report.bytes = len(data)

    def keep_for_many(self, key: str, program: str, record: Record, report: FrameReport) -> bool:
        """Under the key of every rank. Gives whether another rank had put the same there: else this one keeps it under
        its own key, too, since few places are there, and records of ranks whose values differ may take them.
        """
        variant, found = f"frame-{identity(record)}", list[str]()

        def note(entry: Entry) -> bool:
            if entry.facts.get("program") == program:
                found.append(entry.variant)
            return False

        self.cache.lookup(key, note)
        if variant in found:
            return True
        if len(found) < MAX_OF_MANY:
            self.keep(key, program, record, report)
        return False

    def keep_refusal(self, key: str, program: str, why: str, report: FrameReport) -> None:
        """Other processes trace it as if nothing recorded, which is faster than to find out again."""
        why = why[:256]
        found = self.cache.lookup(key, partial(_is_refusal, program))
        before: Any = found.entry.facts if isinstance(found, Hit) and found.entry.facts[_REFUSED] == why else {}
        times = before.get("times", 0) + (before.get("process") != _process())
        facts = {_REFUSED: why, "process": _process(), "times": times}
        self._publish(f"refused-{sha256_hex(program.encode())[:24]}", key, program, report, facts, [])

    def _publish(
        self,
        variant: str,
        key: str,
        program: str,
        report: FrameReport,
        facts: dict[str, Any],
        blobs: list[tuple[Role, str, bytes]],
    ) -> None:
        name = report.place.function or "a frame"
        about: dict[str, Any] = {
            "kind": "frame",
            "function": f"frame of {name}"[:256],
            "place": f"{report.place.file}:{report.place.line}"[-512:],  # not `file`: it resembles no graph
            "program": program,
            **made_here(),
        }
        entry = Entry(key=key, variant=variant, parts={}, guards=None, symbols={}, blobs=(), facts={**about, **facts})
        self.cache.publish(entry, blobs)

    def set_aside(self, kept: Kept, why: str) -> None:
        entry = kept.hit.entry
        self.cache.quarantine(entry.key, entry.variant, f"not what a fresh trace gives: {why}", kept.hit.sealed)
