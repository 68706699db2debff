"""Which nodes differ between two graphs' texts, once they are aligned. Not the other parts (`differences`).

Nodes are numbered, so one that is inserted moves all numbers behind it. Lines are aligned without their numbers;
then what is left to compare are the edges, through the alignment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from ..grammar import show, with_sources
from .wording import Difference, together

_NODE = re.compile(r"( *)%(\d+) (.*)")
_EDGE = re.compile(r"%(\d+)")
_NESTED = re.compile(r" *graph \d+:")

Names = Mapping[str, str]  # slot -> the source that it stands for
_MOST = 2000  # lines between the first and the last difference; more are not aligned


@dataclass(frozen=True, slots=True)
class _Line:
    """number: None for what is no node. scope: which of the nested graphs it is in. head: without numbers."""

    number: str | None
    scope: int
    text: str
    head: str

    @property
    def name(self) -> str:
        return "" if self.number is None else f"%{self.number}"


def graph_differences(part: str, old: str, new: str, ours: Names, theirs: Names) -> Iterator[Difference]:
    """The nodes that were changed, added and removed, in graph order."""
    a, b = _lines(with_sources(old, ours)), _lines(with_sources(new, theirs))
    where: dict[tuple[int, str], tuple[int, str]] = {}
    for tag, i, j, k, m in _opcodes([line.head for line in a], [line.head for line in b]):
        pairs = min(j - i, m - k)
        for one, other in zip(a[i : i + pairs], b[k : k + pairs], strict=True):
            if one.number is not None and other.number is not None:
                where[one.scope, one.number] = other.scope, other.number
            if tag != "equal" or not _same_edges(one, other, where):
                yield _changed(part, one, other)
        for one in a[i + pairs : j]:
            yield Difference(part, one.name, _shown(one.text), None, "removed")
        for other in b[k + pairs : m]:
            yield Difference(part, other.name, None, _shown(other.text), "added")


def _changed(part: str, one: _Line, other: _Line) -> Difference:
    name = one.name if one.name == other.name else f"{one.name} (now {other.name})"
    return Difference(part, name, *together(_shown(one.text), _shown(other.text)))


def _shown(text: str) -> str:
    shown = show(text.removesuffix(" {}"))
    return shown if len(shown) <= 400 else f"{shown[:397]}..."


def _same_edges(one: _Line, other: _Line, where: dict[tuple[int, str], tuple[int, str]]) -> bool:
    def moved(match: re.Match[str]) -> str:
        scope, number = where.get((one.scope, match[1]), (-1, "?"))
        return f"%{number}" if scope == other.scope else "%?"

    return _EDGE.sub(moved, one.text) == other.text


def _lines(text: str) -> list[_Line]:
    found, scopes, scope_at = [], 0, {0: 0}
    for line in text.splitlines():
        match = _NODE.fullmatch(line)
        indent = len(line) - len(line.lstrip(" "))
        if match is None and line.endswith(":"):  # numbers begin anew: in a nested graph, or behind a hook's headline
            scopes += 1
            scope_at[indent + 2 if _NESTED.fullmatch(line) else indent] = scopes
        scope = scope_at.get(indent, 0)
        if match is None:
            found.append(_Line(None, scope, line.strip(), line))
        else:
            head = match[1] + _EDGE.sub("%", match[3])
            found.append(_Line(match[2], scope, match[3], head))
    return found


def _opcodes(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """As difflib's, with what is equal at both ends taken off first: that is nearly all of a large graph."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    yield "equal", 0, start, 0, start
    i, j = a[start : len(a) - end], b[start : len(b) - end]
    if max(len(i), len(j)) <= _MOST:
        for tag, *places in SequenceMatcher(None, i, j, autojunk=False).get_opcodes():
            first, last, left, right = (place + start for place in places)
            yield tag, first, last, left, right
    else:
        yield "replace", start, len(a) - end, start, len(b) - end
    yield "equal", len(a) - end, len(a), len(b) - end, len(b)
