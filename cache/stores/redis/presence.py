"""What a server lacks of what a host has, asked for many entries in one round trip; and what is not to come back.

An entry counts as there when the value of its key has just the length that it would have with this entry alone;
otherwise its variants are looked at, in a second round trip. What lies there and is no list of entries stays: it is
somebody's poison, and the next publish writes over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from ...format.seal import generation_of
from ...typing import BlobRef, Held
from .client import WRITE_SECONDS
from .lease import MAX_VALUE, held_in
from .requests import read, stored, up_to, values_at
from .store import RedisStore

_DIGITS = 20


class Found(Struct, frozen=True):
    """present: whether the entry lies there. held: who compiles its key, where that was asked."""

    present: bool
    held: Held | None = None


class Presence:
    """Of one store. ttl: seconds that a note is kept. Its methods raise StoreUnavailable."""

    def __init__(self, store: RedisStore, *, ttl: float) -> None:
        self.name = store.name
        self._ttl = round(ttl)
        self._store = store
        self._clients = store.clients

    def find(self, wanted: Sequence[tuple[str, str, bytes]], *, leases: bool = False) -> list[Found]:
        """Of each (key, variant, sealed). leases: ask who compiles the key as well, after looking for its entry."""
        names = self._store.names
        commands: list[tuple[Any, ...]] = []
        for key, _, _ in wanted:
            commands.append(("STRLEN", names.entries(key)))
            if leases:
                commands.append(up_to(names.lease(key), MAX_VALUE))
        each = 2 if leases else 1
        answers = self._clients.small.run(
            partial(read, commands=commands),
            self._clients.deadline,
            doing="look for entries",
            most_bytes=len(wanted) * MAX_VALUE,
        )
        found = []
        for number, (key, variant, sealed) in enumerate(wanted):
            length, lease = answers[each * number], answers[each * number + 1] if leases else None
            held = held_in(lease) if isinstance(lease, bytes) and lease else None
            found.append(Found(self._is_there(length, key, variant, sealed), held))
        return found

    def _is_there(self, length: Any, key: str, variant: str, sealed: bytes) -> bool:
        """length: of the key's value; 0 for none, None for something else than a string."""
        if length == 0:
            return False
        if length is None or length == len(sealed) + len(f"{variant} {generation_of(sealed)} {len(sealed)}\n"):
            return True
        variants = [name for name, _ in self._store.entries(key)]
        return variant in variants or not variants

    def note_set_aside(self, key: str, variant: str, generation: int) -> None:
        """No host is to bring back what was sealed until then."""
        commands = [("SET", self._store.names.set_aside(key, variant), str(generation), "EX", self._ttl)]
        seconds = max(WRITE_SECONDS, self._clients.deadline)
        self._clients.large.run(
            partial(stored, commands=commands), seconds, doing="note what is set aside", use="write", inline=True
        )

    def is_set_aside(self, key: str, variant: str, sealed: bytes) -> bool:
        name = self._store.names.set_aside(key, variant)
        wanted: list[tuple[str | bytes, int]] = [(name, _DIGITS)]
        [value] = self._clients.small.run(
            partial(values_at, wanted=wanted), self._clients.deadline, doing="look for what was set aside"
        )
        return value is not None and (not value.isdigit() or generation_of(sealed) <= int(value))

    def put(self, key: str, variant: str, sealed: bytes, blobs: Sequence[tuple[BlobRef, bytes]]) -> None:
        """As it is, blobs first."""
        for ref, data in blobs:
            if not self._store.has_blob(ref):
                self._store.put_blob(ref, data)
        self._store.put_entry(key, variant, sealed)

    def remove(self, key: str, variant: str, why: str, sealed: bytes) -> None:
        self._store.quarantine(key, variant, why, sealed)
