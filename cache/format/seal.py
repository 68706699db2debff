"""The seal around bytes in a store: proof that they are whole and belong to their name. It decodes nothing.

Layout: magic `WGE2`, 1 byte algorithm, 16 bytes key id, 8 bytes generation, 32 bytes mac, body. The mac covers
all of these and the name, each length-prefixed, so that a true entry moved under another key fails.
Algorithm 1 is a plain sha256: it finds damage, not malice. Algorithm 2 is hmac-sha256 (`keyring`). Algorithm 3 is
relayed: a checksum over what came from outside without a signature, while that was trusted (`trust=network`). It
is believed for as long as that is, and never signed: no stranger's entry becomes one of ours by lying here.

The generation grows with every publish of a name (microseconds since 1970, or a lease's token). A store that
notes it apart from the bytes finds an older seal that was put in the place of a newer one.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..typing import CorruptEntry, Untrusted

CHECKSUM = 1
HMAC_SHA256 = 2
RELAYED = 3

_MAGIC = b"WGE2"
_DOMAIN = b"warmgraph seal 2\0"  # so that no other mac made with the same key can pass for this one
KEY_ID_BYTES = 16
_NOBODY = bytes(KEY_ID_BYTES)
_MAC_BYTES = 32
_GENERATION = slice(len(_MAGIC) + 1 + KEY_ID_BYTES, len(_MAGIC) + 1 + KEY_ID_BYTES + 8)
HEADER_BYTES = _GENERATION.stop + _MAC_BYTES


class Signer(Protocol):
    """Makes a 32-byte mac. key_id: 16 bytes that name the secret without telling it."""

    @property
    def algorithm(self) -> int: ...

    @property
    def key_id(self) -> bytes: ...

    def mac(self, message: bytes) -> bytes: ...


# Finds the signer that can check a seal of (algorithm, key id); None refuses it.
Verifier = Callable[[int, bytes], Signer | None]


@dataclass(frozen=True, slots=True)
class Checksum:
    """The signer of those who have no secret. algorithm: CHECKSUM or RELAYED."""

    algorithm: int = CHECKSUM

    @property
    def key_id(self) -> bytes:
        return _NOBODY

    def mac(self, message: bytes) -> bytes:
        return hashlib.sha256(message).digest()


_CHECKSUM, _RELAYED = Checksum(), Checksum(RELAYED)


def accept_checksum(algorithm: int, key_id: bytes) -> Signer | None:
    """The default verifier: plain checksums only."""
    return _CHECKSUM if (algorithm, key_id) == (CHECKSUM, _NOBODY) else None


def accept_relayed(algorithm: int, key_id: bytes) -> Signer | None:
    """Believes what came from outside without a signature."""
    return _RELAYED if (algorithm, key_id) == (RELAYED, _NOBODY) else None


def seal(name: str, body: bytes, signer: Signer | None = None, generation: int = 0) -> bytes:
    """`body` sealed under `name` (an entry's key; a chunk's place)."""
    by = _CHECKSUM if signer is None else signer
    algorithm, count = bytes([by.algorithm]), generation.to_bytes(8, "big")
    return _MAGIC + algorithm + by.key_id + count + by.mac(_message(algorithm, by.key_id, count, name, body)) + body


def unseal(name: str, sealed: bytes, verifier: Verifier | None = None) -> bytes:
    """The body, once its seal is known to be right. Raises CorruptEntry or Untrusted and nothing else."""
    if not _is_sealed(sealed):
        raise CorruptEntry("not a sealed entry")
    at = len(_MAGIC)
    algorithm, key_id = sealed[at : at + 1], sealed[at + 1 : at + 1 + KEY_ID_BYTES]
    count = sealed[_GENERATION]
    mac, body = sealed[HEADER_BYTES - _MAC_BYTES : HEADER_BYTES], sealed[HEADER_BYTES:]
    believed = (verifier or accept_checksum)(algorithm[0], key_id)
    # One flipped bit makes a relayed checksum of a plain one: what needs no secret is checked, believed or not.
    signer = believed or accept_checksum(algorithm[0], key_id) or accept_relayed(algorithm[0], key_id)
    if signer is None:
        raise _stranger(algorithm[0], key_id)
    if not hmac.compare_digest(mac, signer.mac(_message(algorithm, key_id, count, name, body))):
        raise CorruptEntry("the seal is broken: these are not the bytes that were published under this name")
    if believed is None:
        raise Untrusted("not signed")
    return body


def _stranger(algorithm: int, key_id: bytes) -> CorruptEntry:
    """Somebody's seal, or none at all: a flipped bit there must not pass for a stranger."""
    if algorithm == HMAC_SHA256 and key_id != _NOBODY:
        return Untrusted(f"signed with a key that is not known here ({key_id.hex()})")
    return CorruptEntry(f"sealed in no way that is known (algorithm {algorithm}, key id {key_id.hex()})")


def generation_of(sealed: bytes) -> int:
    """The generation that `sealed` claims, unchecked; 0 for what is not a seal."""
    return int.from_bytes(sealed[_GENERATION], "big") if _is_sealed(sealed) else 0


def after_generation(sealed: bytes) -> tuple[int, bytes]:
    """Where what does not depend on the generation begins, and that: the signature and the body."""
    begin = _GENERATION.stop if _is_sealed(sealed) else 0
    return begin, sealed[begin:]


def with_generation(sealed: bytes, generation: int) -> bytes:
    """`sealed` as if it were of `generation`; it then unseals only if it is. What is not a seal stays as it is."""
    if not _is_sealed(sealed):
        return sealed
    return sealed[: _GENERATION.start] + generation.to_bytes(8, "big") + sealed[_GENERATION.stop :]


def reseal(name: str, sealed: bytes, signer: Signer | None, generation: int | None = None) -> bytes:
    """What was unsealed under `name`, sealed by `signer` (None: as it is). What is relayed is never signed."""
    if _algorithm(sealed) == RELAYED:
        signer = _CHECKSUM
    if signer is None:
        return sealed
    return seal(name, unverified_body(sealed), signer, generation_of(sealed) if generation is None else generation)


def as_relayed(name: str, sealed: bytes) -> bytes:
    """What was unsealed under `name`, as it is to lie here when it came from outside. What is signed stays as it is."""
    return reseal(name, sealed, _RELAYED) if _algorithm(sealed) == CHECKSUM else sealed


def as_checked(name: str, sealed: bytes) -> bytes:
    """As `as_relayed`, but what was signed needs no key to be believed from here on."""
    return reseal(name, sealed, _RELAYED if _algorithm(sealed) == CHECKSUM else _CHECKSUM)


def same_entry(one: bytes, other: bytes) -> bool:
    """Whether two seals hold the same publish of a name, whoever sealed them."""
    return identity(one) == identity(other)


def identity(sealed: bytes) -> tuple[int, bytes]:
    """What is the same however it is sealed: generation and body."""
    return (generation_of(sealed), unverified_body(sealed)) if _is_sealed(sealed) else (0, sealed)


def unverified_body(sealed: bytes) -> bytes:
    """The body of whatever this is, unchecked. For bookkeeping (which blobs are named), never for loading."""
    return sealed[HEADER_BYTES:]


def _algorithm(sealed: bytes) -> int:
    return sealed[len(_MAGIC)] if _is_sealed(sealed) else 0


def _is_sealed(sealed: bytes) -> bool:
    return len(sealed) >= HEADER_BYTES and sealed.startswith(_MAGIC)


def _message(algorithm: bytes, key_id: bytes, generation: bytes, name: str, body: bytes) -> bytes:
    fields = (algorithm, key_id, generation, name.encode("utf-8", "surrogatepass"), body)
    return _DOMAIN + b"".join(len(part).to_bytes(8, "big") + part for part in fields)
