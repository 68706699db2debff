"""Records in the store of results: as entries of their own kind, sealed, tiered and evicted as those are."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from warmgraph.cache import Cache, Entry, Hit, Reason, Role

from .comparing import identity
from .record import Record, decode_record, encode_record
from .reporting import FrameReport

MAX_RECORDS = 16  # under one key; those that were used last are tried first
_BLOB = "frame"


def _is_next(tried: set[str], dynamic: bool, program: str, entry: Entry) -> bool:
    facts = entry.facts
    return entry.variant not in tried and facts.get("program") == program and bool(facts.get("dynamic")) is dynamic


def _is_of_another(program: str, entry: Entry) -> bool:
    return entry.facts.get("program") != program


@dataclass(frozen=True, slots=True)
class Kept:
    record: Record
    hit: Hit


@dataclass(frozen=True, slots=True)
class RecordStore:
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

    def of_another_program(self, key: str, program: str) -> Kept | None:
        """One of them: what it says tells what changed. Raises Refused."""
        found = self.cache.lookup(key, partial(_is_of_another, program))
        return Kept(decode_record(found.blobs[_BLOB]), found) if isinstance(found, Hit) else None

    def keep(self, key: str, program: str, record: Record, report: FrameReport) -> None:
        data = encode_record(record)
        name = report.place.function or "a frame"
        entry = Entry(
            key=key,
            variant=f"frame-{identity(record)}",
            parts={},
            guards=None,
            symbols={},
            blobs=(),
            facts={
                "kind": "frame",
                "function": f"frame of {name}"[:256],
                "place": f"{report.place.file}:{report.place.line}"[-512:],  # not `file`: it resembles no graph
                "guards": len(record.guards),
                "dynamic": record.is_dynamic,
                "program": program,
                "host": socket.gethostname(),
                "torch": str(torch.__version__),
                "created": time.time(),
            },
        )
        self.cache.publish(entry, [(Role.FRAME, _BLOB, data)])
        report.bytes = len(data)

    def set_aside(self, kept: Kept, why: str) -> None:
        entry = kept.hit.entry
        self.cache.quarantine(entry.key, entry.variant, f"not what a fresh trace gives: {why}", kept.hit.sealed)
