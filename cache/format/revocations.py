"""What is not believed any more, though it is signed: a list of statements, each sealed by itself. No I/O.

A statement says: entries whose key begins so, of this signer or of any, sealed before a moment or whenever, and why.
It counts as long as its own signer's key is in the ring. A list is the statements behind each other, each with its
length before it; it only grows, nobody signs another's statement again, and the order does not matter. So lists from
several places are joined, and who removes a statement from a server takes it from no host that has seen it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from ..process.forks import fork_safe_lock
from ..typing import CorruptEntry
from .seal import Signer, seal, signer_of, unseal

if TYPE_CHECKING:
    from .seal import Known, Verifier

NAME = "revocations"
_NAMESPACE = ""  # of no namespace: they hold in all
MAX_LIST_BYTES = 2**20
_MAX_STATEMENT_BYTES = 2**12
_LENGTH_BYTES = 4
_MAX_TIME = 2**63


class Revocation(Struct, frozen=True):
    """prefix: of keys; empty: all. signer: a key id in hex; empty: any. before: microseconds since 1970; 0: whenever.

    time: when it was said (microseconds). by: the id of the key that it is signed with; None: it is not.
    """

    prefix: str
    signer: str
    before: int
    why: str
    time: int
    by: str | None = None

    def covers(self, key: str, signer: str | None, generation: int) -> bool:
        return (
            key.startswith(self.prefix)
            and self.signer in ("", signer)
            and (self.before == 0 or generation < self.before)
        )


def statement(said: Revocation, signer: Signer | None) -> bytes:
    """`said` as a list of one. Raises ValueError when it is too long."""
    import msgpack  # type: ignore[import-untyped]  # imported late: 5 ms

    plain = asdict(said)
    del plain["by"]
    sealed = seal(NAME, bytes(msgpack.packb(plain)), signer, said.time, namespace=_NAMESPACE)
    if len(sealed) > _MAX_STATEMENT_BYTES:
        raise ValueError(f"a revocation of {len(sealed)} bytes, above {_MAX_STATEMENT_BYTES}: give a shorter reason")
    return len(sealed).to_bytes(_LENGTH_BYTES, "big") + sealed


def split(data: bytes) -> Iterator[bytes]:
    """The statements in a list, each with its length, unchecked; up to where it is no list any more."""
    at = 0
    while at + _LENGTH_BYTES < len(data):
        end = at + _LENGTH_BYTES + int.from_bytes(data[at : at + _LENGTH_BYTES], "big")
        if end > len(data) or end - at > _LENGTH_BYTES + _MAX_STATEMENT_BYTES:
            return
        yield data[at:end]
        at = end


class Revocations:
    """A growing list of statements. Thread-safe. What is not believed is dropped when it is learnt.

    data: the list. Every statement is unsealed once, by who asks first.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._known: dict[bytes, Revocation] = {}

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces())

    def pieces(self) -> list[bytes]:
        """Each statement, as it stands in a list."""
        return list(self._known)

    def listed(self) -> list[Revocation]:
        """Newest first."""
        return sorted(self._known.values(), key=lambda one: -one.time)

    def learn(self, data: bytes, verifier: Verifier) -> bool:
        """Add what `verifier` believes of a list; whether that was anything new."""
        fresh: dict[bytes, Revocation] = {}
        for piece in split(data):
            if piece not in self._known and piece not in fresh:
                said = _opened(piece[_LENGTH_BYTES:], verifier)
                if said is not None:
                    fresh[piece] = said
        with self._lock:
            room = MAX_LIST_BYTES - sum(map(len, self._known))
            for piece, said in fresh.items():
                room -= len(piece)
                if room >= 0:
                    self._known = {**self._known, piece: said}
        return bool(fresh)

    def why(self, key: str, key_id: bytes, generation: int) -> str | None:
        """Why an entry is revoked, if it is."""
        known = self._known
        if not known:
            return None
        signer = key_id.hex() if any(key_id) else None
        return next((said.why for said in known.values() if said.covers(key, signer, generation)), None)


class _OfStatements(Struct, frozen=True):
    """The same verifier, for statements: of no namespace, and not to be revoked themselves."""

    verifier: Verifier
    namespace: str = _NAMESPACE

    def find(self, algorithm: int, key_id: bytes) -> Known | None:
        return self.verifier.find(algorithm, key_id)

    def revoked(self, name: str, key_id: bytes, generation: int) -> str | None:
        return None


def _opened(sealed: bytes, verifier: Verifier) -> Revocation | None:
    import msgpack

    try:
        plain: Any = msgpack.unpackb(unseal(NAME, sealed, _OfStatements(verifier)), strict_map_key=True)
        said = Revocation(**plain, by=signer_of(sealed))
    except (CorruptEntry, ValueError, TypeError, msgpack.UnpackException):
        return None
    texts = (said.prefix, said.signer, said.why)
    numbers = (said.before, said.time)
    if not all(isinstance(text, str) for text in texts) or not all(type(one) is int for one in numbers):
        return None
    return said if all(0 <= one < _MAX_TIME for one in numbers) else None
