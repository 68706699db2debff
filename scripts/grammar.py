"""Reads the text of a key's parts: values, bracketed and quoted, to trees. Total; not what differs (`differences`).

The grammar is that of `hashing.encode`; torch is not needed to read it. What does not parse is one opaque value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_MARKS = {text: re.compile(rf"{_QUOTED}|[\[\](){{}}<>]|{re.escape(text)}") for text in (", ", ": ", " ")}
_SLOT = re.compile(r"\$u?\d+")
_NESTED = re.compile(
    r'"(?:[^"\\]|\\.)*"|<(?:dtype|device|layout|memory_format|enum|type|sym) ([^<>"]+)>|\bf-?0x[\w.+-]+'
)
_OPENING, _CLOSING = "[({<", "])}>"
_DEEPEST = 20
_PLAIN_WORD = re.compile(r"[A-Za-z_][\w.+/:@-]*|\d+\.\d+[\w.+-]*")
_WORDS_OF_OTHER_TYPES = frozenset({"None", "True", "False"})


@dataclass(frozen=True, slots=True)
class Value:
    """text: as it stands. kind: `{`, `[`, `(` or `<set` for what holds others, empty for the rest.

    items: what it holds; keys: their names in a dictionary, as texts.
    """

    text: str
    kind: str = ""
    items: tuple[Value, ...] = ()
    keys: tuple[str, ...] = ()


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    """`text` cut at each `separator` that stands in no bracket and no quotes; limit: the most cuts."""
    pieces, depth, start = [], 0, 0
    for match in _MARKS[separator].finditer(text):
        mark = match[0]
        if mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            depth = max(0, depth - 1)
        elif mark == separator and depth == 0:
            pieces.append(text[start : match.start()])
            start = match.end()
            if len(pieces) == limit:
                break
    return [*pieces, text[start:]]


def parse(text: str, depth: int = 0) -> Value:
    """The tree in `text`."""
    kind = text[:1]
    if depth >= _DEEPEST or len(text) < 2:
        return Value(text)
    if kind == "{" and text.endswith("}"):
        pairs = [split(item, ": ", 1) for item in _inner(text[1:-1])]
        if any(len(pair) != 2 for pair in pairs):
            return Value(text)
        return Value(text, kind, tuple(parse(pair[1], depth + 1) for pair in pairs), tuple(pair[0] for pair in pairs))
    if (kind == "[" and text.endswith("]")) or (kind == "(" and text.endswith(")")):
        return Value(text, kind, tuple(parse(item, depth + 1) for item in _inner(text[1:-1])))
    if text.startswith(("<set ", "<frozenset ")) and text.endswith(">"):
        return Value(text, "<set", tuple(parse(item, depth + 1) for item in _inner(text[text.index(" ") + 1 : -1])))
    return Value(text)


def _inner(text: str) -> list[str]:
    return [item for item in split(text.removesuffix(","), ", ") if item]


def named(text: str) -> dict[str, Value]:
    """The `name: value` lines of a part."""
    found = {}
    for line in text.splitlines():
        name, *rest = split(line, ": ", 1)
        found[name] = parse(rest[0]) if rest else Value("")
    return found


def show(text: str) -> str:
    """A value for people: `<dtype torch.float16>` is torch.float16, `f0x1.8p+1` is 3.0, `"cpu"` is cpu."""
    return _NESTED.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    token = match[0]
    if token.startswith("f"):
        try:
            return repr(float.fromhex(token[1:]))
        except (ValueError, OverflowError):
            return token
    if not token.startswith('"'):
        return match[1]
    plain = unquoted(token)
    return plain if _PLAIN_WORD.fullmatch(plain) and plain not in _WORDS_OF_OTHER_TYPES else token


def unquoted(text: str) -> str:
    """What a quoted text says; any other as it is."""
    if not text.startswith('"'):
        return text
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, str) else text


def name_of(text: str) -> str:
    """A name as `named` found it, for people: `"wgtest::scale".fake` is wgtest::scale.fake."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', lambda match: unquoted(match[0]), text)


# -- symbols: in texts they are slots, `$12`; the part `symbols` says what each stands for


def symbol_rows(symbols: str) -> list[tuple[str, str, str]]:
    """(slot, source or the slot itself, facts) of each line of the part `symbols`."""
    found = []
    for line in symbols.splitlines():
        words = split(line, " ", 2)
        if len(words) == 3 and _SLOT.fullmatch(words[0]):
            found.append((words[0], words[0] if words[1] == "None" else unquoted(words[1]), words[2]))
    return found


def sources(symbols: str) -> dict[str, str]:
    """Slot -> source."""
    return {slot: source for slot, source, _ in symbol_rows(symbols)}


def with_sources(text: str, names: Mapping[str, str]) -> str:
    """`text` with each slot replaced by what it stands for."""
    return _SLOT.sub(lambda match: names.get(match[0], match[0]), text) if names else text
