"""Entries to bytes and back, canonically. Not the seal around them (`seal`), nor the blobs (`blobs`).

An entry's bytes are msgpack with sorted keys, and one entry has exactly one encoding: bytes that decode but
are not what we would have written are refused. A new layout takes a new VERSION *and* a new key prefix
(`wg1` -> `wg2`), so that an old process never meets, and never quarantines, a new entry.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from ..typing import BlobRef, CorruptEntry, Entry, Role, Scalar

VERSION = 2
MAX_ENTRY_BYTES = 16 * 2**20
MAX_BLOB_BYTES = 4 * 2**30  # content; a bound for decoders, not an aim
PIECE_BYTES = 2**20  # of a blob, where a store keeps it in pieces

KEY = re.compile(r"wg1[0-9a-f]{32,64}")
VARIANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")  # one case: some file systems fold it; no dot: see quarantine
DIGEST = re.compile(r"[0-9a-f]{64}")
ENCODINGS = ("zstd", "raw")

_MAX_TEXT = 1024
_FIELDS = frozenset({"v", "key", "variant", "parts", "guards", "symbols", "blobs", "facts"})


def is_key(text: str) -> bool:
    """Whether this can be a key at all. What a journal calls one may be anything."""
    return KEY.fullmatch(text) is not None


def check_name(pattern: re.Pattern[str], text: str, what: str) -> None:
    """Raise ValueError unless all of `text` matches: for names that callers give, not for bytes from outside."""
    if not pattern.fullmatch(text):
        raise ValueError(f"not a {what}: {text!r:.80}")


def canonical_entry(entry: Entry) -> bytes:
    """The one encoding of `entry`. Raises ValueError for an entry that `decode_entry` would refuse."""
    plain = _plain(entry)
    try:
        _entry_of(plain)
        data = _pack(plain)
    except (CorruptEntry, TypeError, OverflowError) as error:
        raise ValueError(f"not an entry that can be stored: {error}") from error
    if len(data) > MAX_ENTRY_BYTES:
        raise ValueError(f"not an entry that can be stored: {len(data)} bytes, above {MAX_ENTRY_BYTES}")
    return data


def decode_entry(key: str, data: bytes) -> Entry:
    """The entry in `data`, which must be one of `key`. Raises CorruptEntry and nothing else."""
    import msgpack  # type: ignore[import-untyped]  # imported late: 5 ms

    if len(data) > MAX_ENTRY_BYTES:
        _corrupt(f"an entry of {len(data)} bytes")
    try:
        plain = msgpack.unpackb(data, raw=False, strict_map_key=True, unicode_errors="surrogatepass")
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        raise CorruptEntry(f"not msgpack: {error}") from error
    entry = _entry_of(plain)
    if entry.key != key:
        _corrupt("the entry belongs to another key")
    if _pack(_plain(entry)) != data:
        _corrupt("not the canonical encoding")
    return entry


def _plain(entry: Entry) -> dict[str, Any]:
    return {
        "blobs": [
            [ref.digest, ref.size, ref.role.value, ref.name, ref.encoding, ref.content_size, list(ref.pieces)]
            for ref in entry.blobs
        ],
        "facts": _sorted(entry.facts),
        "guards": entry.guards,
        "key": entry.key,
        "parts": _sorted(entry.parts),
        "symbols": _sorted(entry.symbols),
        "v": VERSION,
        "variant": entry.variant,
    }


def _pack(plain: Mapping[str, Any]) -> bytes:
    import msgpack

    # surrogatepass: a path that is not UTF-8 arrives as lone surrogates, and must not lose the entry
    packed = msgpack.packb(plain, use_bin_type=True, unicode_errors="surrogatepass")
    return bytes(packed)


def _sorted(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {name: mapping[name] for name in sorted(mapping)}


def _corrupt(what: str) -> NoReturn:
    raise CorruptEntry(what)


def _entry_of(plain: object) -> Entry:
    """Check every field of a decoded entry, and build it."""
    if not isinstance(plain, dict) or plain.keys() != _FIELDS:
        _corrupt("not an entry: its fields are not ours")
    if type(plain["v"]) is not int or plain["v"] != VERSION:
        _corrupt("an unknown version of the entry layout")
    guards = plain["guards"]
    if guards is not None and not isinstance(guards, str):
        _corrupt("guards are not text")
    return Entry(
        key=_matching(plain["key"], KEY, "key"),
        variant=_matching(plain["variant"], VARIANT, "variant"),
        parts=_texts(plain["parts"], "parts"),
        guards=guards,
        symbols=_texts(plain["symbols"], "symbols"),
        blobs=_blobs(plain["blobs"]),
        facts=_facts(plain["facts"]),
    )


def _matching(value: object, pattern: re.Pattern[str], what: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        _corrupt(f"not a {what}: {value!r:.80}")
    return value


def _texts(value: object, what: str) -> dict[str, str]:
    if not isinstance(value, dict):
        _corrupt(f"{what} is not a mapping")
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            _corrupt(f"{what} holds something that is not text")
    return value


def _facts(value: object) -> dict[str, Scalar]:
    if not isinstance(value, dict):
        _corrupt("facts is not a mapping")
    for name, fact in value.items():
        if not isinstance(name, str) or not isinstance(fact, (str, int, float, type(None))):
            _corrupt("facts holds something that is not a scalar")
        if isinstance(fact, float) and not math.isfinite(fact):
            _corrupt(f"fact {name!r:.80} is not finite")  # JSON has no word for it
    return value


def _blobs(value: object) -> tuple[BlobRef, ...]:
    if not isinstance(value, list):
        _corrupt("blobs is not a list")
    refs = tuple(_blob(item) for item in value)
    if len({ref.name for ref in refs}) != len(refs):
        _corrupt("two blobs have one name")
    return refs


def _blob(value: object) -> BlobRef:
    if not isinstance(value, list) or len(value) != 7:
        _corrupt("not a blob reference")
    digest, size, role, name, encoding, content_size, pieces = value
    if not isinstance(name, str) or not 0 < len(name) <= _MAX_TEXT:
        _corrupt("a blob's name is not a short text")
    if encoding not in ENCODINGS:
        _corrupt(f"an unknown encoding: {encoding!r:.80}")
    try:
        known = Role(role)
    except (ValueError, TypeError) as error:
        raise CorruptEntry(f"an unknown role: {role!r:.80}") from error
    return BlobRef(
        digest=_matching(digest, DIGEST, "digest"),
        size=_length(size),
        role=known,
        name=name,
        encoding=encoding,
        content_size=_length(content_size),
        pieces=_pieces(pieces, size),
    )


def count_pieces(size: int) -> int:
    """How many pieces a blob of `size` bytes has; one when it is empty."""
    return max(1, -(-size // PIECE_BYTES))


def _pieces(value: object, size: int) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) not in (0, count_pieces(size)):
        _corrupt("not the digests of a blob's pieces")
    return tuple(_matching(digest, DIGEST, "digest") for digest in value)


def _length(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_BLOB_BYTES:
        _corrupt(f"not a size: {value!r:.80}")
    return value
