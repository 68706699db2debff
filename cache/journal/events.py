"""One event per outcome: what it holds, how it becomes a line and back. No files here (`journal`)."""

from __future__ import annotations

import json
import os
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from enum import Enum
from typing import Any

from ..config.config import rank as current_rank
from ..stores.disk.files import host_name

MAX_LINE_BYTES = 2**20
ONE_DEVICE = "for one device of several: "  # how the detail begins of a miss that no rank on another device shares
NOT_COMPILED = "not compiled: "  # how it begins of a frame that Dynamo gives up, and runs as it is
_STARTED = clock.time()


class Outcome(str, Enum):
    """How a compile ended, as the cache sees it."""

    HIT = "hit"
    MISS = "miss"
    BYPASS = "bypass"
    FAILED = "failed"
    VERIFIED = "verified"  # a hit compared with a fresh compile; without a reason they agree
    SKIPPED = "skipped"  # a graph that was to run in CUDA graphs runs without; the reason says why
    RESTORED = "restored"  # of a frame: Dynamo did not trace it; its graphs have outcomes of their own
    TRACED = "traced"  # of a frame: Dynamo traced it; the reason says why there was nothing to restore
    SICK = "sick"  # of no graph: a tier stopped working, the detail says how; one event per outage


@dataclass(frozen=True, slots=True)
class Event:
    """One outcome, here and now unless told otherwise.

    time: unix seconds. parts: digest by part name. bytes: as stored. nodes: of the graph. reason: a Reason's
    value. seconds: by phase (hash, fetch, load, compile, publish). seconds_saved: compile seconds that a hit
    spared. detail: one line for humans, such as what to do. nearest: of a miss, the key of the entry that resembles
    it most; differs: the parts in which they differ. started: unix seconds when this process began to use the cache;
    in containers host and pid alone are the same in every run. backend: by the name given to `torch.compile`.
    job: what a scheduler calls the run that this process is part of. signer: of a hit, the id of the key that signed
    the entry; None: it was compiled on this host without one.
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
    signer: str | None = None


EventDict = dict[str, Any]


# No quantity here comes near it, and sums of such numbers stay finite (and so strict JSON).
_MAX_NUMBER = 1e15
_MAX_COUNT = 2**63
# Types, not checks by function: an audit reads a million lines, and this is most of what its reading costs.
_Types = frozenset[type[object]]
_NONE: type[object] = type(None)
_TEXT, _COUNT, _MAPPING = (frozenset({kind}) for kind in (str, int, dict))
_NUMBER: _Types = frozenset({int, float})
_OPTIONAL_TEXT, _OPTIONAL_COUNT, _OPTIONAL_NUMBER = (types | {_NONE} for types in (_TEXT, _COUNT, _NUMBER))
_OPTIONAL_LIST: _Types = frozenset({list, _NONE})

_FIELDS: dict[str, _Types] = {
    "outcome": _TEXT,
    "time": _NUMBER,
    "host": _TEXT,
    "pid": _COUNT,
    "rank": _OPTIONAL_COUNT,
    "parts": _MAPPING,
    "seconds": _MAPPING,
    "seconds_saved": _OPTIONAL_NUMBER,
} | dict.fromkeys(("reason", "tier", "key", "function", "file", "detail"), _OPTIONAL_TEXT)
_FIELDS |= dict.fromkeys(("line", "nodes", "bytes"), _OPTIONAL_COUNT)
# Fields that older versions did not write: absent, they are null.
_NEWER: dict[str, _Types] = {"differs": _OPTIONAL_LIST, "started": _OPTIONAL_NUMBER}
_NEWER |= dict.fromkeys(("nearest", "backend", "namespace", "job", "signer"), _OPTIONAL_TEXT)

_OUTCOMES = frozenset(outcome.value for outcome in Outcome)
_FIELD_ITEMS, _NEWER_ITEMS = tuple(_FIELDS.items()), tuple(_NEWER.items())
_COUNTS = tuple(name for name, types in _FIELD_ITEMS if types in (_COUNT, _OPTIONAL_COUNT))


def _is_event(plain: EventDict) -> bool:
    """Whether every field is there and of its type; those of `_NEWER` are added as None.

    Durations are not negative: one such line would take away from every sum what others saved.
    May raise KeyError, and OverflowError for an integer of hundreds of digits.
    """
    for name, types in _FIELD_ITEMS:
        if type(plain[name]) not in types:
            return False
    for name, types in _NEWER_ITEMS:
        if type(plain.setdefault(name, None)) not in types:
            return False
    for name in _COUNTS:
        count = plain[name]
        if count is not None and not 0 <= count < _MAX_COUNT:
            return False
    seconds = plain["seconds"].values()
    if not (_NUMBER.issuperset(map(type, seconds)) and _TEXT.issuperset(map(type, plain["parts"].values()))):
        return False
    saved = plain["seconds_saved"] or 0
    # As one sum of sizes, which none that is too large, or no number, leaves within the bound.
    return (
        abs(plain["time"]) + abs(saved) + abs(plain["started"] or 0) + sum(map(abs, seconds)) < _MAX_NUMBER
        and saved >= 0
        and min(seconds, default=0) >= 0
        and plain["outcome"] in _OUTCOMES
        and _TEXT.issuperset(map(type, plain["differs"] or ()))
    )


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


def decode_event(line: bytes, parse: Callable[[bytes], object] = json.loads) -> EventDict | None:
    """The event in a line, or None when it is not one. parse: as `json.loads`, for who reads a million of them.

    Fields that this version does not know are kept; those that an older one did not write are None.
    """
    if len(line) >= MAX_LINE_BYTES:
        return None
    try:
        plain = parse(line)
    except (ValueError, RecursionError):
        return None
    try:
        return plain if type(plain) is dict and _is_event(plain) else None
    except (KeyError, OverflowError):
        return None
