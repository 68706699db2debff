"""Encoding, sealing and blobs: one encoding per entry, total decoding, bounded allocation."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields, replace
from warmgraph.cache import (
    BlobRef,
    CorruptEntry,
    Entry,
    Role,
    canonical_entry,
    decode_blob,
    decode_entry,
    encode_blob,
    new_key,
    parse_keys,
    seal,
    unseal,
    verify_blob,
)
from warmgraph.cache.format.seal import ChecksumsOnly

hexes = st.binary(min_size=32, max_size=32).map(bytes.hex)
keys = hexes.map("wg1{}".format)
any_text = st.text(st.characters(), max_size=20)  # lone surrogates too: paths may hold them
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    any_text,
)
sizes = st.integers(0, 2**32)
blob_refs = st.builds(
    BlobRef,
    digest=hexes,
    size=sizes,
    role=st.sampled_from(list(Role)),
    name=st.text(min_size=1, max_size=20),
    encoding=st.sampled_from(["zstd", "raw"]),
    content_size=sizes,
)
entries = st.builds(
    Entry,
    key=keys,
    variant=st.from_regex(r"\A[a-z0-9][a-z0-9_-]{0,63}\Z"),
    parts=st.dictionaries(any_text, hexes, max_size=4),
    guards=st.none() | any_text,
    symbols=st.dictionaries(any_text, any_text, max_size=4),
    blobs=st.lists(blob_refs, max_size=4, unique_by=lambda ref: ref.name).map(tuple),
    facts=st.dictionaries(any_text, scalars, max_size=4),
)


def plain_entry(**changes: Any) -> dict[str, Any]:
    """The fields of a valid entry as msgpack holds them, sorted, with some changed."""
    plain: dict[str, Any] = {
        "blobs": [["0" * 64, 3, "aot-result", "aot", "zstd", 9, ["0" * 64]]],
        "facts": {},
        "guards": None,
        "key": "wg1" + "0" * 64,
        "parts": {},
        "symbols": {},
        "v": 2,
        "variant": "v0",
    }
    return plain | changes


def blob_with(position: int, value: Any) -> dict[str, Any]:
    blob = plain_entry()["blobs"][0]
    blob[position] = value
    return plain_entry(blobs=[blob])


@given(entries)
def test_entry_round_trip(entry: Entry) -> None:
    """An entry is what it was after encoding and decoding."""
    assert decode_entry(entry.key, canonical_entry(entry)) == entry


@given(entries, st.randoms())
def test_order_does_not_matter(entry: Entry, random: Any) -> None:
    """The order in which mappings were filled does not change the bytes."""

    def shuffled(mapping: Any) -> dict[Any, Any]:
        items = list(mapping.items())
        random.shuffle(items)
        return dict(items)

    other = replace(entry, parts=shuffled(entry.parts), symbols=shuffled(entry.symbols), facts=shuffled(entry.facts))
    assert canonical_entry(other) == canonical_entry(entry)


@given(entries, entries)
def test_every_field_changes_the_bytes(entry: Entry, other: Entry) -> None:
    """Two entries that differ in any one field have different bytes."""
    for item in fields(Entry):
        changed = replace(entry, **{item.name: getattr(other, item.name)})
        same = repr(changed) == repr(entry)  # repr tells 1 from True and 0.0 from -0.0, as the encoding does
        assert same or canonical_entry(changed) != canonical_entry(entry)


@given(blob_refs, blob_refs)
def test_every_field_of_a_blob_changes_the_bytes(ref: BlobRef, other: BlobRef) -> None:
    """Two entries whose one blob differs in any one field have different bytes."""
    entry = Entry("wg1" + "0" * 64, "v0", {}, None, {}, (ref,))
    for item in fields(BlobRef):
        changed = replace(ref, **{item.name: getattr(other, item.name)})
        assert changed == ref or canonical_entry(replace(entry, blobs=(changed,))) != canonical_entry(entry)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_corrupt(data: bytes) -> None:
    """Bytes from nowhere are CorruptEntry to each decoder, and nothing else."""
    key = "wg1" + "0" * 64
    with pytest.raises(CorruptEntry):
        decode_entry(key, data)
    with pytest.raises(CorruptEntry):
        unseal(key, data)
    ref = BlobRef(hashlib.sha256(data).hexdigest(), len(data), Role.AOT_RESULT, "aot", "zstd", 100)
    with pytest.raises(CorruptEntry):
        decode_blob(ref, data)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.binary(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(plain_entry())), json_like)
def test_wrong_field_is_corrupt(name: str, value: object) -> None:
    """Any value in any field is either an entry that encodes to the same bytes, or CorruptEntry."""
    data = msgpack.packb(plain_entry(**{name: value}), unicode_errors="surrogatepass")
    try:
        entry = decode_entry("wg1" + "0" * 64, data)
    except CorruptEntry:
        return
    assert canonical_entry(entry) == data


WRONG = {
    "another version": plain_entry(v=1),
    "version true": plain_entry(v=True),
    "an extra field": plain_entry(zzz=1),
    "a field missing": {name: value for name, value in plain_entry().items() if name != "parts"},
    "unsorted": dict(reversed(plain_entry().items())),
    "not a mapping": [plain_entry()],
    "short digest": blob_with(0, "0" * 63),
    "upper-case digest": blob_with(0, "A" * 64),
    "digest with a newline": blob_with(0, "0" * 64 + "\n"),
    "negative size": blob_with(1, -1),
    "size true": blob_with(1, True),
    "huge size": blob_with(1, 2**62),
    "unknown role": blob_with(2, "script"),
    "role not text": blob_with(2, []),
    "empty name": blob_with(3, ""),
    "unknown encoding": blob_with(4, "lzma"),
    "huge content": blob_with(5, 2**62),
    "a piece too many": blob_with(6, ["0" * 64] * 2),
    "a piece that is no digest": blob_with(6, ["0"]),
    "a short blob": plain_entry(blobs=[["0" * 64, 3]]),
    "two blobs of one name": plain_entry(blobs=plain_entry()["blobs"] * 2),
    "traversal in variant": plain_entry(variant="../../x"),
    "key of another scheme": plain_entry(key="wg2" + "0" * 64),
    "fact not scalar": plain_entry(facts={"a": []}),
    "fact not finite": plain_entry(facts={"a": float("nan")}),
    "fact bytes": plain_entry(facts={"a": b"x"}),
    "guards number": plain_entry(guards=1),
    "part not text": plain_entry(parts={"graph": 1}),
}


@pytest.mark.parametrize("plain", WRONG.values(), ids=WRONG.keys())
def test_each_wrong_field_is_corrupt(plain: object) -> None:
    """Each known way for a field to be wrong is refused."""
    with pytest.raises(CorruptEntry):
        decode_entry("wg1" + "0" * 64, msgpack.packb(plain))


def test_deep_nesting_is_corrupt() -> None:
    """A pile of nested lists does not exhaust the stack."""
    with pytest.raises(CorruptEntry):
        decode_entry("wg1" + "0" * 64, b"\x91" * 100_000 + b"\x00")


def test_entry_of_another_key_is_corrupt() -> None:
    """An entry that names another key than the one asked for is refused."""
    with pytest.raises(CorruptEntry, match="another key"):
        decode_entry("wg1" + "1" * 64, msgpack.packb(plain_entry()))


UNSTORABLE: dict[str, Callable[[Entry], Entry]] = {
    "key": lambda entry: replace(entry, key="../../etc"),
    "variant": lambda entry: replace(entry, variant="A.B"),
    "a fact that is a list": lambda entry: replace(entry, facts={"a": []}),  # type: ignore[dict-item]
    "an infinite fact": lambda entry: replace(entry, facts={"a": float("inf")}),
    "a huge integer": lambda entry: replace(entry, facts={"a": 2**70}),
    "too large": lambda entry: replace(entry, guards="x" * 2**24),
}


@pytest.mark.parametrize("change", UNSTORABLE.values(), ids=UNSTORABLE.keys())
def test_unstorable_entry_is_refused_at_once(change: Callable[[Entry], Entry]) -> None:
    """What could not be read back is not written: ValueError where it is made."""
    entry = Entry("wg1" + "0" * 64, "v0", {}, None, {}, ())
    with pytest.raises(ValueError, match="not an entry that can be stored"):
        canonical_entry(change(entry))


@given(keys, st.binary(max_size=100))
def test_seal_round_trip(key: str, body: bytes) -> None:
    """A sealed body comes back under its key, and under no other."""
    sealed = seal(key, body)
    assert unseal(key, sealed) == body
    with pytest.raises(CorruptEntry):
        unseal(key[:-1] + ("0" if key[-1] != "0" else "1"), sealed)


def test_every_flipped_bit_breaks_the_seal() -> None:
    """No bit of a sealed entry can change unnoticed, or pass for a stranger's entry, which is left where it is."""
    key, sealed = "wg1" + "0" * 64, seal("wg1" + "0" * 64, b"body")
    for position in range(len(sealed) * 8):
        data = bytearray(sealed)
        data[position // 8] ^= 1 << position % 8
        with pytest.raises(CorruptEntry) as raised:
            unseal(key, bytes(data))
        assert raised.type is CorruptEntry


def test_every_truncation_breaks_the_seal() -> None:
    """No prefix of a sealed entry passes, nor one with something appended."""
    key, sealed = "wg1" + "0" * 64, seal("wg1" + "0" * 64, b"body")
    for length in range(len(sealed)):
        with pytest.raises(CorruptEntry):
            unseal(key, sealed[:length])
    with pytest.raises(CorruptEntry):
        unseal(key, sealed + b"\0")


class Secret:
    """A signer with a secret, as a later version has one."""

    algorithm = 2
    key_id = b"0123456789abcdef"

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, message: bytes) -> bytes:
        return hashlib.sha256(self._secret + message).digest()

    def verify(self, message: bytes, mac: bytes) -> bool:
        return mac == self.sign(message)


class Believing(ChecksumsOnly, frozen=True):
    """Whoever signed, this one is asked."""

    signer: Secret | None = None

    def find(self, algorithm: int, key_id: bytes) -> Any:
        return self.signer


def test_a_signer_can_be_put_in() -> None:
    """A signed entry passes its own verifier only: not the plain one, not another secret, not another key."""
    key, mine, theirs = "wg1" + "0" * 64, Secret(b"mine"), Secret(b"theirs")
    sealed = seal(key, b"body", mine)
    assert unseal(key, sealed, Believing(signer=mine)) == b"body"
    with pytest.raises(CorruptEntry):
        unseal(key, sealed)
    with pytest.raises(CorruptEntry):
        unseal(key, sealed, Believing(signer=theirs))
    with pytest.raises(CorruptEntry):
        unseal("wg1" + "1" * 64, sealed, Believing(signer=mine))
    with pytest.raises(CorruptEntry):
        unseal(key, seal(key, b"body"), parse_keys(new_key()).verifier(unsigned=False))


@given(st.sampled_from(list(Role)), st.text(min_size=1, max_size=20), st.binary(max_size=5000))
def test_blob_round_trip(role: Role, name: str, content: bytes) -> None:
    """A blob is what it was; its reference says its digest, its sizes and its encoding."""
    ref, data = encode_blob(role, name, content)
    assert decode_blob(ref, data) == content
    assert (ref.size, ref.content_size) == (len(data), len(content))
    assert ref.digest == hashlib.sha256(data).hexdigest()
    assert (data == content) == (ref.encoding == "raw")
    assert (ref.encoding == "raw") == (role is Role.CPP_KERNEL)


@pytest.mark.parametrize("size", [2**20, 2**22, 2**25])
def test_large_blob_round_trip(size: int) -> None:
    """Large contents, which zstd gives a window of its own, come back; so do those it shrinks the most."""
    for content in (bytes(size), hashlib.sha256(b"x").digest() * (size // 32)):
        ref, data = encode_blob(Role.AOT_RESULT, "aot", content)
        assert decode_blob(ref, data) == content


@given(st.binary(min_size=1, max_size=200), st.data())
def test_changed_blob_is_corrupt(content: bytes, data: st.DataObject) -> None:
    """A blob whose bytes changed is refused before it is decoded."""
    ref, stored = encode_blob(Role.AOT_RESULT, "aot", content)
    changed = data.draw(st.binary(max_size=300).filter(lambda other: other != stored))
    for check in (verify_blob, decode_blob):
        with pytest.raises(CorruptEntry):
            check(ref, changed)


def refer(data: bytes, content_size: int) -> BlobRef:
    return BlobRef(hashlib.sha256(data).hexdigest(), len(data), Role.AOT_RESULT, "aot", "zstd", content_size)


@pytest.mark.parametrize("claimed", [0, 1, 2**20 - 1, 2**20 + 1, 2**32])
def test_lying_content_size_is_corrupt(claimed: int) -> None:
    """A frame that holds more or less than its entry says is refused."""
    data = zstandard.ZstdCompressor().compress(bytes(2**20))
    with pytest.raises(CorruptEntry):
        decode_blob(refer(data, claimed), data)


def test_bomb_allocates_nothing() -> None:
    """Neither a real bomb under a small claim, nor a huge claim without bytes behind it, takes memory."""
    bomb = zstandard.ZstdCompressor().compress(bytes(2**27))
    frame = bytes.fromhex("28b52ffd") + b"\xe0" + (2**31).to_bytes(8, "little") + b"\x01\x00\x00"
    tracemalloc.start()
    try:
        for ref in (refer(bomb, 1000), refer(frame, 2**31)):
            with pytest.raises(CorruptEntry):
                decode_blob(ref, bomb if ref.size == len(bomb) else frame)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_frames_that_are_not_ours_are_corrupt() -> None:
    """A frame without its size, one with bytes behind it, and two frames in a row are refused."""
    content = b"content" * 100
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(content)
    frame = zstandard.ZstdCompressor().compress(content)
    for data in (unsized, frame + b"x", frame + frame):
        with pytest.raises(CorruptEntry):
            decode_blob(refer(data, len(content)), data)


def test_unknown_encoding_is_corrupt() -> None:
    """An encoding that this version does not know is refused."""
    ref, data = encode_blob(Role.AOT_RESULT, "aot", b"x")
    with pytest.raises(CorruptEntry):
        decode_blob(replace(ref, encoding="lzma"), data)
