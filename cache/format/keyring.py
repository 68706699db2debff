"""Signing keys: made, read, told apart by id. Not the seal they make (`seal`), nor where their text comes from.

    wgs1-<64 hex>   Ed25519, the secret half: signs, and checks its own signatures
    wgp1-<64 hex>   Ed25519, the public half: checks, and need not be kept secret
    wgk1-<64 hex>   hmac-sha256, one secret for all: whoever checks can also sign

A key's id is derived from it, so that ids need no care. A ring's first key that can sign does; all of them are
accepted, so that keys can be rotated one host at a time. Ed25519 (RFC 8032) is libsodium's, through PyNaCl, which is
imported when the first such signature is made or checked.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from .revocations import Revocations
from .seal import DEFAULT_NAMESPACE, ED25519, HMAC_SHA256, KEY_ID_BYTES, Known, Signer, checksum_of

_KEY = re.compile(r"(wgs1|wgp1|wgk1)-([0-9a-f]{64})")
_KEY_BYTES = 32


def new_key() -> str:
    """The text of a fresh key that both signs and checks (hmac)."""
    return f"wgk1-{secrets.token_hex(_KEY_BYTES)}"


def new_pair() -> tuple[str, str]:
    """The texts of a fresh pair (Ed25519): the secret half, the public half."""
    secret = secrets.token_bytes(_KEY_BYTES)
    return f"wgs1-{secret.hex()}", f"wgp1-{_pair(secret)[0].hex()}"


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

    def sign(self, message: bytes) -> bytes:
        return hmac.digest(self.secret, message, "sha256")

    def verify(self, message: bytes, mac: bytes) -> bool:
        return hmac.compare_digest(mac, self.sign(message))


class PublicKey(Struct, frozen=True):
    """Checks what the secret half signed."""

    public: bytes

    @property
    def algorithm(self) -> int:
        return ED25519

    @property
    def key_id(self) -> bytes:
        return hashlib.sha256(b"warmgraph public key id\0" + self.public).digest()[:KEY_ID_BYTES]

    def verify(self, message: bytes, mac: bytes) -> bool:
        from nacl.bindings import crypto_sign_open  # imported late: 5 ms
        from nacl.exceptions import BadSignatureError

        try:
            return crypto_sign_open(mac + message, self.public) == message
        except (BadSignatureError, ValueError):  # a public key that is no point on the curve
            return False


@dataclass(frozen=True, slots=True)
class SecretKey:
    """A `Signer` by Ed25519. secret: the seed."""

    secret: bytes = field(repr=False)

    @property
    def public_key(self) -> PublicKey:
        return PublicKey(_pair(self.secret)[0])

    @property
    def algorithm(self) -> int:
        return ED25519

    @property
    def key_id(self) -> bytes:
        return self.public_key.key_id

    def sign(self, message: bytes) -> bytes:
        from nacl.bindings import crypto_sign

        return crypto_sign(message, _pair(self.secret)[1])[: -len(message)]

    def verify(self, message: bytes, mac: bytes) -> bool:
        return self.public_key.verify(message, mac)


@functools.lru_cache(maxsize=16)
def _pair(seed: bytes) -> tuple[bytes, bytes]:
    from nacl.bindings import crypto_sign_seed_keypair

    public, secret = crypto_sign_seed_keypair(seed)
    return public, secret


AnyKey = SigningKey | SecretKey | PublicKey
_KINDS: dict[str, Callable[[bytes], AnyKey]] = {"wgs1": SecretKey, "wgp1": PublicKey, "wgk1": SigningKey}


class Keyring(Struct, frozen=True):
    """keys: the first that can sign does. An empty ring signs nothing and knows nobody."""

    keys: tuple[AnyKey, ...] = ()

    @property
    def signer(self) -> Signer | None:
        return next((key for key in self.keys if not isinstance(key, PublicKey)), None)

    @property
    def only_checks(self) -> bool:
        """Whether all keys are public halves: signatures are checked here, and none can be made."""
        return bool(self.keys) and self.signer is None

    def prepare(self) -> None:
        """Import what these keys need, before any thread does: a fork meanwhile would leave the child with a lock."""
        if any(key.algorithm == ED25519 for key in self.keys):
            import nacl.bindings
            import nacl.exceptions  # noqa: F401

    def with_keys(self, more: Keyring) -> Keyring:
        """This ring's keys, then those of `more`."""
        return Keyring(tuple(dict.fromkeys([*self.keys, *more.keys])))

    def ids(self) -> list[str]:
        """The keys' ids, in hex, the signing one first; they may be shown to anyone."""
        signer = self.signer
        found = [] if signer is None else [signer.key_id.hex()]
        return list(dict.fromkeys([*found, *(key.key_id.hex() for key in self.keys)]))

    def verifier(
        self,
        *,
        unsigned: bool,
        relayed: bool = False,
        namespace: str = DEFAULT_NAMESPACE,
        revocations: Revocations | None = None,
    ) -> RingVerifier:
        """Accepts what one of these keys signed; with `unsigned` plain checksums, with `relayed` strangers', too."""
        known: dict[tuple[int, bytes], Known] = {(key.algorithm, key.key_id): key for key in self.keys}
        return RingVerifier(known, unsigned, relayed, namespace, revocations or Revocations())


class RingVerifier(Struct, frozen=True):
    """A `Verifier` of a ring's keys."""

    known: Mapping[tuple[int, bytes], Known]
    unsigned: bool
    relayed: bool
    namespace: str
    revocations: Revocations

    def find(self, algorithm: int, key_id: bytes) -> Known | None:
        found = self.known.get((algorithm, key_id))
        if found is None and self.unsigned:
            found = checksum_of(algorithm, key_id, relayed=self.relayed)
        return found

    def revoked(self, name: str, key_id: bytes, generation: int) -> str | None:
        return self.revocations.why(name, key_id, generation)


def parse_keys(text: str) -> Keyring:
    """A ring from keys separated by white space or commas; `#` begins a comment. Raises ValueError, showing no key."""
    lines = [line.partition("#")[0] for line in text.splitlines()]
    words = [word for line in lines for word in re.split(r"[\s,]+", line) if word]
    found = [_KEY.fullmatch(word) for word in words]
    if not found:
        raise ValueError("there is no key in it")
    for number, match in enumerate(found, start=1):
        if match is None:
            raise ValueError(f"word {number} of it is not a key (wgs1-, wgp1- or wgk1- and 64 hex digits)")
    return ring_of([_KINDS[match[1]](bytes.fromhex(match[2])) for match in found if match])


def ring_of(keys: Sequence[AnyKey]) -> Keyring:
    return Keyring(tuple(dict.fromkeys(keys)))
