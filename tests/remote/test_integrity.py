"""What lies in Redis is nobody's word: every byte changed, moved or taken away is found before it is decoded."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import pytest
from msgspec.structs import replace
from warmgraph.cache import CorruptEntry, Role, StoreUnavailable, encode_blob, seal, unseal
from warmgraph.cache.stores.redis import CorruptBlob, RedisStore, chunks
from warmgraph.cache.stores.redis.scripts import MAX_VARIANTS


def pieces_of(server: Any, ref: Any) -> list[str]:
    return [f"wg:tests:b:{ref.digest}:{number}" for number in range(chunks.count(ref))]


@pytest.mark.parametrize("size", [0, 1, chunks.PIECE_BYTES - 1, chunks.PIECE_BYTES, chunks.PIECE_BYTES + 1, 3 * 2**20])
@pytest.mark.parametrize("encoding", ["zstd", "raw"])
@pytest.mark.parametrize("fill", ["random", "zeros"])
def test_sizes(store: RedisStore, server: Any, make: Any, size: int, encoding: str, fill: str) -> None:
    """Blobs of all sizes come back, from pieces of at most 1 MiB, that all expire."""
    data = os.urandom(size) if fill == "random" else bytes(size)
    ref = make.ref_of(data, Role.CPP_KERNEL, encoding)
    ref = encode_blob(Role.CPP_KERNEL, "k", data)[0] if encoding == "raw" else ref
    store.put_blob(ref, data)
    assert store.blob(ref) == data
    lengths = [server.raw.strlen(name) for name in pieces_of(server, ref)]
    assert len(server.raw.keys("*")) == len(lengths) == max(1, -(-size // chunks.PIECE_BYTES))
    assert max(lengths) <= 2**20
    assert all(3500 < server.raw.ttl(name) <= 3600 for name in pieces_of(server, ref))
    if fill == "zeros" and encoding == "raw" and size > 1000:
        assert sum(lengths) < size / 10


def test_a_piece_that_is_packed_otherwise(store: RedisStore, server: Any) -> None:
    """Where this host's zstd gives other bytes than the signer's, a kernel's pieces go as they are, and are read so."""
    ref, data = encode_blob(Role.CPP_KERNEL, "k", bytes(2 * chunks.PIECE_BYTES + 5))
    other = replace(ref, pieces=("0" * 64,) * 3)
    store.put_blob(other, data)
    assert [server.raw.strlen(name) for name in pieces_of(server, ref)] == chunks.sizes(ref)
    assert store.blob(ref) == store.blob(other) == data


def test_every_flipped_byte_of_a_piece_is_found(store: RedisStore, server: Any, make: Any) -> None:
    """A small kernel: each byte in turn."""
    data = b"\x7fELF" * 60
    ref = make.ref_of(data, Role.CPP_KERNEL, "raw")
    store.put_blob(ref, data)
    [name] = pieces_of(server, ref)
    good = server.raw.get(name)
    for at in range(len(good)):
        server.raw.set(name, good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :])
        with pytest.raises(CorruptBlob) as caught:
            store.blob(ref)
        assert caught.value.ref == ref
    for wrong in (good[:-1], good + b"\0", b"x" * 50, good[:61]):
        server.raw.set(name, wrong)
        with pytest.raises(CorruptBlob):
            store.blob(ref)


def test_sampled_bytes_of_a_large_blob(store: RedisStore, server: Any, random_blob: Any) -> None:
    """Wherever in whichever piece."""
    ref, data = random_blob(5 * 2**19)
    store.put_blob(ref, data)
    for name in pieces_of(server, ref):
        good = server.raw.get(name)
        for at in (0, 4, 5, 20, 21, 40, 61, 62, len(good) // 2, len(good) - 1):
            server.raw.setrange(name, at, bytes([good[at] ^ 1]))
            with pytest.raises(CorruptBlob):
                store.blob(ref)
        server.raw.set(name, good)
    assert store.blob(ref) == data


def test_moved_pieces(store: RedisStore, server: Any, random_blob: Any) -> None:
    """A true piece at another's place, of the same blob or of another, is refused."""
    (one, first), (two, second) = random_blob(5 * 2**19), random_blob(5 * 2**19)
    store.put_blob(one, first)
    store.put_blob(two, second)
    a, b, *_ = pieces_of(server, one)
    mine, other = server.raw.get(a), server.raw.get(b)
    for wrong in (other, server.raw.get(pieces_of(server, two)[0])):
        server.raw.set(a, wrong)
        with pytest.raises(CorruptBlob):
            store.blob(one)
    server.raw.set(a, mine)
    assert store.blob(one) == first


def test_a_missing_piece_makes_the_blob_absent(store: RedisStore, server: Any, random_blob: Any) -> None:
    """And only that blob; publishing again brings it back."""
    (one, first), (two, second) = random_blob(5 * 2**19), random_blob(100)
    store.put_blob(one, first)
    store.put_blob(two, second)
    server.raw.delete(pieces_of(server, one)[1])
    assert store.blobs([one, two]) == {two.digest: second}
    assert not store.has_blob(one)
    store.put_blob(one, first)
    assert store.blobs([one, two, one]) == {one.digest: first, two.digest: second}


def test_a_bomb_is_not_unpacked(store: RedisStore, server: Any, make: Any) -> None:
    """A piece that claims, or hides, more than its place holds; signed, for once."""
    import zstandard

    data = os.urandom(9000)
    ref = make.ref_of(data, Role.CPP_KERNEL, "raw")
    pack = zstandard.ZstdCompressor(level=3)
    small = pack.compress(bytes(9000))
    bombs = [
        pack.compress(bytes(2**26)),
        zstandard.ZstdCompressor(write_content_size=False).compress(bytes(2**26)),
        small + small,
        data + b"x",
        data[:-1],
        b"\1",
    ]
    for bomb in bombs:
        named = replace(ref, pieces=(hashlib.sha256(bomb).hexdigest(),))
        server.raw.set(pieces_of(server, ref)[0], bomb)
        for one in (ref, named):
            with pytest.raises(CorruptBlob):
                store.blob(one)


# -- entries


def entry(make: Any, body: bytes, generation: int) -> bytes:
    return bytes(seal(make.key_of(1), body, make.ring.signer, generation))


def read(store: RedisStore, make: Any) -> list[bytes]:
    verifier = make.ring.verifier(unsigned=False)
    return [unseal(make.key_of(1), sealed, verifier) for _, sealed in store.entries(make.key_of(1))]


def test_newest_first(store: RedisStore, make: Any) -> None:
    """By generation, whatever the order of writing."""
    for variant, generation in (("a", 5), ("b", 2**64 - 1), ("c", 9_999), ("d", 10_000)):
        store.put_entry(make.key_of(1), variant, entry(make, variant.encode(), generation))
    assert read(store, make) == [b"b", b"d", b"c", b"a"]


def test_a_publish_takes_the_place_of_what_is_there(store: RedisStore, server: Any, make: Any) -> None:
    """Whatever its generation says, which nobody signed; others stay, the last written first."""
    key = make.key_of(1)
    name = f"wg:tests:{{{key}}}:e"
    for noted in (2**64, 2**64 - 1, 10**17, 0):
        server.raw.set(name, make.listed(("v0", noted, entry(make, b"old", 10)), ("v1", 7, entry(make, b"other", 7))))
        store.put_entry(key, "v0", entry(make, b"new", 20))
        assert read(store, make) == [b"new", b"other"]


def test_a_replayed_entry_is_refused(store: RedisStore, server: Any, make: Any) -> None:
    """An older seal, put in place past the script, does not unseal."""
    key = make.key_of(1)
    for noted in (20, 0, 2**64 - 1):
        server.raw.set(f"wg:tests:{{{key}}}:e", make.listed(("v0", noted, entry(make, b"old", 10))))
        with pytest.raises(CorruptEntry):
            read(store, make)


def test_every_flipped_byte_of_an_entry_is_found(store: RedisStore, server: Any, make: Any) -> None:
    """Each byte in turn."""
    key = make.key_of(1)
    good = entry(make, b"the manifest" * 10, 7)
    for at in range(len(good)):
        flipped = good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :]
        server.raw.set(f"wg:tests:{{{key}}}:e", make.listed(("v0", 7, flipped)))
        if 21 <= at < 29:  # the generation it claims for itself is not believed anyway
            assert read(store, make) == [b"the manifest" * 10]
            continue
        with pytest.raises(CorruptEntry):
            read(store, make)


def test_what_is_no_list_of_entries(store: RedisStore, server: Any, make: Any) -> None:
    """Is passed by, up to where it is one no more; never an error, and the next publish takes its place."""
    key = make.key_of(1)
    name, ours = f"wg:tests:{{{key}}}:e", ("v0", 5, entry(make, b"ours", 5))
    for rest in (b"", b"x", b"v1 5 100\nshort", b"../x 1 1\nx", b"v1 05 1\nx", b"V 1 1\nx", bytes(70_000)):
        server.raw.set(name, make.listed(ours) + rest)
        assert read(store, make) == [b"ours"]
    for value in (b"v0", b"\n" * 99, os.urandom(99), bytes(17 * 2**20)):
        server.raw.set(name, value)
        assert read(store, make) == []
        store.put_entry(key, "v0", ours[2])
        assert read(store, make) == [b"ours"]


def test_a_large_entry_takes_one_round_trip_more(store: RedisStore, server: Any, make: Any) -> None:
    """And comes whole."""
    key = make.key_of(1)
    for body in (bytes(2**16), os.urandom(2**20)):
        store.put_entry(key, "v0", entry(make, body, 5))
        assert read(store, make) == [body]


def test_many_variants(store: RedisStore, make: Any) -> None:
    """Of too many, those written longest ago go."""
    key = make.key_of(1)
    for number in range(100):
        store.put_entry(key, f"v{number}", entry(make, b"%d" % number, number))
    assert read(store, make) == [b"%d" % number for number in range(99, 99 - MAX_VARIANTS, -1)]


def test_another_program_in_our_place(store: RedisStore, server: Any, make: Any, random_blob: Any) -> None:
    """A key of another type is as if it were not there, and is written over."""
    ref, data = random_blob(10)
    name = f"wg:tests:{{{make.key_of(1)}}}:e"
    server.raw.lpush(name, b"list")
    server.raw.lpush(pieces_of(server, ref)[0], b"list")
    assert list(store.entries(make.key_of(1))) == list(store.scan()) == []
    assert store.blob(ref) is None
    assert not store.has_blob(ref)
    store.quarantine(make.key_of(1), "v0", "why")
    store.put_blob(ref, data)
    store.put_entry(make.key_of(1), "v0", b"sealed")
    assert store.blob(ref) == data
    assert list(store.entries(make.key_of(1))) == [("v0", b"sealed")]


def test_malformed_names_are_refused(store: RedisStore, make: Any) -> None:
    """Before anything is sent."""
    bad = replace(make.ref_of(b"x"), digest="*")
    for work in (
        lambda: list(store.entries("wg1")),
        lambda: store.put_entry(make.key_of(1), "g:v0", b""),
        lambda: store.quarantine(make.key_of(1), "A", ""),
        lambda: store.touch(make.key_of(1), ""),
        lambda: store.blob(bad),
        lambda: store.put_blob(bad, b"x"),
        lambda: store.drop_blob(bad),
        lambda: store.put_blob(make.ref_of(b"x"), b"longer"),
        lambda: make.open_store("redis://a", namespace="a:b"),
        lambda: make.open_store("redis://a", namespace="a{b"),
        lambda: make.open_store("redis://a", ttl=0),
    ):
        with pytest.raises(ValueError):
            work()


def test_readonly_writes_nothing(store: RedisStore, server: Any, make: Any, random_blob: Any) -> None:
    """And reads all the same."""
    ref, data = random_blob(10)
    store.put_blob(ref, data)
    store.put_entry(make.key_of(1), "v0", b"sealed")
    reader = make.open_store(server.url, readonly=True)
    assert reader.blob(ref) == data
    for work in (
        lambda: reader.put_blob(ref, data),
        lambda: reader.put_entry(make.key_of(1), "v0", b"sealed"),
        lambda: reader.quarantine(make.key_of(1), "v0", "why"),
        lambda: reader.drop_blob(ref),
        lambda: reader.probe("write"),
    ):
        with pytest.raises(StoreUnavailable, match="read-only"):
            work()
    reader.touch(make.key_of(1), "v0", [ref])
    assert list(reader.entries(make.key_of(1))) == [("v0", b"sealed")]


def test_use_prolongs_life(store: RedisStore, server: Any, make: Any, random_blob: Any) -> None:
    """Of the entry and all its pieces; once an hour."""
    ref, data = random_blob(3 * 2**20)
    store.put_blob(ref, data)
    store.put_entry(make.key_of(1), "v0", b"sealed")
    names = [f"wg:tests:{{{make.key_of(1)}}}:e", *pieces_of(server, ref)]
    for name in names:
        server.raw.expire(name, 10)
    store.touch(make.key_of(1), "v0", [ref])
    assert store.flush_touches(20)
    assert all(server.raw.ttl(name) > 3500 for name in names)
    server.raw.expire(names[0], 10)
    store.touch(make.key_of(1), "v0", [ref])
    assert store.flush_touches(20)
    assert server.raw.ttl(names[0]) <= 10
