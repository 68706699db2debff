"""Whatever someone who can write to the Redis does to it: a miss that says what it is; nothing is ever decoded.

Through `open_cache`, as the backend looks up. A host that published fills the server; another, with an empty
folder, reads what was done to it. `test_integrity` looks at the store alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from warmgraph.cache import Entry, Hit, Miss, Reason, RedisStore, Role, configure, new_key, open_cache, reset_settings
from warmgraph.cache.format import codec
from warmgraph.cache.format.seal import generation_of, seal, unverified_body
from warmgraph.cache.tiers import reading
from warmgraph.scripts import main

KEY, OTHER = f"wg1{'0a' * 32}", f"wg1{'0b' * 32}"
CONTENT = [(Role.AOT_RESULT, "result", b"a result " * 40), (Role.CPP_KERNEL, "kernel", b"\x7fELF" + bytes(500))]


@pytest.fixture(autouse=True)
def no_settings_stay() -> Any:
    yield
    reset_settings()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was decoded beyond its seal: entries and blobs."""
    seen: list[str] = []

    def noting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            seen.append(name)
            return real(*arguments)

        return call

    monkeypatch.setattr(reading, "decode_entry", noting("entry", codec.decode_entry))
    monkeypatch.setattr(reading, "decode_blob", noting("blob", reading.decode_blob))
    return seen


@pytest.fixture
def hosts(server: Any, tmp_path: Path, make: Any) -> SimpleNamespace:
    """publish(): on one host. lookup(): on another, which has never seen anything."""
    ring, url = new_key(), server.patient_url
    number = 0

    def on_a_host(**changes: Any) -> Any:
        nonlocal number
        number += 1
        settings = {"dir": tmp_path / f"host{number}", "url": url, "signing_key": ring, "strict": True}
        reset_settings()
        return open_cache(configure(**(settings | changes)))

    def publish(key: str = KEY, content: Any = CONTENT, **changes: Any) -> None:
        cache = on_a_host(**changes)
        cache.publish(Entry(key, "v0", {"graph": "a" * 64}, None, {}, ()), content)
        assert cache.flush()

    def lookup(key: str = KEY, **changes: Any) -> Hit | Miss:
        cache = on_a_host(**changes)
        found = cache.lookup(key, lambda entry: True)
        assert cache.flush(), "what is damaged is removed in the background"
        return found  # type: ignore[no-any-return]

    raw = server.raw
    entries = f"wg:default:{{{KEY}}}:e"

    def take() -> bytes:
        """The entry as it lies there, without what is noted of it."""
        return bytes(raw.get(entries).partition(b"\n")[2])

    def put(sealed: bytes, noted: int) -> None:
        raw.set(entries, make.listed(("v0", noted, sealed)))

    return SimpleNamespace(publish=publish, lookup=lookup, raw=raw, entries=entries, ring=ring, take=take, put=put)


def pieces(hosts: SimpleNamespace) -> list[bytes]:
    return sorted(hosts.raw.scan_iter(match="wg:default:b:*"))


def test_untouched_is_hit(hosts: SimpleNamespace, decoded: list[str]) -> None:
    """Without any of what follows it hits, so these tests can fail."""
    hosts.publish()
    found = hosts.lookup()
    assert isinstance(found, Hit)
    assert (found.tier, found.blobs["result"]) == ("redis", CONTENT[0][2])
    assert found.files["kernel"].read_bytes() == CONTENT[1][2]
    assert decoded == ["entry", "blob", "blob"]


def test_every_byte_of_the_manifest(hosts: SimpleNamespace, decoded: list[str]) -> None:
    """Each byte flipped in turn: a miss, corrupt or (where the key's name is) untrusted; not decoded."""
    hosts.publish()
    good = hosts.take()
    for at in range(len(good)):
        hosts.put(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :], generation_of(good))
        found = hosts.lookup()
        assert isinstance(found, Miss) or 21 <= at < 29, at  # its own copy of the generation is not what counts
        if isinstance(found, Miss):
            assert found.reason in (Reason.CORRUPT, Reason.UNTRUSTED)
            assert decoded == []
        decoded.clear()


def test_every_byte_of_every_chunk(hosts: SimpleNamespace, decoded: list[str]) -> None:
    """Each byte flipped in turn, signature included: a miss, and no blob is decoded."""
    hosts.publish()
    kept = hosts.raw.get(hosts.entries)
    for name in pieces(hosts):
        good = hosts.raw.get(name)
        for at in range(0, len(good), 3):
            hosts.raw.set(name, good[:at] + bytes([good[at] ^ 0x80]) + good[at + 1 :])
            hosts.raw.set(hosts.entries, kept)
            found = hosts.lookup()
            assert isinstance(found, Miss), (name, at)
            assert found.reason is Reason.CORRUPT
        hosts.raw.set(name, good)
    assert "blob" not in decoded


def test_read_wrongly_once(hosts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that reads wrong bytes misses; it takes nothing from the others that is right when it is read again."""
    hosts.publish()
    blobs, read = RedisStore.blobs, []

    def misread(self: RedisStore, refs: Any) -> dict[str, bytes]:
        found = blobs(self, refs)
        read.append(len(found))
        return {digest: data[:-1] + b"?" for digest, data in found.items()} if len(read) == 1 else found

    monkeypatch.setattr(RedisStore, "blobs", misread)
    assert hosts.lookup().reason is Reason.CORRUPT
    assert read == [2, 2]
    assert isinstance(hosts.lookup(), Hit)


def test_chunks_swapped(hosts: SimpleNamespace, decoded: list[str]) -> None:
    """True chunks, each in another's place."""
    hosts.publish()
    one, other = pieces(hosts)
    hosts.raw.mset({one: hosts.raw.get(other), other: hosts.raw.get(one)})
    assert hosts.lookup().reason is Reason.CORRUPT
    assert "blob" not in decoded


def test_manifest_under_another_key(hosts: SimpleNamespace, decoded: list[str]) -> None:
    """A true manifest, copied to where another key's would be."""
    hosts.publish()
    hosts.raw.set(hosts.entries.replace(KEY, OTHER), hosts.raw.get(hosts.entries))
    assert hosts.lookup(OTHER).reason is Reason.CORRUPT
    assert decoded == []
    assert isinstance(hosts.lookup(KEY), Hit)


def test_old_manifest_over_a_newer_one(hosts: SimpleNamespace, decoded: list[str]) -> None:
    """A true manifest of the same key, from before, whose blobs are all there."""
    hosts.publish()
    old = hosts.take()
    hosts.publish(content=[(Role.AOT_RESULT, "result", b"a newer result")])
    hosts.put(old, generation_of(hosts.take()))
    assert hosts.lookup().reason is Reason.CORRUPT
    assert decoded == []
    assert hosts.lookup().reason is Reason.ABSENT, "it was removed by whoever met it"


def test_signature_stripped(hosts: SimpleNamespace, decoded: list[str]) -> None:
    """A plain checksum, which anyone can make, in the place of the signature."""
    hosts.publish()
    good = hosts.take()
    hosts.put(seal(KEY, unverified_body(good), None, generation_of(good)), generation_of(good))
    assert hosts.lookup().reason is Reason.UNTRUSTED
    assert decoded == []


@pytest.mark.parametrize("how", ["another key", "no key"])
def test_signed_by_somebody_else(hosts: SimpleNamespace, decoded: list[str], how: str) -> None:
    """An entry that is whole and not signed with a key of ours; it is left alone, for those who have the key."""
    other = {"signing_key": new_key()} if how == "another key" else {"signing_key": "", "trust": "network"}
    hosts.publish(**other)
    assert hosts.lookup(trust="signed").reason is Reason.UNTRUSTED
    assert decoded == []
    assert isinstance(hosts.lookup(**other), Hit)


def test_true_manifest_and_forged_chunks(hosts: SimpleNamespace, decoded: list[str]) -> None:
    """The blobs' chunks replaced by well-formed ones of another entry, of the same length."""
    hosts.publish()
    kept, first = hosts.raw.get(hosts.entries), {name: hosts.raw.get(name) for name in pieces(hosts)}
    hosts.raw.delete(*first)
    hosts.publish(content=[(role, name, data[::-1]) for role, name, data in CONTENT])
    for name, forged in zip(first, [hosts.raw.get(name) for name in pieces(hosts)], strict=True):
        hosts.raw.set(name, forged)
    hosts.raw.set(hosts.entries, kept)
    assert hosts.lookup().reason is Reason.CORRUPT
    assert "blob" not in decoded


def test_relayed_is_not_laundered(hosts: SimpleNamespace, tmp_path: Path, server: Any) -> None:
    """What was believed under trust=network is not believed from the folder once it is not, nor ever signed."""
    network = {"signing_key": "", "trust": "network"}
    hosts.publish(**network)
    victim = tmp_path / "victim"
    assert isinstance(hosts.lookup(dir=victim, **network), Hit)
    again = hosts.lookup(dir=victim, **network)
    assert isinstance(again, Hit)
    assert again.tier == "disk"
    hosts.raw.flushall()
    assert hosts.lookup(dir=victim).reason is Reason.UNTRUSTED
    for trust in ("signed", "network"):  # with the key at hand
        reset_settings()
        configure(dir=victim, url=server.patient_url, signing_key=hosts.ring, trust=trust)
        assert main(["push"]) == (1 if trust == "signed" else 0)
        assert not isinstance(hosts.lookup(), Hit), "another host, which believes signatures only"


def test_rotation(hosts: SimpleNamespace) -> None:
    """With two keys, entries signed by either hit; the first one signs."""
    new = new_key()
    hosts.publish()
    both = {"signing_key": f"{new} {hosts.ring}"}
    assert isinstance(hosts.lookup(**both), Hit)
    hosts.publish(OTHER, **both)
    assert hosts.lookup(OTHER).reason is Reason.UNTRUSTED, "who has only the old key"
    assert isinstance(hosts.lookup(OTHER, signing_key=new), Hit)


def test_evicted_blob(hosts: SimpleNamespace) -> None:
    """A manifest whose blobs were evicted is INCOMPLETE, and cleans up after itself."""
    hosts.publish()
    hosts.raw.delete(pieces(hosts)[0])
    assert hosts.lookup().reason is Reason.INCOMPLETE
    assert not hosts.raw.exists(hosts.entries)
    assert hosts.lookup().reason is Reason.ABSENT


def test_hit_fills_the_folder(hosts: SimpleNamespace, server: Any, tmp_path: Path) -> None:
    """What came from Redis is then found on disk, also when Redis is gone."""
    hosts.publish()
    folder = tmp_path / "one"
    assert isinstance(hosts.lookup(dir=folder), Hit)
    again = hosts.lookup(dir=folder, url="redis://127.0.0.1:1", strict=False)
    assert isinstance(again, Hit)
    assert again.tier == "disk"


def test_readonly_tiers(hosts: SimpleNamespace, tmp_path: Path) -> None:
    """url_mode=readonly reads from Redis and writes to disk alone; dir_mode=readonly the other way round."""
    hosts.publish(url_mode="readonly", dir=tmp_path / "a")
    assert hosts.raw.dbsize() == 0
    assert (tmp_path / "a" / "entries").is_dir()
    hosts.publish(dir_mode="readonly", dir=tmp_path / "b")
    assert hosts.raw.exists(hosts.entries)
    assert not (tmp_path / "b").exists()
    assert hosts.lookup(dir_mode="readonly", dir=tmp_path / "b").tier == "redis"
    assert not (tmp_path / "b").exists()
