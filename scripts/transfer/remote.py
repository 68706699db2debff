"""`warmgraph ping` and `install-scripts`: is the shared server well, and may writers do their work. Copies nothing."""

from __future__ import annotations

import statistics
import time
from contextlib import suppress
from typing import Any

import click
from warmgraph.cache import (
    ConfigError,
    Mode,
    RedisStore,
    StoreUnavailable,
    Trust,
    advice,
    configure,
    open_remote,
    settings,
)

from ..output import epilog, json_option, print_json, seconds, size, table, talk

_TRIPS = 20


def remote_store(command: str) -> RedisStore:
    """The server of the current settings; nothing is connected yet. Raises ConfigError without one."""
    remote = open_remote(settings())
    if remote is None:
        raise ConfigError(
            f"WARMGRAPH_URL is not set, and {command} is about a server: set it, for example to redis://cache:6379/0"
        )
    return remote


def learn_revocations_of(remote: RedisStore) -> None:
    """What is revoked is not carried any further. A server that does not answer is told of by what comes next."""
    with suppress(StoreUnavailable):
        remote.fetch_revocations()


# -- ping


@click.command(epilog=epilog("warmgraph ping --json", "the server cannot be reached or not be read"))
@json_option
def ping(as_json: bool) -> int:
    """Is the server at WARMGRAPH_URL there, and well set up?

    Writes 8 MiB and removes them, to measure, unless WARMGRAPH_URL_MODE=readonly. Settings that are unwise are
    told with what to do; they are no failure.
    """
    remote = remote_store("ping")
    found = remote.ping()  # raises StoreUnavailable
    median, worst = _round_trips(remote)
    found |= {"round_trip_seconds": median or found.get("round_trip_seconds"), "round_trip_worst_seconds": worst}
    keys = settings().keyring.ids()
    told = advice(found) + advice_on_rights(found)
    if as_json:
        print_json({"version": 1, "ok": bool(found.get("can_read")), "server": found, "keys": keys, "advice": told})
    else:
        table([("", "left"), ("", "left")], _rows(found, keys))
    for line in told:
        talk(f"TIP: {line}")
    return 0 if found.get("can_read") else 1


def _round_trips(remote: RedisStore) -> tuple[float | None, float | None]:
    """Median and worst of what a lookup that finds nothing waits for."""
    spent = []
    try:
        for _ in range(_TRIPS):
            start = time.perf_counter()
            remote.probe("read")
            spent.append(time.perf_counter() - start)
    except StoreUnavailable as error:
        talk(str(error))
        return None, None
    return statistics.median(spent), max(spent)


def advice_on_rights(found: dict[str, Any]) -> list[str]:
    current = settings()
    if found.get("can_write") or Mode.READONLY in (current.mode, current.url_mode):
        return []
    return ["this user may not write: set WARMGRAPH_URL_MODE=readonly, or give it the right to write"]


def _rows(found: dict[str, Any], keys: list[str]) -> list[tuple[str, str]]:
    """What the server says is not ours: anything may be missing, or of another type."""
    signing = f"{keys[0]} signs" + "".join(f", {key} is accepted" for key in keys[1:]) if keys else "none"
    return [
        ("server", f"{found.get('url')}: {found.get('kind') or 'unknown'} {found.get('version') or ''}"),
        ("mode", str(found.get("mode") or "-")),
        ("round trip", f"{_short(found['round_trip_seconds'])}, at worst {_short(found['round_trip_worst_seconds'])}"),
        ("up", _speed(found.get("bytes_per_second_up"))),
        ("down", _speed(found.get("bytes_per_second_down"))),
        ("may read", _yes(found.get("can_read"))),
        ("may write", _yes(found.get("can_write"))),
        ("memory", f"{_bytes(found.get('used_memory'))}, limit {_bytes(found.get('maxmemory') or None, 'none')}"),
        ("when full", str(found.get("maxmemory_policy") or "-")),
        ("evicted so far", str(_number(found.get("evicted_keys"), "-"))),
        ("saves to disk", _yes(found.get("persistence"))),
        ("TLS", _yes(found.get("tls")) + (" (this host)" if found.get("local") else "")),
        ("signing key", signing + (", unsigned is accepted" if settings().trust is Trust.NETWORK else "")),
    ]


def _number(value: object, otherwise: str) -> int | float | str:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else otherwise


def _bytes(value: object, otherwise: str = "-") -> str:
    number = _number(value, otherwise)
    return number if isinstance(number, str) else size(number)


def _speed(value: object) -> str:
    return f"{_bytes(value)}/s" if isinstance(value, (int, float)) else "not measured"


def _short(value: object) -> str:
    """A duration for people; a round trip may well be below a millisecond."""
    if not isinstance(value, (int, float)):
        return "-"
    return f"{value * 1e3:.2f} ms" if value < 0.01 else seconds(value)


def _yes(value: object) -> str:
    return "-" if value is None else "yes" if value else "no"


# -- install-scripts


@click.command(
    name="install-scripts", epilog=epilog("warmgraph install-scripts", "the server cannot be reached or refuses")
)
def install_scripts() -> int:
    """Load warmgraph's scripts into the server.

    The one at WARMGRAPH_URL; for writers that may call them and send none.

    Run it as a user who may use SCRIPT LOAD (an administrator), after each start of the server, which forgets them.
    """
    configure(mode=Mode.OFF)  # nothing is loaded or published: an administrator needs no key
    remote = remote_store("install-scripts")
    count = remote.install_scripts()  # raises StoreUnavailable
    talk(f"{count} scripts are loaded at {remote.url.masked}")
    return 0
