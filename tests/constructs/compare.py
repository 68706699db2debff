"""Two observations of one case, compared field by field. Judges no outcome of the cache.

Between eager and compiled, values may differ by rounding, and a version by how often it rose; nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

Fields = dict[str, Any]
Same = Callable[[str, Fields, Fields], bool]

TOLERANCE = {"torch.bfloat16": 3e-2, "torch.float16": 4e-3, "torch.float8_e4m3fn": 0.2, "torch.float8_e5m2": 0.3}
VALUE = frozenset(("approx", "digest"))


def exact(ours: Fields, theirs: Fields) -> list[str]:
    """What differs, bit for bit: one line each."""
    return _differences(ours, theirs, _equal)


def close(ours: Fields, theirs: Fields, without: Collection[str] = ()) -> list[str]:
    """What differs between compiled and eager, but for the fields `without` ("value": the numbers)."""
    left_out = _expanded(without)

    def same(field: str, a: Fields, b: Fields) -> bool:
        if field in left_out or field in VALUE:
            return field in left_out or _same_value(a, b)
        if field == "version":  # a compiled graph writes back once what eager wrote in steps
            return bool(a.get(field)) == bool(b.get(field))
        return _equal(field, a, b)

    return _differences(ours, theirs, same)


def only(fields: Collection[str], ours: Fields, theirs: Fields) -> list[str]:
    """What differs between two ways of compiling in these fields; in all of them if there are none."""
    wanted = _expanded(fields)

    def same(field: str, a: Fields, b: Fields) -> bool:
        if wanted and field not in wanted:
            return True
        return _same_value(a, b) if field in VALUE else _equal(field, a, b)

    return _differences(ours, theirs, same)


def _expanded(fields: Collection[str]) -> frozenset[str]:
    return frozenset(fields) | (VALUE if "value" in fields else frozenset())


def _equal(field: str, a: Fields, b: Fields) -> bool:
    return bool(a.get(field) == b.get(field))


def _same_value(a: Fields, b: Fields) -> bool:
    """Equal bytes, or numbers within the dtype's rounding."""
    if a.get("digest") == b.get("digest"):
        return True
    ours, theirs = a.get("approx") or [], b.get("approx") or []
    tolerance = TOLERANCE.get(a.get("dtype", ""), 1e-5)
    pairs = zip(map(float, ours), map(float, theirs), strict=False)
    return bool(ours) and len(ours) == len(theirs) and all(_near(x, y, tolerance) for x, y in pairs)


def _near(a: float, b: float, tolerance: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))


def _differences(ours: Fields, theirs: Fields, same: Same) -> list[str]:
    """One line per field that is not the same, and per path that only one has."""
    mine, other = ours["seen"], theirs["seen"]
    found = []
    for path in {**mine, **other}:
        a, b = mine.get(path), other.get(path)
        if a is None or b is None:
            found.append(f"{path}: only in the {'second' if a is None else 'first'}")
            continue
        # Autograd counts a `.grad`'s versions by the pieces it came in, which nobody promises.
        fields = [f for f in {**a, **b} if f != "version" or not path.endswith(".grad") or same is _equal]
        found += [f"{path} {f}: {a.get(f)} and {b.get(f)}" for f in fields if not same(f, a, b)]
    if not same("printed", ours, theirs):
        found.append(f"printed: {ours['printed']} and {theirs['printed']}")
    return found
