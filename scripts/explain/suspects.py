"""What in a key's text is likely to change from run to run: paths, addresses, times, names of hosts. No store."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..grammar import name_of, show, split

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)
_PATH = re.compile(r'(?<=["\s=:,])/(?:[\w.@+~-]+/)+[\w.@+~-]*')
_ADDRESS = re.compile(r"\b0x[0-9a-f]{8,16}\b(?![.p])", re.IGNORECASE)
_DATE = re.compile(r"\b20\d\d-[01]\d-[0-3]\d[T _]\d\d[:-]\d\d")
_NUMBER = re.compile(r"(?<![\w.$%-])(?:\d{10}|\d{13}|\d{16}|\d{19})(?![\w.])|\bf0x[\w.+-]+")
_SINCE, _UNTIL = 1.45e9, 2.4e9  # unix seconds: 2016 to 2046

# kind -> what to do.
ADVICE = {
    "path": "it differs between hosts and users: keep paths out of graphs and settings, or make them relative",
    "address": "an object's address is another one in each process: give what is captured a stable name",
    "time": "it is another one in each run: do not capture a time; pass it as a tensor if the graph needs it",
    "uuid": "it is another one in each run: identify by content instead, such as a digest of the source",
    "host": "it is another one on each host: keep the host's name out of what is compiled",
    "process": "it is another one in each process: keep the process's number out of what is compiled",
    "rank": "each rank compiles for itself: pass the rank as a tensor, or do not branch on it while tracing",
    "counter": "a Python number that counts up is baked in: pass it as a tensor, or mark it dynamic",
    "changing": "find what sets it, and set it alike on every run",
}


@dataclass(frozen=True, slots=True)
class Suspect:
    """kind: of ADVICE. part, name: where in the key. value: what looks so."""

    kind: str
    part: str
    name: str
    value: str


def suspects(part: str, text: str, hosts: Sequence[str] = ()) -> Iterator[Suspect]:
    """Each thing of such a kind in a part's text, once per line and kind. hosts: names to look for."""
    names = re.compile("|".join(rf"(?<![\w.-]){re.escape(host)}(?![\w-])" for host in hosts)) if hosts else None
    for line in text.splitlines():
        found = {"path": _PATH.search(line), "uuid": _UUID.search(line), "address": _ADDRESS.search(line)}
        found |= {"host": names.search(line)} if names is not None else {}
        for kind, match in found.items():
            if match is not None:
                yield Suspect(kind, part, _name(part, line), match[0])
        # Sizes and strides are numbers of any length; constants and settings of this length are times.
        moment = next(times_in(line), None) if part not in ("inputs", "symbols", "toolchain", "machine") else None
        if moment is not None:
            yield Suspect("time", part, _name(part, line), moment)


def times_in(text: str) -> Iterator[str]:
    """What reads as a moment of our days: seconds, milliseconds, microseconds or nanoseconds since 1970, or a date."""
    yield from (match[0] for match in _DATE.finditer(text))
    for match in _NUMBER.finditer(text):
        token = match[0]
        try:
            number = float.fromhex(token[1:]) if token.startswith("f") else float(token)
        except (ValueError, OverflowError):
            continue
        if any(_SINCE < number / unit < _UNTIL for unit in (1, 1e3, 1e6, 1e9)):
            yield show(token)


def kind_of(values: Sequence[str], pids: Sequence[int], hosts: Sequence[str], ranks: Sequence[int | None]) -> str:
    """What values that changed from run to run are, in the order of the runs; each run's pid, host and rank beside."""
    rows = list(zip(values, pids, hosts, ranks, strict=True))
    if all(_has_number(value, pid) for value, pid, _, _ in rows):
        return "process"
    if all(host in value for value, _, host, _ in rows):
        return "host"
    if all(rank is not None and _has_number(value, rank) for value, _, _, rank in rows):
        return "rank"
    for kind, pattern in (("uuid", _UUID), ("address", _ADDRESS), ("path", _PATH)):
        found = [pattern.search(f" {value}") for value in values]
        if len({match[0] for match in found if match is not None}) == len(values) == len([m for m in found if m]):
            return kind
    if all(next(times_in(value), _shown_time(value)) for value in values):
        return "time"
    return "counter" if _grows(values) else "changing"


def _has_number(text: str, number: int) -> bool:
    return re.search(rf"(?<![\w.]){number}(?![\w.])", text) is not None


def _shown_time(value: str) -> str | None:
    """A float as `show` prints it."""
    for match in re.finditer(r"(?<![\w.])\d{10}\.\d+", value):
        if _SINCE < float(match[0]) < _UNTIL:
            return match[0]
    return None


def _grows(values: Sequence[str]) -> bool:
    """Whether one number among the words, and nothing else, goes up from each to the next."""
    words = [re.findall(r"-?\d+(?:\.\d+)?|[^\d]+", value) for value in values]
    if len(words) < 2 or len({len(row) for row in words}) != 1:
        return False
    columns = [column for column in zip(*words, strict=True) if len(set(column)) > 1]
    if len(columns) != 1 or not all(re.fullmatch(r"-?\d+(?:\.\d+)?", word) for word in columns[0]):
        return False
    numbers = [float(word) for word in columns[0]]
    return all(a < b for a, b in itertools.pairwise(numbers))


def _name(part: str, line: str) -> str:
    if part in ("graph", "hooks", "inputs", "symbols"):
        return line.strip().split(" ", 1)[0]
    return name_of(split(line, ": ", 1)[0])
