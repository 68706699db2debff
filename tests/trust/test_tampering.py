"""Ten thousand random tamperings over what a real compile stores, on a real server: none decoded before its signature
held, none loaded.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from warmgraph.cache import CorruptEntry, DiskStore, Role, new_pair, open_remote, parse_keys, remote_verifier
from warmgraph.cache.format import codec
from warmgraph.cache.format.seal import (
    RELAYED,
    Checksum,
    generation_of,
    seal,
    unverified_body,
    with_generation,
)
from warmgraph.cache.tiers import reading
from warmgraph_tests_trust_hosts import Fleet, key_of, listed

TAMPERINGS = 10_000
PROGRAM = """
import torch, warmgraph
f = torch.compile(lambda x, w: torch.relu(x @ w).softmax(-1), backend="warmgraph")
f(torch.ones(3, 4), torch.ones(4, 5, requires_grad=True)).sum().backward()
warmgraph.flush()
"""


class Stored:
    """What a compile left on the server, and what is done to it. good: by name, what lies there."""

    def __init__(self, fleet: Fleet, store: DiskStore) -> None:
        self.fleet, self.raw = fleet, fleet.raw
        self.random = random.Random(17)
        (file,) = [file for file in store.scan() if not file.variant.startswith(("profile-", "frame-"))]
        self.key, self.variant = file.key, file.variant
        settings = fleet.host().settings()
        self.signer = settings.keyring.signer
        remote = open_remote(settings)
        assert remote is not None and self.signer is not None
        self.remote, self.verifier = remote, remote_verifier(settings)
        found = store.read_entry(file.key, file.variant)
        assert found is not None
        self.entry = found[0]
        assert {ref.role for ref in self.entry.blobs} >= {Role.AOT_RESULT, Role.CPP_KERNEL}
        self.blobs: dict[str, bytes] = {}
        self.touched: set[bytes] = set()
        for ref in self.entry.blobs:
            data = store.blob(ref)
            assert data is not None
            self.blobs[ref.name] = data
            remote.put_blob(ref, data)
        self.body = codec.canonical_entry(self.entry)
        self.old = seal(self.key, self.body, self.signer, 10**15)
        self.sealed = seal(self.key, self.body, self.signer, 2 * 10**15)
        remote.put_entry(self.key, self.variant, self.sealed)
        self.place = f"wg:default:{{{self.key}}}:e"
        self.good = {name: self.raw.get(name) for name in self.raw.keys("wg:default:*")}

    # -- each changes something, and says under which key a host then looks

    def flip(self) -> None:
        name, data = self.one()
        at = self.random.randrange(len(data))
        self.put(name, data[:at] + bytes([data[at] ^ 1 << self.random.randrange(8)]) + data[at + 1 :])

    def cut(self) -> None:
        name, data = self.one()
        self.put(name, data[: self.random.randrange(len(data))])

    def insert(self) -> None:
        name, data = self.one()
        at = self.random.randrange(len(data) + 1)
        self.put(name, data[:at] + self.random.randbytes(self.random.randrange(1, 9)) + data[at:])

    def swap(self) -> None:
        (one, first), (other, second) = self.one(), self.one()
        self.put(one, second)
        self.put(other, first)

    def moved_key(self) -> str:
        other = key_of(self.random.randrange(10**6))
        self.put(f"wg:default:{{{other}}}:e".encode(), self.good[self.place.encode()])
        return other

    def moved_namespace(self) -> None:
        there = seal(
            self.key, self.body, self.signer, 2 * 10**15, namespace=self.random.choice(["other", "", "Default"])
        )
        self.entry_is(there)

    def old_entry(self) -> None:
        self.entry_is(self.random.choice([self.old, with_generation(self.old, 2 * 10**15)]))

    def foreign_signer(self) -> None:
        by = self.random.choice([parse_keys(new_pair()[0]).signer, Checksum(), Checksum(RELAYED), None])
        self.entry_is(seal(self.key, self.body, by, 2 * 10**15))

    def stolen_id(self) -> None:
        """The true signer's id before somebody else's signature, or before none."""
        at = self.random.randrange(29, 93)
        self.entry_is(self.sealed[:at] + self.random.randbytes(93 - at) + self.sealed[93:])

    # -- inside

    def one(self) -> tuple[bytes, bytes]:
        name = self.random.choice(sorted(self.good))
        return name, self.good[name]

    def put(self, name: bytes, value: bytes) -> None:
        self.raw.set(name, value)
        self.touched.add(name)

    def entry_is(self, sealed: bytes) -> None:
        self.put(self.place.encode(), listed((self.variant, generation_of(self.sealed), sealed)))

    def restore(self) -> None:
        for name in self.touched:
            if name in self.good:
                self.raw.set(name, self.good[name])
            else:
                self.raw.delete(name)


@pytest.mark.exhaustive
def test_ten_thousand_tamperings(fleet: Fleet, run_python: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run_python(PROGRAM)
    stored = Stored(fleet, DiskStore(tmp_path / "store"))
    decoded: list[tuple[str, bytes]] = []

    def noting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(about: Any, data: bytes) -> Any:
            decoded.append((name, data))
            return real(about, data)

        return call

    monkeypatch.setattr(reading, "decode_entry", noting("entry", reading.decode_entry))
    monkeypatch.setattr(reading, "decode_blob", noting("blob", reading.decode_blob))
    # Beneath: what decompresses a piece on its way.
    ways = [stored.flip] * 4 + [stored.cut, stored.insert, stored.swap, stored.moved_key, stored.moved_namespace]
    ways += [stored.old_entry, stored.foreign_signer, stored.stolen_id]
    genuine = set(stored.blobs.values())
    hits = 0
    for number in range(TAMPERINGS + 1):
        stored.touched = set()
        decoded.clear()
        way = stored.random.choice(ways) if number else (lambda: None)  # first as it is: so this can fail
        key = way() or stored.key
        for variant, sealed in stored.remote.entries(key):
            found = reading.read_complete(stored.remote, key, variant, sealed, lambda entry: True, stored.verifier)
            if isinstance(found, reading.Complete):
                # A change that is none: of what a seal says of its own moment, or to the very same bytes.
                assert key == stored.key
                assert {ref.name: data for ref, data in found.packed.blobs} == stored.blobs
                assert unverified_body(sealed) == stored.body
                hits += 1
        for kind, data in decoded:
            assert data == stored.body if kind == "entry" else data in genuine, way
        stored.restore()
    assert 1 <= hits < TAMPERINGS // 4


def test_a_packed_piece_is_decompressed_after_its_digest_only(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a kernel: whichever byte of its piece is another, no decompressor sees it."""
    from warmgraph.cache import encode_blob
    from warmgraph.cache.format import blobs

    remote = open_remote(fleet.host().settings())
    assert remote is not None
    ref, data = encode_blob(Role.CPP_KERNEL, "k", b"\x7fELF" * 500)
    remote.put_blob(ref, data)
    (name,) = fleet.raw.keys("wg:default:b:*")
    good, seen = fleet.raw.get(name), []
    real = blobs._decompress
    monkeypatch.setattr(blobs, "_decompress", lambda *args: seen.append(args) or real(*args))
    assert len(good) < len(data)
    for at in range(len(good)):
        fleet.raw.set(name, good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
        with pytest.raises(CorruptEntry):
            remote.blob(ref)
    assert seen == []
    fleet.raw.set(name, good)
    assert remote.blob(ref) == data
    assert len(seen) == 1
