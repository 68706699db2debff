"""`warmgraph ping` and `keygen`: is the shared server well, and a key for what goes there. Copies nothing."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import statistics
import time
from pathlib import Path
from typing import Any

import click
from warmgraph.cache import (
    ConfigError,
    Mode,
    RedisStore,
    StoreUnavailable,
    Trust,
    advice,
    keys_in_file,
    new_key,
    open_remote,
    parse_keys,
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


# -- keygen


@click.command(epilog=epilog("warmgraph keygen --to ~/.warmgraph.key", "the file cannot be written"))
@click.option("--to", "place", metavar="FILE", help="Write it to this new file, which only you can read.")
@click.option("--add", is_flag=True, help="The file is there: the new key signs from now on, old ones stay accepted.")
@json_option
def keygen(place: str | None, add: bool, as_json: bool) -> int:
    """Make a signing key.

    What is stored is code that its readers run; a server that others can write to needs a key to tell whose
    results are believed. Without --to it is printed on stdout.
    """
    if add and place is None:
        raise click.UsageError("--add is about a file: give --to FILE as well")
    key = new_key()
    name = parse_keys(key).ids()[0]
    path = None if place is None else Path(place).expanduser().absolute()
    if path is not None:
        try:
            _add_to(path, _line(key, name)) if add else _create(path, _line(key, name))
        except OSError as error:
            raise click.ClickException(f"cannot write {path}: {error.strerror or error}") from error
    if as_json:
        print_json({"version": 1, "id": name, "file": None if path is None else str(path)} | _key(key, path))
    elif path is None:
        click.echo(key)
    _tell_next(name, path, add)
    return 0


def _key(key: str, path: Path | None) -> dict[str, str]:
    """The secret is told once: where it lies in a file, not on stdout too."""
    return {"key": key} if path is None else {}


def _line(key: str, name: str) -> bytes:
    return f"{key}  # {name}, made {time.strftime('%Y-%m-%d')}\n".encode()


def _create(path: Path, line: bytes) -> None:
    """A new file, 0600. Never replaces one: whatever was signed with its keys would be lost."""
    try:
        _write(path, line)
    except FileExistsError:
        raise click.UsageError(
            f"--to={str(path)!r}: it is there already; --add puts a new key before its own"
        ) from None


def _add_to(path: Path, line: bytes) -> None:
    """The line, then what the file holds, in one step, with its owner and mode as they are. Raises ConfigError."""
    path = path.resolve()  # a link stays one
    if not path.is_file():
        raise click.UsageError(f"--to={str(path)!r}: there is no such file; leave out --add")
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two at once must not lose one's key
        keys_in_file("--to", path)  # private, and keys: nothing else is written to
        if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
            raise click.ClickException(f"{path} was changed just now by someone else; try again")
        temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
        try:
            _write(temporary, line + file.read(), os.fstat(file.fileno()))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def _write(path: Path, data: bytes, like: os.stat_result | None = None) -> None:
    """A file that was not there, on disk before this returns. like: whose owner and mode it gets."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor, not a path)
            if like is not None:
                if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), like.st_uid, like.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink()
        raise


def _tell_next(name: str, path: Path | None, add: bool) -> None:
    talk(f"key id {name}")
    if path is None:
        talk("put it in a file that only you can read, and set WARMGRAPH_SIGNING_KEY_FILE to that, on every host")
    elif add:
        talk(f"{path} now signs with it; older keys in it stay accepted")
        talk("copy the file to every host: until then they do not accept what this one publishes")
    else:
        talk(f"set WARMGRAPH_SIGNING_KEY_FILE={path} on every host, with this same file")
