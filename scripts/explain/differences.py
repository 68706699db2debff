"""What differs between the parts of two keys, from their texts, in words. Not graphs (`graph_differences`); no store.

compiler: inductor.max_autotune False -> True
inputs: p3 size [8, 128] -> [16, 128]
machine: cpu.flags +avx512f -amx_tile
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from ..grammar import Value, name_of, named, parse, show, sources, split, symbol_rows, with_sources
from .graph_differences import Names, graph_differences
from .wording import Difference, short, together

PARTS = ("graph", "inputs", "symbols", "hooks", "compiler", "ambient", "code", "toolchain", "machine")
_DIGEST = re.compile(r'"?(?:record |tree )?[0-9a-f]{32,}"?')


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[Difference]:
    """What differs between two keys' texts by part, in the order of the parts."""
    ours, theirs = sources(before.get("symbols", "")), sources(after.get("symbols", ""))
    found: list[Difference] = []
    for part in [*PARTS, *sorted({*before, *after} - {*PARTS})]:
        old, new = before.get(part, ""), after.get(part, "")
        if old == new:
            continue
        if part in ("graph", "hooks"):
            found += graph_differences(part, old, new, ours, theirs)
        elif part == "inputs":
            found += _inputs(old, new, ours, theirs)
        elif part == "symbols":
            found += _symbols(old, new)
        else:
            found += _named(part, old, new)
    return found


# -- name: value lines


def _named(part: str, old: str, new: str) -> Iterator[Difference]:
    ours, theirs = named(old), named(new)
    for name in sorted({*ours, *theirs}):
        a, b = ours.get(name), theirs.get(name)
        # An empty dictionary is a line of its own, a filled one a line for each of its values.
        if (a is None and b is not None and _is_empty_of(name, b, ours)) or (
            b is None and a is not None and _is_empty_of(name, a, theirs)
        ):
            continue
        yield from _values(part, name_of(name), a, b)


def _is_empty_of(name: str, value: Value, others: Mapping[str, Value]) -> bool:
    return value.text == "{}" and any(other.startswith(f"{name}.") for other in others)


def _values(part: str, name: str, a: Value | None, b: Value | None) -> Iterator[Difference]:
    """What differs between two values: down to the inner name of dictionaries, to the items of lists."""
    if a is None or b is None:
        before, after = (None if value is None else short(show(value.text)) for value in (a, b))
        yield Difference(part, name, before, after)
    elif a.text == b.text:
        return
    elif a.kind == b.kind == "{":
        ours, theirs = dict(zip(a.keys, a.items, strict=True)), dict(zip(b.keys, b.items, strict=True))
        for key in [*ours, *(key for key in theirs if key not in ours)]:
            yield from _values(part, f"{name}.{name_of(key)}", ours.get(key), theirs.get(key))
    elif a.kind == b.kind and a.kind in ("[", "<set") and a.items and b.items:
        yield from _items(part, name, a, b)
    else:
        yield _changed(part, name, a.text, b.text)


def _items(part: str, name: str, a: Value, b: Value) -> Iterator[Difference]:
    ours, theirs = [item.text for item in a.items], [item.text for item in b.items]
    if len(ours) == len(theirs):
        pairs = [(n, x, y) for n, (x, y) in enumerate(zip(a.items, b.items, strict=True)) if x.text != y.text]
        if len(pairs) == 1 or len(pairs) * 2 < len(ours) or len(ours) <= 2:
            for number, x, y in pairs:
                yield from _values(part, f"{name}[{number}]", x, y)
            return
    gone, come = [], []
    for tag, i, j, k, m in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if tag != "equal":
            gone += [f"-{show(text)}" for text in ours[i:j]]
            come += [f"+{show(text)}" for text in theirs[k:m]]
    yield Difference(part, name, None, short(" ".join([*come, *gone]), 400), "items")


def _changed(part: str, name: str, old: str, new: str) -> Difference:
    if _DIGEST.fullmatch(old) and _DIGEST.fullmatch(new):
        return Difference(part, name, f"source {_head(old)}", f"source {_head(new)}")
    before, after = show(old), show(new)
    if before == after:  # of other types: "1" and 1
        before, after = old, new
    return Difference(part, name, *together(before, after))


def _head(digest: str) -> str:
    return digest.strip('"').split(" ")[-1][:8]


# -- inputs


def _inputs(old: str, new: str, ours: Names, theirs: Names) -> Iterator[Difference]:
    lines, others = _by_position(old, ours), _by_position(new, theirs)
    if len(lines) == len(others) or not lines or not others:
        yield from _aligned(list(lines.items()), list(others.items()))
    else:
        a, b = list(lines.items()), list(others.items())
        same = SequenceMatcher(None, [text for _, text in a], [text for _, text in b], autojunk=False)
        for tag, i, j, k, m in same.get_opcodes():
            if tag != "equal":
                yield from _aligned(a[i:j], b[k:m])
    yield from _storages(old, new, ours, theirs)


def _by_position(text: str, names: Names) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        position, _, rest = line.partition(" ")
        if re.fullmatch(r"[pb]\d+", position):
            found[position] = with_sources(rest, names)
    return found


def _aligned(a: Sequence[tuple[str, str]], b: Sequence[tuple[str, str]]) -> Iterator[Difference]:
    for number in range(max(len(a), len(b))):
        if number >= len(a):
            yield Difference("inputs", b[number][0], None, short(show(b[number][1])), "added")
        elif number >= len(b):
            yield Difference("inputs", a[number][0], short(show(a[number][1])), None, "removed")
        elif a[number][1] != b[number][1]:
            yield from _one_input(a[number][0], a[number][1], b[number][1])


def _one_input(name: str, old: str, new: str) -> Iterator[Difference]:
    ours, theirs = _words(old), _words(new)
    if ours is None or theirs is None:
        yield _changed("inputs", name, old, new)
        return
    for word in [*ours, *(word for word in theirs if word not in ours)]:
        if ours.get(word) == theirs.get(word):
            continue
        if not ours.get(word, " ") or not theirs.get(word, " "):  # a flag: there or not
            yield Difference("inputs", f"{name} {word}", str(word in ours), str(word in theirs))
        else:
            yield from _values("inputs", f"{name} {word}", _atom(ours.get(word)), _atom(theirs.get(word)))


def _atom(text: str | None) -> Value | None:
    return None if text is None else Value(text)


_WITH_VALUES = frozenset("size stride offset storage static holds".split())


def _words(text: str) -> dict[str, str] | None:
    """A tensor's line: `kind`, `dtype`, `device`, words with a value, and flags (with an empty one)."""
    words = split(text, " ")
    if len(words) < 3 or words[0] not in ("Tensor", "Parameter"):
        return None
    found = {"kind": words[0], "dtype": words[1], "device": words[2]}
    rest = iter(words[3:])
    for word in rest:
        found[word] = next(rest, "") if word in _WITH_VALUES else ""
    found.pop("bytes", None)
    return found


def _storages(old: str, new: str, ours: Names, theirs: Names) -> Iterator[Difference]:
    ours_, theirs_ = ([line for line in text.splitlines() if line.startswith("one storage: ")] for text in (old, new))
    a = [with_sources(line, ours).removeprefix("one storage: ") for line in ours_]
    b = [with_sources(line, theirs).removeprefix("one storage: ") for line in theirs_]
    if a != b:
        yield Difference("inputs", "sharing one storage", short("; ".join(a)) or None, short("; ".join(b)) or None)


# -- symbols


def _symbols(old: str, new: str) -> Iterator[Difference]:
    ours, theirs = (_facts(text) for text in (old, new))
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        a, b = ours.get(name), theirs.get(name)
        if a is None or b is None:
            facts = a or b
            shown = short(show(facts.text)) if facts is not None else None
            how = "added" if a is None else "removed"
            yield Difference("symbols", name, None if a is None else shown, None if b is None else shown, how)
        elif a.text != b.text:
            yield from _values("symbols", name, a, b)


def _facts(text: str) -> dict[str, Value]:
    return {source: parse(facts) for _, source, facts in symbol_rows(text)}
