"""Profiles: a join that no order disturbs, bytes that anyone may have written, and writers that do not wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warmgraph.cache import (
    BlobRef,
    CorruptEntry,
    DiskStore,
    Entry,
    MemoryStore,
    Mode,
    Profile,
    ProfileStore,
    Role,
    Settings,
    StoreUnavailable,
    canonical_entry,
    configure,
    decode_entry,
    new_key,
    open_cache,
    parse_keys,
    profile_of,
    seal,
    today,
    unseal,
)
from warmgraph.cache.format.seal import accept_checksum, as_relayed, generation_of, unverified_body
from warmgraph.cache.profiles.profiles import MAX_AGE_DAYS, MAX_LINES, profile_entry, profile_in
from warmgraph.cache.profiles.store import Place
from warmgraph.cache.stores.circuit_breaker import Health

KEY = f"wg1{'a' * 64}"
RING = parse_keys(new_key())
NOW = today()

lines = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=8)
profiles = st.dictionaries(lines, st.integers(NOW - 20, NOW), max_size=6).map(profile_of)


@pytest.fixture(autouse=True)
def small_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few lines fit, so that joins meet the bound often."""
    monkeypatch.setattr("warmgraph.cache.profiles.profiles.MAX_LINES", 8)


def same(one: Profile, other: Profile) -> bool:
    return dict(one.lines) == dict(other.lines)


@given(profiles, profiles, profiles)
def test_no_order_of_joins_matters(a: Profile, b: Profile, c: Profile) -> None:
    """Commutative, associative, idempotent: also where lines have to be left out."""
    assert same(a.joined(b), b.joined(a))
    assert same(a.joined(b).joined(c), a.joined(b.joined(c)))
    assert same(a.joined(a), a)
    assert same(a.joined(b).joined(b), a.joined(b))


@given(profiles, profiles)
def test_a_join_covers_what_fits(a: Profile, b: Profile) -> None:
    """Nothing is lost below the bound; above it, what is kept is of either."""
    joined = a.joined(b)
    if len({*a.lines, *b.lines}) <= 8:
        assert joined.covers(a) and joined.covers(b)
    assert len(joined.lines) <= 8
    assert {*joined.lines} <= {*a.lines, *b.lines}


@given(profiles)
def test_a_profile_comes_back_as_it_was(profile: Profile) -> None:
    """Through the very bytes that entries are made of."""
    entry = decode_entry(KEY, canonical_entry(profile_entry(KEY, profile, "f")))
    assert same(profile_in(entry), profile)
    assert entry.variant == profile.variant


facts = st.dictionaries(
    st.text(max_size=12) | st.just("kind") | lines.map("line {}".format),
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=8),
    max_size=6,
)


@given(facts, st.booleans())
def test_what_lies_there_is_a_profile_or_corrupt(found: dict[str, Any], claimed: bool) -> None:
    """Whatever the facts are: lines that cannot be are passed by, and nothing is raised but CorruptEntry."""
    if claimed:
        found["kind"] = "profile"
    entry = Entry(KEY, "slot-1", {}, None, {}, (), found)
    if not claimed and found.get("kind") != "profile":
        with pytest.raises(CorruptEntry):
            profile_in(entry)
        return
    profile = profile_in(entry)
    assert all(type(day) is int for day in profile.lines.values())
    usable = profile.still_true(NOW)
    assert all(NOW - MAX_AGE_DAYS <= day <= NOW + 1 for day in usable.lines.values())


def test_an_entry_with_blobs_is_no_profile() -> None:
    """A compiled graph under a profile's key is not read as one."""
    ref = BlobRef("0" * 64, 1, Role.AOT_RESULT, "x", "raw", 1)
    with pytest.raises(CorruptEntry):
        profile_in(Entry(KEY, "slot-1", {}, None, {}, (ref,), {"kind": "profile"}))


def test_lines_age_and_the_future_does_not_count() -> None:
    """What nobody has seen for a month is learnt anew; a day that no clock explains would otherwise stay for ever."""
    profile = profile_of({"old": NOW - MAX_AGE_DAYS - 1, "new": NOW, "tomorrow": NOW + 1, "never": NOW + 400})
    assert set(profile.still_true(NOW).lines) == {"new", "tomorrow"}


def test_a_line_is_written_anew_after_a_week_and_not_each_day() -> None:
    """Otherwise every process would write every day."""
    assert profile_of({"x": NOW}).covers(profile_of({"x": NOW + 6}))
    assert not profile_of({"x": NOW}).covers(profile_of({"x": NOW + 7}))


@pytest.mark.parametrize("line", ["", "a\nb", "\0", "x" * 513])
def test_a_line_that_cannot_be_kept_is_left_out(line: str) -> None:
    """Empty, too long, or not printable."""
    assert not profile_of({line: NOW}).lines


# -- through stores


def place(store: Any, **changes: Any) -> Place:
    return Place(store, **({"believed": accept_checksum, "vouched": accept_checksum} | changes))


@pytest.fixture
def disk(tmp_path: Path) -> DiskStore:
    return DiskStore(tmp_path / "profiles")


@pytest.fixture
def opened() -> Iterator[Callable[..., ProfileStore]]:
    """Opens learnings, and waits for what they write at the end."""
    made: list[ProfileStore] = []

    def open_it(places: Sequence[Place], **options: Any) -> ProfileStore:
        made.append(ProfileStore(places, **options))
        return made[-1]

    yield open_it
    assert all(one._writer.flush(10) for one in made)


def known(store: Any) -> Profile:
    return ProfileStore([place(store)]).profile(KEY)


def test_what_one_learns_another_knows(disk: DiskStore, opened: Any) -> None:
    """Through a folder, joined over both."""
    one, other = opened([place(disk)]), opened([place(disk)])
    assert one.learn(KEY, profile_of({"x": NOW}), "f")
    assert other.learn(KEY, profile_of({"y": NOW}), "f")
    assert one._writer.flush(10) and other._writer.flush(10)
    assert set(known(disk).lines) == {"x", "y"}


def test_nothing_is_written_that_is_known(disk: DiskStore, opened: Any) -> None:
    """Eight equal ranks leave one record, and the second of two equal runs none."""
    for _ in range(8):
        one = opened([place(disk)])
        one.learn(KEY, profile_of({"x": NOW, "y": NOW}), "f")
        assert one._writer.flush(10)
    assert len(list(disk.entries(KEY))) == 1


def test_many_writers_at_once_lose_nothing(disk: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen threads with a store each, and lines of their own; of its own records none leaves more than one."""
    monkeypatch.setattr("warmgraph.cache.profiles.profiles.MAX_LINES", MAX_LINES)
    start = threading.Barrier(16)
    made = [ProfileStore([place(DiskStore(disk.root))]) for _ in range(16)]

    def write(number: int) -> None:
        start.wait()
        for step in range(4):
            made[number]._write(KEY, profile_of({f"{number} {step}": NOW}), "f")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(known(disk).lines) == {f"{number} {step}" for number in range(16) for step in range(4)}
    assert len(list(disk.entries(KEY))) <= 16


def test_a_writer_joins_the_records_that_it_finds(opened: Any) -> None:
    """Each one is left once its lines are in another; nothing is removed that is not."""
    store = MemoryStore(name="disk")
    for line in ("a", "b", "c"):
        entry = profile_entry(KEY, profile_of({line: NOW}), "f")
        store.put_entry(KEY, entry.variant, seal(KEY, canonical_entry(entry)))
    one = opened([place(store)])
    one.learn(KEY, profile_of({"a": NOW, "d": NOW}), "f")
    assert one._writer.flush(10)
    ((_, sealed),) = store.entries(KEY)
    assert set(profile_in(decode_entry(KEY, unseal(KEY, sealed))).lines) == {"a", "b", "c", "d"}


def test_a_folder_shows_nothing_as_quarantined(disk: DiskStore, opened: Any) -> None:
    """Joining records is no damage."""
    one = opened([place(disk)])
    for line in ("a", "b"):
        one.learn(KEY, profile_of({line: NOW}), "f")
        assert one._writer.flush(10)
    assert len(list(disk.scan())) == 1
    assert disk.usage().quarantined == 0
    assert disk.verify().ok


def test_lines_that_do_not_fit_are_not_written_again_and_again(disk: DiskStore, opened: Any) -> None:
    """A profile that is full stays as it is: the same lines in every process, and one record."""
    many = [profile_of({f"{number}": NOW}) for number in range(20)]
    one = opened([place(disk)])
    for profile in many:
        one.learn(KEY, profile, "f")
    assert one._writer.flush(10)
    before = list(disk.entries(KEY))
    assert len(before) == 1
    for profile in many:
        one.learn(KEY, profile, "f")
    assert one._writer.flush(10)
    assert list(disk.entries(KEY)) == before


@pytest.mark.parametrize(("mode", "reads", "writes"), [("off", 0, 0), ("readonly", 1, 0), ("refresh", 0, 1)])
def test_modes_are_those_of_entries(mode: str, reads: int, writes: int, disk: DiskStore, opened: Any) -> None:
    """off: neither; readonly: looks up; refresh: looks nothing up, and publishes."""
    first = opened([place(disk)])
    first.learn(KEY, profile_of({"x": NOW}), "f")
    assert first._writer.flush(10)
    one = opened([place(disk)], mode=Mode(mode))
    assert len(one.profile(KEY).lines) == reads
    one.learn(KEY, profile_of({"y": NOW}), "f")
    assert one._writer.flush(10)
    assert len(known(disk).lines) == 1 + writes


def test_a_damaged_record_is_no_profile(disk: DiskStore, opened: Any) -> None:
    """Bytes that are not ours cost what they would have told, and a publish heals the place."""
    one = opened([place(disk)], strict=True)
    profile = profile_of({"x": NOW})
    for damaged in (b"", b"x" * 200, seal(KEY, b"\xc1"), seal(f"wg1{'b' * 64}", b"")):
        disk.put_entry(KEY, profile.variant, damaged)
        assert not one.profile(KEY).lines
    one.learn(KEY, profile, "f")
    assert one._writer.flush(10)
    assert same(one.profile(KEY), profile)


class Sick(MemoryStore):
    """Refuses everything."""

    calls = 0

    def entries(self, key: str) -> Iterator[tuple[str, bytes]]:
        self.calls += 1
        raise StoreUnavailable("it is sick")


def test_a_sick_store_is_asked_once_and_skipped(disk: DiskStore, opened: Any) -> None:
    """As for entries: one warning, one wait, and the others are read."""
    sick = Sick(name="redis")
    one = opened([place(disk), place(sick, remote=True)], health=Health())
    for _ in range(3):
        assert not one.profile(KEY).lines
    assert sick.calls == 1
    with pytest.raises(StoreUnavailable):
        opened([place(Sick(name="redis"))], strict=True).profile(KEY)


def test_a_store_that_is_being_connected_to_is_not_waited_for(opened: Any, disk: DiskStore) -> None:
    """Not blamed either: lookups come later, and find it connected."""
    slow = Sick(name="redis")
    health = Health()
    one = opened([place(disk), place(slow, remote=True, connecting=lambda: True)], health=health)
    for _ in range(3):
        one.profile(KEY)
    assert slow.calls == 0
    assert health.usable("redis", "read")
    assert one._patience <= 0, "each frame would wait as long as the first"


def test_a_strangers_profile_is_not_read_where_a_signature_is_asked_for(opened: Any) -> None:
    """Neither unsigned nor signed with another key."""
    believed = RING.verifier(unsigned=False)
    for signer in (None, parse_keys(new_key()).signer):
        store = MemoryStore(name="redis")
        entry = profile_entry(KEY, profile_of({"x": NOW}), "f")
        store.put_entry(KEY, entry.variant, seal(KEY, canonical_entry(entry), signer))
        one = opened([place(store, believed=believed, vouched=believed, remote=True)], signer=RING.signer)
        assert not one.profile(KEY).lines
    ours = MemoryStore(name="redis")
    ours.put_entry(KEY, entry.variant, seal(KEY, canonical_entry(entry), RING.signer))
    assert opened([place(ours, believed=believed, vouched=believed)]).profile(KEY).lines


def test_a_strangers_lines_are_not_passed_on_under_our_name(opened: Any) -> None:
    """With trust=network they are read; what is signed here holds only what was signed before, and what we saw."""
    store = MemoryStore(name="redis")
    entry = profile_entry(KEY, profile_of({"theirs": NOW}), "f")
    store.put_entry(KEY, entry.variant, seal(KEY, canonical_entry(entry)))
    believed, vouched = RING.verifier(unsigned=True), RING.verifier(unsigned=False)
    one = opened([place(store, believed=believed, vouched=vouched, remote=True)], signer=RING.signer)
    assert set(one.profile(KEY).lines) == {"theirs"}
    one.learn(KEY, profile_of({"ours": NOW}), "f")
    assert one._writer.flush(10)
    signed = ProfileStore([place(store, believed=vouched, vouched=vouched)]).profile(KEY)
    assert set(signed.lines) == {"ours"}


def test_what_a_remote_store_knows_is_kept_near_as_relayed(disk: DiskStore, opened: Any) -> None:
    """So that it is known while the server is away; and believed only for as long as strangers are."""
    remote = MemoryStore(name="redis")
    entry = profile_entry(KEY, profile_of({"x": NOW}), "f")
    sealed = seal(KEY, canonical_entry(entry))
    remote.put_entry(KEY, entry.variant, sealed)
    trusting = RING.verifier(unsigned=True, relayed=True)
    local = place(disk, believed=trusting, vouched=RING.verifier(unsigned=True))
    one = opened([local, place(remote, believed=trusting, vouched=RING.verifier(unsigned=False), remote=True)])
    assert one.profile(KEY).lines
    assert one._writer.flush(10)
    ((_, kept),) = disk.entries(KEY)
    assert kept == as_relayed(KEY, sealed)
    assert opened([local]).profile(KEY).lines
    assert not known(disk).lines


def test_a_record_replaces_one_from_a_clock_that_is_ahead(opened: Any) -> None:
    """Whatever generation lies there, of which nothing is signed: a record written by our own clock takes its place."""
    store = MemoryStore(name="disk")
    profile = profile_of({"x": NOW})
    damaged = seal(KEY, b"no entry", None, 2**63)
    store.put_entry(KEY, profile.variant, damaged)
    one = opened([place(store)])
    one.learn(KEY, profile, "f")
    assert one._writer.flush(10)
    ((_, sealed),) = store.entries(KEY)
    assert decode_entry(KEY, unseal(KEY, sealed))
    assert generation_of(sealed) < 2**53
    assert unverified_body(sealed) != b"no entry"


def test_an_opened_cache_learns_through_its_folder(tmp_path: Path) -> None:
    """The seam that the backend uses; `pgo` is a setting like the others."""
    settings: Settings = configure(dir=tmp_path / "store")
    assert settings.pgo
    one = open_cache(settings).learning
    one.learn(KEY, profile_of({"x": NOW}), "f")
    assert one._writer.flush(10)
    assert set(open_cache(settings).learning.profile(KEY).lines) == {"x"}
    assert set(open_cache(configure(namespace="other")).learning.profile(KEY).lines) == set()
    assert configure(pgo=False).pgo is False
