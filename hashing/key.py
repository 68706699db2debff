"""The key: an ordered list of named parts, each with its own text and digest. Nothing torch here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property

from msgspec import Struct

# Raised whenever the same graph gets another key, or another meaning, than before.
KEY_VERSION = 1

PART_NAMES = (
    "graph",
    "inputs",
    "symbols",
    "hooks",
    "compiler",
    "ambient",
    "code",
    "toolchain",
    "machine",
)


class Part(Struct, frozen=True):
    """One named ingredient of a key. `text`: canonical lines, what a miss is explained with."""

    name: str
    text: str
    digest: str

    @classmethod
    def of(cls, name: str, lines: Iterable[str]) -> Part:
        """A part of `lines`; no line may hold a newline (the encoder never makes one)."""
        text = "\n".join(lines)
        return cls(name, text, hashlib.sha256(f"{name}\n{text}".encode()).hexdigest())


class Key(Struct, frozen=True, dict=True):
    """What a graph is called in every store: `wg1` and 64 hex digits over the parts' digests.

    `slots` names this process's symbols by slot (`{"s77": "$9041"}`): it is not part of the key, but
    what an entry says of symbols is stored by slot and read back through it.
    """

    parts: tuple[Part, ...]
    slots: Mapping[str, str]
    nodes: int
    uses_cpu: bool  # whether the machine part speaks of the CPU, so that compiled CPU code may be kept
    place: str = ""  # what is this rank's own, where it is in none of the parts
    groups: tuple[str, ...] = ()  # this process's names of the groups that the parts number
    device: str = ""  # the accelerators whose indices the parts name

    @cached_property
    def id(self) -> str:
        named = "\n".join(f"{part.name} {part.digest}" for part in self.parts)
        return f"wg{KEY_VERSION}" + hashlib.sha256(named.encode()).hexdigest()

    def in_place(self) -> Key:
        """The key of code that holds what is this rank's own. Only for one that has a `place`."""
        inputs = (Part.of(part.name, [part.text, self.place]) if part.name == "inputs" else part for part in self.parts)
        return Key(tuple(inputs), self.slots, self.nodes, self.uses_cpu, device=self.device)

    def digests(self) -> dict[str, str]:
        return {part.name: part.digest for part in self.parts}

    def texts(self) -> dict[str, str]:
        return {part.name: part.text for part in self.parts}

    def __str__(self) -> str:
        return self.id
