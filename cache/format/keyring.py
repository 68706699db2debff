"""Signing keys: made, read, told apart by id. Not the seal they make (`seal`), nor where their text comes from.

A key's text is `wgk1-` and 64 hex digits (256 bits). Its id is derived from it, so that ids need no care. A
ring's first key signs; all of them are accepted, so that keys can be rotated one host at a time.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from .seal import HMAC_SHA256, KEY_ID_BYTES, Signer, Verifier, accept_checksum, accept_relayed

_KEY = re.compile(r"wgk1-([0-9a-f]{64})")


def new_key() -> str:
    """The text of a fresh random key."""
    return f"wgk1-{secrets.token_hex(32)}"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A `Signer` by hmac-sha256 (RFC 2104)."""

    secret: bytes = field(repr=False)

    @property
    def algorithm(self) -> int:
        return HMAC_SHA256

    @property
    def key_id(self) -> bytes:
        return hashlib.sha256(b"warmgraph key id\0" + self.secret).digest()[:KEY_ID_BYTES]

    def mac(self, message: bytes) -> bytes:
        return hmac.digest(self.secret, message, "sha256")


@dataclass(frozen=True, slots=True)
class Keyring:
    """keys: the first signs. An empty ring signs nothing and knows nobody."""

    keys: tuple[SigningKey, ...] = ()

    @property
    def signer(self) -> SigningKey | None:
        return self.keys[0] if self.keys else None

    def with_keys(self, more: Keyring) -> Keyring:
        """This ring's keys, then those of `more`."""
        return _ring([*self.keys, *more.keys])

    def ids(self) -> list[str]:
        """The keys' ids, in hex; they may be shown to anyone."""
        return [key.key_id.hex() for key in self.keys]

    def verifier(self, *, unsigned: bool, relayed: bool = False) -> Verifier:
        """Accepts what one of these keys signed; with `unsigned` plain checksums, with `relayed` strangers', too."""
        known: dict[tuple[int, bytes], Signer] = {(key.algorithm, key.key_id): key for key in self.keys}

        def find(algorithm: int, key_id: bytes) -> Signer | None:
            found = known.get((algorithm, key_id))
            if found is None and unsigned:
                found = accept_checksum(algorithm, key_id)
            if found is None and relayed:
                found = accept_relayed(algorithm, key_id)
            return found

        return find


def parse_keys(text: str) -> Keyring:
    """A ring from keys separated by white space or commas; `#` begins a comment. Raises ValueError, showing no key."""
    lines = [line.partition("#")[0] for line in text.splitlines()]
    words = [word for line in lines for word in re.split(r"[\s,]+", line) if word]
    found = [_KEY.fullmatch(word) for word in words]
    if not found:
        raise ValueError("there is no key in it")
    for number, match in enumerate(found, start=1):
        if match is None:
            raise ValueError(f"word {number} of it is not a key (wgk1- and 64 hex digits)")
    return _ring([SigningKey(bytes.fromhex(match[1])) for match in found if match])


def _ring(keys: Sequence[SigningKey]) -> Keyring:
    return Keyring(tuple(dict.fromkeys(keys)))
