"""Which entries resemble a key that missed: records of what was published, where they go, which is nearest. No I/O.

Two addresses, a digest each: the digest of the part `graph`, and one over the user's function and the base name of
its file (whole paths differ between hosts, lines move with each edit; the record has the line). Under an address lie
records, one per key, bounded. Nothing here is trusted or needed: no result depends on it, and what does not parse is
passed by. Digests of parts are cut to 16 digits, which is enough to say that two differ.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath

from ..format.codec import KEY
from ..typing import Entry, Scalar, SimilarEntry

MAX_RECORDS = 64  # under one address
MAX_RECORD_BYTES = 1024
_MAX_TIME = 1e11  # seconds; far beyond any clock
_MAX_LINE = 10**9
_DIGITS = 16
_PART = re.compile(r"([a-z][a-z_]{0,31})=([0-9a-f]{16})")
_ADDRESS = re.compile(r"[0-9a-f]{64}")


def addresses(parts: Mapping[str, str], facts: Mapping[str, Scalar]) -> list[str]:
    """Where an entry, or a key that missed, has its relatives: by its graph, then by its function."""
    graph, function, file = parts.get("graph", ""), facts.get("function"), facts.get("file")
    found = [graph] if _ADDRESS.fullmatch(graph) else []
    if isinstance(function, str) and isinstance(file, str):
        place = f"place\0{PurePath(file).name}\0{function}".encode("utf-8", "backslashreplace")
        found.append(hashlib.sha256(place).hexdigest())
    return found


def relative_of(entry: Entry) -> SimilarEntry:
    """What is noted of an entry."""
    created, line = entry.facts.get("created"), entry.facts.get("line")
    return SimilarEntry(
        entry.key,
        {name: digest[:_DIGITS] for name, digest in entry.parts.items()},
        line if type(line) is int else None,
        float(created) if isinstance(created, (int, float)) else 0.0,
    )


def encode_relative(relative: SimilarEntry) -> bytes:
    """`<unix milliseconds> <key> <line> <part>=<digest> ...`: the time first, for stores that drop the oldest."""
    moment = min(max(0.0, relative.time), _MAX_TIME)
    words = [str(int(moment * 1000)), relative.key, str(min(max(0, relative.line or 0), _MAX_LINE))]
    words += [f"{name}={digest[:_DIGITS]}" for name, digest in relative.parts.items()]
    return " ".join(words).encode("ascii", "replace")


def decode_relative(data: bytes) -> SimilarEntry | None:
    """The record in `data`, or None when it is none. Never raises."""
    if len(data) > MAX_RECORD_BYTES:
        return None
    words = data.decode("ascii", "replace").split(" ")
    if len(words) < 3 or not KEY.fullmatch(words[1]) or not all(_is_number(word) for word in (words[0], words[2])):
        return None
    matches = [_PART.fullmatch(word) for word in words[3:]]
    parts = {match[1]: match[2] for match in matches if match is not None}
    if len(parts) != len(matches):
        return None
    return SimilarEntry(words[1], parts, int(words[2]) or None, int(words[0]) / 1000)


def _is_number(word: str) -> bool:
    return len(word) <= 15 and word.isdigit()


def newest_each(relatives: Iterable[SimilarEntry]) -> list[SimilarEntry]:
    """One for each key, the newest, newest first; at most MAX_RECORDS, and of no line more than its share.

    A file may have many functions called `forward`: the older ones are not to be crowded out by the last one's.
    """
    latest: dict[str, SimilarEntry] = {}
    for relative in relatives:
        if relative.key not in latest or relative.time >= latest[relative.key].time:
            latest[relative.key] = relative
    ordered = sorted(latest.values(), key=lambda one: (-one.time, one.key))
    rank: dict[str, int] = {}
    seen: dict[int | None, int] = {}
    for one in ordered:
        rank[one.key] = seen[one.line] = seen.get(one.line, -1) + 1
    kept = sorted(ordered, key=lambda one: rank[one.key])[:MAX_RECORDS]  # stable: newest first within a rank
    return sorted(kept, key=lambda one: (-one.time, one.key))


def differing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, ...]:
    """The parts that differ, in the order of `ours`."""
    names = [*ours, *(name for name in theirs if name not in ours)]
    return tuple(name for name in names if ours.get(name, "")[:_DIGITS] != theirs.get(name, "")[:_DIGITS])


def nearest_first(parts: Mapping[str, str], line: Scalar, found: Iterable[SimilarEntry]) -> list[SimilarEntry]:
    """Those of the same graph, then those of the same line; of several the one with most equal parts, the newest."""

    def nearness(one: SimilarEntry) -> tuple[bool, bool, int, float]:
        graph = "graph" not in differing(parts, one.parts)
        return graph, graph or (line is not None and one.line == line), -len(differing(parts, one.parts)), one.time

    return sorted(newest_each(found), key=nearness, reverse=True)
