"""Symbols to slots: names that do not move when other symbols come and go. Not the shapes themselves.

Dynamo names a size symbol by a hash of its source modulo 100, probing linearly over every symbol it
allocated (pytorch#149665). A profile over-allocates, so the names of the symbols that stay still move.
Here only the symbols that the graph uses are placed, in a wide table, in an order that depends on their
sources alone; so a symbol's slot depends on nothing but the graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from ..encoding.encode import Uncacheable, encode

TABLE = 1 << 24

# Operators whose arguments may stand in any order; sympy orders them by symbol name, we by text.
_COMMUTATIVE = frozenset({"Add", "Mul", "And", "Or", "Xor", "Eq", "Ne", "Max", "Min", "Equality", "Unequality"})


def assign_slots(sources: Mapping[str, str]) -> dict[str, int]:
    """Slots in [0, 2**24) for `sources` (symbol name -> source name), by hash and linear probing.

    Colliding symbols are placed in the order of their source names. Two symbols of one source would be
    the same size twice; that is refused rather than guessed.
    """
    if len(set(sources.values())) != len(sources):
        raise Uncacheable("two symbols of this graph come from the same source")
    home = {name: _home(source) for name, source in sources.items()}
    taken: set[int] = set()
    slots: dict[str, int] = {}
    for name in sorted(sources, key=lambda name: (home[name], sources[name])):
        slot = home[name]
        while slot in taken:
            slot = (slot + 1) % TABLE
        taken.add(slot)
        slots[name] = slot
    return slots


def _home(source: str) -> int:
    return int.from_bytes(hashlib.sha256(source.encode()).digest()[:8], "big") % TABLE


class SymbolTable(Struct):
    """The symbols that one graph uses, and their canonical texts.

    `describe(symbol) -> (source name or None, facts)` is asked once per symbol; a symbol without a
    source (unbacked: made by the graph itself) is numbered by its first appearance in graph order.
    """

    describe: Callable[[Any], tuple[str | None, Mapping[str, Any]]]
    _sources: dict[str, str] = field(default_factory=dict)
    _facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _unbacked: dict[str, str] = field(default_factory=dict)
    _slots: dict[str, str] | None = None
    _texts: dict[Any, str] = field(default_factory=dict)

    def use(self, symbols: Iterable[Any]) -> None:
        """Note that the graph uses these sympy symbols. All calls come before the first `text`."""
        for symbol in symbols:
            name = str(symbol)
            if name in self._facts:
                continue
            if self._slots is not None:
                raise RuntimeError(f"symbol {name} was not collected before it was named")
            source, facts = self.describe(symbol)
            self._facts[name] = facts
            if source is None:
                self._unbacked[name] = f"$u{len(self._unbacked)}"
            else:
                self._sources[name] = source

    def knows(self, expression: Any) -> bool:
        """Whether the graph uses every symbol of a sympy expression."""
        return all(str(symbol) in self._facts for symbol in expression.free_symbols)

    @property
    def slots(self) -> dict[str, str]:
        """This run's symbol names -> slot names."""
        if self._slots is None:
            backed = {name: f"${slot}" for name, slot in assign_slots(self._sources).items()}
            self._slots = {**backed, **self._unbacked}
        return self._slots

    def text(self, expression: Any) -> str:
        """Canonical text of a sympy expression, in slots: equal for equal expressions under any naming."""
        known = self._texts.get(expression)
        if known is None:
            known = self._texts[expression] = self._render(expression)
        return known

    def _render(self, expression: Any) -> str:
        if expression.is_Symbol:
            return self.slots[str(expression)]
        if expression.is_Integer:
            return str(int(expression))
        if expression.is_Rational:
            return f"{int(expression.p)}/{int(expression.q)}"
        kind = type(expression).__name__
        if expression.is_Float:
            return f"<Float {float.hex(float(expression))}>"
        if not expression.args:
            return f"<{kind}>"  # int_oo, true, false ...: singletons named by their class
        args = [self.text(arg) for arg in expression.args]
        if kind in _COMMUTATIVE:
            args.sort()
        return f"{kind}({', '.join(args)})"

    def lines(self) -> list[str]:
        """One line per symbol: slot, source, facts. The order is that of the slots' names."""
        rows = [
            f"{slot} {encode(self._sources.get(name))} {encode(dict(self._facts[name]), self._leaf)}"
            for name, slot in self.slots.items()
        ]
        return sorted(rows)

    def _leaf(self, value: Any) -> str | None:
        return self.text(value) if hasattr(value, "free_symbols") else None
