"""The seal around bytes in a store: proof that they are whole, whose they are and where they belong. Decodes nothing.

Layout: magic `WGE3`, 1 byte algorithm, 16 bytes signer id, 8 bytes generation, the mac or signature (its length goes
by the algorithm), body. It covers all of these, the namespace and the name (an entry's key), each length-prefixed, so
that a true entry moved under another key, or into another namespace, fails. The body counts by its sha256.

    1  checksum   a plain sha256: it finds damage, not malice
    2  hmac       hmac-sha256: whoever can check can also sign
    3  relayed    a checksum over what came from outside without a signature, while that was trusted (`trust=network`):
                  believed for as long as that is, and never signed
    4  ed25519    a public key checks, only the secret key signs

The generation is when the signer sealed it (microseconds since 1970, by the signer's clock). A store that notes it
apart from the bytes finds an older seal that was put in the place of a newer one.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Protocol

from msgspec import Struct

from ..typing import CorruptEntry, Revoked, Untrusted

CHECKSUM = 1
HMAC_SHA256 = 2
RELAYED = 3
ED25519 = 4

_MAGIC = b"WGE3"
_DOMAIN = b"warmgraph seal 3\0"  # so that nothing else made with the same key can pass for a seal
KEY_ID_BYTES = 16
_NOBODY = bytes(KEY_ID_BYTES)
_MAC_BYTES = {CHECKSUM: 32, HMAC_SHA256: 32, RELAYED: 32, ED25519: 64}
_ALGORITHM = len(_MAGIC)
_KEY_ID = slice(_ALGORITHM + 1, _ALGORITHM + 1 + KEY_ID_BYTES)
_GENERATION = slice(_KEY_ID.stop, _KEY_ID.stop + 8)
_FIXED_BYTES = _GENERATION.stop
MAX_HEADER_BYTES = _FIXED_BYTES + max(_MAC_BYTES.values())
DEFAULT_NAMESPACE = "default"


class Known(Protocol):
    """Checks seals of one signer. key_id: 16 bytes that name the signer's key without telling it."""

    @property
    def algorithm(self) -> int: ...

    @property
    def key_id(self) -> bytes: ...

    def verify(self, message: bytes, mac: bytes) -> bool: ...


class Signer(Known, Protocol):
    """Makes seals, too."""

    def sign(self, message: bytes) -> bytes: ...


class Verifier(Protocol):
    """Says whose seals are believed, in which namespace, and what was revoked of them."""

    @property
    def namespace(self) -> str: ...

    def find(self, algorithm: int, key_id: bytes) -> Known | None:
        """What can check a seal of this signer; None refuses it."""

    def revoked(self, name: str, key_id: bytes, generation: int) -> str | None:
        """Why what this signer sealed then under `name` is not believed any more, if so."""


class Checksum(Struct, frozen=True):
    """The signer of those who have no key. algorithm: CHECKSUM or RELAYED."""

    algorithm: int = CHECKSUM

    @property
    def key_id(self) -> bytes:
        return _NOBODY

    def sign(self, message: bytes) -> bytes:
        return hashlib.sha256(message).digest()

    def verify(self, message: bytes, mac: bytes) -> bool:
        return hmac.compare_digest(mac, self.sign(message))


_CHECKSUM, _RELAYED = Checksum(), Checksum(RELAYED)


def checksum_of(algorithm: int, key_id: bytes, *, relayed: bool = False) -> Checksum | None:
    """The checksum by which a seal of nobody's is checked; None for one of somebody's. relayed: of RELAYED, too."""
    if key_id != _NOBODY or algorithm not in ((CHECKSUM, RELAYED) if relayed else (CHECKSUM,)):
        return None
    return _CHECKSUM if algorithm == CHECKSUM else _RELAYED


class ChecksumsOnly(Struct, frozen=True):
    """The default verifier: plain checksums."""

    namespace: str = DEFAULT_NAMESPACE

    def find(self, algorithm: int, key_id: bytes) -> Known | None:
        return checksum_of(algorithm, key_id)

    def revoked(self, name: str, key_id: bytes, generation: int) -> str | None:
        return None


accept_checksum = ChecksumsOnly()


def seal(
    name: str, body: bytes, signer: Signer | None = None, generation: int = 0, *, namespace: str = DEFAULT_NAMESPACE
) -> bytes:
    """`body` sealed under `name` (an entry's key) in `namespace`."""
    by = _CHECKSUM if signer is None else signer
    head = _MAGIC + bytes([by.algorithm]) + by.key_id + generation.to_bytes(8, "big")
    return head + by.sign(_message(head, namespace, name, body)) + body


def unseal(name: str, sealed: bytes, verifier: Verifier = accept_checksum) -> bytes:
    """The body, once its seal is known to be right. Raises CorruptEntry or Untrusted and nothing else."""
    if not _is_sealed(sealed):
        raise CorruptEntry("not a sealed entry")
    algorithm, key_id, generation = sealed[_ALGORITHM], sealed[_KEY_ID], generation_of(sealed)
    mac, body = sealed[_FIXED_BYTES : header_bytes(sealed)], unverified_body(sealed)
    believed = verifier.find(algorithm, key_id)
    # One flipped bit makes a relayed checksum of a plain one: what needs no key is checked, believed or not.
    known = believed or checksum_of(algorithm, key_id, relayed=True)
    if known is None:
        raise _stranger(algorithm, key_id)
    if not known.verify(_message(sealed[:_FIXED_BYTES], verifier.namespace, name, body), mac):
        raise CorruptEntry("the seal is broken: these are not the bytes that were published under this name")
    if believed is None:
        raise Untrusted("not signed")
    why = verifier.revoked(name, key_id, generation)
    if why is not None:
        raise Revoked(f"revoked: {why}")
    return body


def is_believed(name: str, sealed: bytes, verifier: Verifier) -> bool:
    """Whether `unseal` gives the body: nobody unknown sealed it, and it is neither broken nor revoked."""
    try:
        unseal(name, sealed, verifier)
    except CorruptEntry:
        return False
    return True


def _stranger(algorithm: int, key_id: bytes) -> CorruptEntry:
    """Somebody's seal, or none at all: a flipped bit there must not pass for a stranger."""
    if algorithm in (HMAC_SHA256, ED25519) and key_id != _NOBODY:
        return Untrusted(f"signed with key {key_id.hex()}, which is not known here")
    return CorruptEntry(f"sealed in no way that is known (algorithm {algorithm}, key id {key_id.hex()})")


# -- what a seal says of itself, unchecked


def header_bytes(sealed: bytes) -> int:
    """Where the body begins; 0 for what is not a seal."""
    return _FIXED_BYTES + _mac_bytes(sealed) if _is_sealed(sealed) else 0


def generation_of(sealed: bytes) -> int:
    """The generation that `sealed` claims; 0 for what is not a seal."""
    return int.from_bytes(sealed[_GENERATION], "big") if _is_sealed(sealed) else 0


def signer_of(sealed: bytes) -> str | None:
    """The id of the key that `sealed` claims to be signed with, in hex; None for a checksum."""
    return sealed[_KEY_ID].hex() if _is_sealed(sealed) and sealed[_KEY_ID] != _NOBODY else None


def unverified_body(sealed: bytes) -> bytes:
    """The body of whatever this is. For bookkeeping (which blobs are named), never for loading."""
    return sealed[header_bytes(sealed) :]


def identity(sealed: bytes) -> tuple[int, bytes]:
    """What is the same however it is sealed: generation and body."""
    return generation_of(sealed), unverified_body(sealed)


def same_entry(one: bytes, other: bytes) -> bool:
    """Whether two seals hold the same publish of a name, whoever sealed them."""
    return identity(one) == identity(other)


def after_generation(sealed: bytes) -> tuple[int, bytes]:
    """Where what does not depend on the generation begins, and that: the signature and the body."""
    begin = _GENERATION.stop if _is_sealed(sealed) else 0
    return begin, sealed[begin:]


def with_generation(sealed: bytes, generation: int) -> bytes:
    """`sealed` as if it were of `generation`; it then unseals only if it is. What is not a seal stays as it is."""
    if not _is_sealed(sealed):
        return sealed
    return sealed[: _GENERATION.start] + generation.to_bytes(8, "big") + sealed[_GENERATION.stop :]


# -- on the way from one store to another; each takes what was unsealed under `name` in `namespace`


def signed_if_ours(name: str, sealed: bytes, signer: Signer | None, *, namespace: str = DEFAULT_NAMESPACE) -> bytes:
    """As it is to leave this host: what it made itself (a plain checksum in its own folder) is signed.

    What somebody signed keeps that signature, and what is relayed is never signed.
    """
    return _again(name, sealed, signer or _CHECKSUM, namespace)


def as_relayed(name: str, sealed: bytes, *, namespace: str = DEFAULT_NAMESPACE) -> bytes:
    """As it is to lie here when it came from outside: a plain checksum becomes a relayed one."""
    return _again(name, sealed, _RELAYED, namespace)


def _again(name: str, sealed: bytes, signer: Signer, namespace: str) -> bytes:
    if not _is_sealed(sealed) or sealed[_ALGORITHM] != CHECKSUM:
        return sealed
    return seal(name, unverified_body(sealed), signer, generation_of(sealed), namespace=namespace)


def _is_sealed(sealed: bytes) -> bool:
    begins = len(sealed) >= _FIXED_BYTES and sealed.startswith(_MAGIC)
    return begins and len(sealed) >= _FIXED_BYTES + _mac_bytes(sealed)


def _mac_bytes(sealed: bytes) -> int:
    """Of an algorithm that is not known, the most that any has: it is never believed."""
    return _MAC_BYTES.get(sealed[_ALGORITHM], max(_MAC_BYTES.values()))


def _message(head: bytes, namespace: str, name: str, body: bytes) -> bytes:
    fields = (
        head,
        *(text.encode("utf-8", "surrogatepass") for text in (namespace, name)),
        hashlib.sha256(body).digest(),
    )
    return _DOMAIN + b"".join(len(part).to_bytes(8, "big") + part for part in fields)
