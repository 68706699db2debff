"""The seal around an entry's bytes: proof that they are whole and belong to their key. It decodes nothing.

Layout: magic `WGE1`, 1 byte algorithm, 16 bytes key id, 32 bytes mac, body. The mac covers algorithm, key id,
the entry's key and the body, each length-prefixed, so that a true entry moved under another key fails.
Algorithm 1 is a plain sha256: it finds damage, not malice. Algorithm 2 is reserved for hmac-sha256.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Protocol

from .typing import CorruptEntry

CHECKSUM = 1
HMAC_SHA256 = 2

_MAGIC = b"WGE1"
_DOMAIN = b"warmgraph entry seal 1\0"  # so that no other mac made with the same key can pass for this one
_KEY_ID_BYTES = 16
_MAC_BYTES = 32
HEADER_BYTES = len(_MAGIC) + 1 + _KEY_ID_BYTES + _MAC_BYTES


class Signer(Protocol):
    """Makes a 32-byte mac. key_id: 16 bytes that name the secret without telling it."""

    @property
    def algorithm(self) -> int: ...

    @property
    def key_id(self) -> bytes: ...

    def mac(self, message: bytes) -> bytes: ...


# Finds the signer that can check a seal of (algorithm, key id); None refuses it.
Verifier = Callable[[int, bytes], Signer | None]


class Checksum:
    """The signer of those who have no secret."""

    algorithm = CHECKSUM
    key_id = bytes(_KEY_ID_BYTES)

    def mac(self, message: bytes) -> bytes:
        return hashlib.sha256(message).digest()


_CHECKSUM = Checksum()


def accept_checksum(algorithm: int, key_id: bytes) -> Signer | None:
    """The default verifier: plain checksums only."""
    return _CHECKSUM if (algorithm, key_id) == (_CHECKSUM.algorithm, _CHECKSUM.key_id) else None


def seal(key: str, body: bytes, signer: Signer | None = None) -> bytes:
    """`body` sealed for `key`."""
    by = _CHECKSUM if signer is None else signer
    algorithm = bytes([by.algorithm])
    return _MAGIC + algorithm + by.key_id + by.mac(_message(algorithm, by.key_id, key, body)) + body


def unseal(key: str, sealed: bytes, verifier: Verifier | None = None) -> bytes:
    """The body, once its seal is known to be right. Raises CorruptEntry and nothing else."""
    if len(sealed) < HEADER_BYTES or not sealed.startswith(_MAGIC):
        raise CorruptEntry("not a sealed entry")
    at = len(_MAGIC)
    algorithm, key_id = sealed[at : at + 1], sealed[at + 1 : at + 1 + _KEY_ID_BYTES]
    mac, body = sealed[HEADER_BYTES - _MAC_BYTES : HEADER_BYTES], sealed[HEADER_BYTES:]
    signer = (verifier or accept_checksum)(algorithm[0], key_id)
    if signer is None:
        raise CorruptEntry(f"sealed with algorithm {algorithm[0]}, key id {key_id.hex()}: not one to trust")
    if not hmac.compare_digest(mac, signer.mac(_message(algorithm, key_id, key, body))):
        raise CorruptEntry("the seal is broken")
    return body


def unverified_body(sealed: bytes) -> bytes:
    """The body of whatever this is, unchecked. For bookkeeping (which blobs are named), never for loading."""
    return sealed[HEADER_BYTES:]


def _message(algorithm: bytes, key_id: bytes, key: str, body: bytes) -> bytes:
    fields = (algorithm, key_id, key.encode("utf-8", "surrogatepass"), body)
    return _DOMAIN + b"".join(len(part).to_bytes(8, "big") + part for part in fields)
