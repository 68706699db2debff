"""Checks of the server at WARMGRAPH_URL: is it there, is it well set up, does this host believe what lies there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from warmgraph.cache import (
    ConfigError,
    CorruptEntry,
    RedisStore,
    Revoked,
    StoreUnavailable,
    Untrusted,
    advice,
    open_remote,
    remote_verifier,
    settings,
    unseal,
)

from ..transfer.remote import advice_on_rights
from .command import Finding, ok, problem, warning

_ENTRIES = 200  # looked at, of those there


def check_server() -> Iterator[Finding]:
    try:
        remote = open_remote(settings())
    except ConfigError:
        return  # told already
    if remote is None:
        yield ok("server", "none: the cache is this host's alone (WARMGRAPH_URL)")
        return
    try:
        found = remote.ping()
    except StoreUnavailable as error:
        yield problem("server", str(error), "`warmgraph ping` asks again; until then this host uses its folder alone")
        return
    about = f"{found['url']}: {found['kind'] or 'unknown'} {found['version'] or ''}".rstrip()
    told = advice(found) + advice_on_rights(found)
    if not found["can_read"]:
        yield problem("server", f"{about}: this user may not read", told[0])
        return
    yield ok("server", f"{about}, {found['round_trip_seconds'] * 1e3:.2f} ms away")
    for line in told:
        what, _, how = line.partition(": ")
        yield warning("server", what, how or "see docs/cluster.md")
    yield from _signatures(remote)


def _signatures(remote: RedisStore) -> Iterator[Finding]:
    """Whether entries that others published are signed with keys that are known here."""
    verifier = remote_verifier(settings())
    looked = strange = damaged = 0
    try:
        for key, _, sealed in islice(remote.scan(), _ENTRIES):
            looked += 1
            try:
                unseal(key, sealed, verifier)
            except Revoked:
                continue  # nobody is to believe it
            except Untrusted:
                strange += 1
            except CorruptEntry:
                damaged += 1
    except StoreUnavailable as error:
        yield warning("entries", f"cannot be listed: {error}", "let this user SCAN, see deploy/users.acl")
        return
    if strange:
        yield problem(
            "entries",
            f"{strange} of the {looked} looked at are signed with a key that is not known here",
            "give all hosts one key file (WARMGRAPH_SIGNING_KEY_FILE); `warmgraph config` lists the keys known here",
        )
    if damaged:
        yield warning(
            "entries", f"{damaged} of the {looked} looked at are damaged", "each is compiled anew when it is wanted"
        )
    if not strange and not damaged:
        yield ok("entries", f"all of the {looked} looked at are believed here" if looked else "none there yet")
