"""One event per outcome: what it holds, how it becomes a line and back. No files here (`journal`)."""

from __future__ import annotations

import json
import os
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from enum import Enum
from typing import Any

from .config import rank as current_rank
from .files import host_name

MAX_LINE_BYTES = 2**20
_STARTED = clock.time()


class Outcome(str, Enum):
    """How a compile ended, as the cache sees it."""

    HIT = "hit"
    MISS = "miss"
    BYPASS = "bypass"
    FAILED = "failed"
    VERIFIED = "verified"  # a hit compared with a fresh compile; without a reason they agree
    SKIPPED = "skipped"  # a graph that was to run in CUDA graphs runs without; the reason says why


@dataclass(frozen=True, slots=True)
class Event:
    """One outcome, here and now unless told otherwise.

    time: unix seconds. parts: digest by part name. bytes: as stored. nodes: of the graph. reason: a Reason's
    value. seconds: by phase (hash, fetch, load, compile, publish). seconds_saved: compile seconds that a hit
    spared. detail: one line for humans, such as what to do. nearest: of a miss, the key of the entry that resembles
    it most; differs: the parts in which they differ. started: unix seconds when this process began to use the cache;
    in containers host and pid alone are the same in every run. backend: by the name given to `torch.compile`.
    job: what a scheduler calls the run that this process is part of.
    """

    outcome: Outcome
    _: KW_ONLY
    time: float = field(default_factory=clock.time)
    host: str = field(default_factory=host_name)
    pid: int = field(default_factory=os.getpid)
    rank: int | None = field(default_factory=current_rank)
    reason: str | None = None
    tier: str | None = None
    key: str | None = None
    parts: Mapping[str, str] = field(default_factory=dict)
    function: str | None = None
    file: str | None = None
    line: int | None = None
    nodes: int | None = None
    bytes: int | None = None
    seconds_saved: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    detail: str | None = None
    nearest: str | None = None
    differs: Sequence[str] | None = None
    started: float | None = _STARTED
    backend: str | None = None
    namespace: str | None = None
    job: str | None = None


EventDict = dict[str, Any]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


# No quantity here comes near it, and sums of such numbers stay finite (and so strict JSON).
_MAX_NUMBER = 1e15


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _MAX_NUMBER


def _mapping_of(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, dict) and all(check(item) for item in value.values())


def _list_of(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(check(item) for item in value)


def _optional(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


_OUTCOMES = frozenset(outcome.value for outcome in Outcome)
_CHECKS: dict[str, Callable[[object], bool]] = {
    "outcome": lambda value: isinstance(value, str) and value in _OUTCOMES,
    "time": _is_number,
    "host": _is_text,
    "pid": _is_count,
    "rank": _optional(_is_count),
    "parts": _mapping_of(_is_text),
    "seconds": _mapping_of(_is_number),
    "seconds_saved": _optional(_is_number),
} | {name: _optional(_is_text) for name in ("reason", "tier", "key", "function", "file", "detail")}
_CHECKS |= {name: _optional(_is_count) for name in ("line", "nodes", "bytes")}
# Fields that older versions did not write: absent, they are null.
_NEWER: dict[str, Callable[[object], bool]] = {
    "nearest": _optional(_is_text),
    "differs": _optional(_list_of(_is_text)),
    "started": _optional(_is_number),
} | {name: _optional(_is_text) for name in ("backend", "namespace", "job")}


def encode_event(event: Event) -> bytes:
    """One line of JSON, with its newline. Raises ValueError for an event that `decode_event` would refuse."""
    plain: EventDict = {item.name: getattr(event, item.name) for item in fields(event)}
    plain["outcome"] = event.outcome.value
    if event.differs is not None:
        plain["differs"] = list(event.differs)
    if event.reason is not None:
        plain["reason"] = str.__str__(event.reason)  # a Reason is a str, but prints as one only this way
    try:
        line = json.dumps(plain, allow_nan=False, separators=(",", ":"), default=dict).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"not an event that can be written: {error}") from error
    if decode_event(line) is None:
        raise ValueError("not an event that can be written: too long, or a field of the wrong type")
    return line + b"\n"


def decode_event(line: bytes) -> EventDict | None:
    """The event in a line, or None when it is not one.

    Fields that this version does not know are kept; those that an older one did not write are None.
    """
    if len(line) >= MAX_LINE_BYTES:
        return None
    try:
        plain = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(plain, dict):
        return None
    if not all(name in plain and check(plain[name]) for name, check in _CHECKS.items()):
        return None
    if not all(check(plain.setdefault(name, None)) for name, check in _NEWER.items()):
        return None
    return plain
