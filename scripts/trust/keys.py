"""`warmgraph keygen`: a key to sign with, and one to check with. Not where they are read (`warmgraph.cache`)."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import time
from pathlib import Path

import click
from warmgraph.cache import keys_in_file, new_key, new_pair, parse_keys

from ..output import epilog, json_option, print_json, talk


@click.command(epilog=epilog("warmgraph keygen --to ~/.warmgraph.key", "the file cannot be written"))
@click.option("--to", "place", metavar="FILE", help="Write it to this new file, which only you can read.")
@click.option("--add", is_flag=True, help="The file is there: the new key signs from now on, old ones stay accepted.")
@click.option("--shared", is_flag=True, help="One secret (HMAC) for all hosts, instead of a pair: who checks can sign.")
@json_option
def keygen(place: str | None, add: bool, shared: bool, as_json: bool) -> int:
    """Make a key to sign with, and one to check with.

    A pair (Ed25519): the secret half signs, the public half checks.

    What is stored is code that its readers run. The secret half is for CI and for hosts that publish; its public half,
    in FILE.pub, for all that read. Without --to both are printed on stdout, the secret one first.
    """
    if add and place is None:
        raise click.UsageError("--add is about a file: give --to FILE as well")
    secret, public = (new_key(), None) if shared else new_pair()
    name = parse_keys(secret).ids()[0]
    path = None if place is None else Path(place).expanduser().absolute()
    if path is not None and add:
        path = path.resolve()  # a link stays one
    halves = {} if path is None else {path: secret} | ({_public(path): public} if public else {})
    try:
        for file, key in halves.items():
            mode = 0o600 if key is secret else 0o644
            _add_to(file, _line(key, name)) if add and file.exists() else _create(file, _line(key, name), mode, add)
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename or path}: {error.strerror or error}") from error
    if as_json:
        print_json(
            {"version": 1, "id": name, "file": None if path is None else str(path)} | _keys(secret, public, path)
        )
    elif path is None:
        click.echo("\n".join(filter(None, (secret, public))))
    _tell_next(name, path, add, shared)
    return 0


def _public(path: Path) -> Path:
    return path.with_name(f"{path.name}.pub")


def _keys(secret: str, public: str | None, path: Path | None) -> dict[str, str | None]:
    """The secret is told once: where it lies in a file, not on stdout too."""
    return {"public": public} | ({"key": secret} if path is None else {})


def _line(key: str, name: str) -> bytes:
    return f"{key}  # {name}, made {time.strftime('%Y-%m-%d')}\n".encode()


def _create(path: Path, line: bytes, mode: int, add: bool) -> None:
    """A new file. Never replaces one: whatever was signed with its keys would be lost."""
    if add and mode == 0o600:
        raise click.UsageError(f"--to={str(path)!r}: there is no such file; leave out --add")
    try:
        _write(path, line, mode=mode)
    except FileExistsError:
        raise click.UsageError(
            f"--to={str(path)!r}: it is there already; --add puts a new key before its own"
        ) from None


def _add_to(path: Path, line: bytes) -> None:
    """The line, then what the file holds, in one step, with its owner and mode as they are. Raises ConfigError."""
    path = path.resolve()  # a link stays one
    while True:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # two at once must not lose one's key
            keys_in_file("--to", path)  # private, and keys: nothing else is written to
            if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                continue  # another one put a file in its place while this waited
            temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
            try:
                _write(temporary, line + file.read(), os.fstat(file.fileno()))
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
            return


def _write(path: Path, data: bytes, like: os.stat_result | None = None, mode: int = 0o600) -> None:
    """A file that was not there, on disk before this returns. like: whose owner and mode it gets."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor, not a path)
            if like is not None:
                if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), like.st_uid, like.st_gid)
                mode = stat.S_IMODE(like.st_mode)
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink()
        raise


def _tell_next(name: str, path: Path | None, add: bool, shared: bool) -> None:
    talk(f"key id {name}")
    if path is None:
        talk("put each in a file, the secret one in one that only you can read, for WARMGRAPH_SIGNING_KEY_FILE")
        return
    if add:
        talk(f"{path} now signs with it; older keys in it stay accepted")
        talk("copy it to every host: until then they do not accept what this one publishes")
    else:
        talk(
            f"set WARMGRAPH_SIGNING_KEY_FILE={path} on "
            + ("every host, with this same file" if shared else "hosts that sign")
        )
    if not shared:
        talk(f"hosts that only read get {_public(path)}, as WARMGRAPH_SIGNING_KEY_FILE")
