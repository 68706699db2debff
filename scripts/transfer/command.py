"""`warmgraph export, import, push, pull`: the store's entries to and from elsewhere. Not how they are copied."""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import click
from msgspec.structs import replace
from warmgraph.cache import (
    ConfigError,
    CorruptEntry,
    DiskStore,
    Mode,
    Selection,
    Transferred,
    Untrusted,
    Watch,
    copy_entries,
    export_bundle,
    import_bundle,
    local_verifier,
    parse_seconds,
    read_local,
    remote_verifier,
    select_local,
    select_remote,
    settings,
    store_root,
)

from ..output import epilog, json_option, plain, print_json, size, talk
from ..store.command import find_store
from .remote import learn_revocations_of, remote_store

_PREFIX = re.compile(r"wg1[0-9a-f]{0,64}")
_NOT_TRUSTED = (
    "it is {}, and whoever made or changed it could run code here. Set WARMGRAPH_SIGNING_KEY_FILE to a file that holds "
    "the key it was signed with (`warmgraph config` lists those known here), or export it where there is one; "
    "WARMGRAPH_TRUST=network takes what is not signed at all"
)
_FIELDS = ("entries", "blobs", "bytes", "skipped", "incomplete", "damaged", "untrusted")


def _since(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """An age, such as 6h, to the Unix time that long ago. Raises ConfigError."""
    return None if value is None else max(0.0, time.time() - parse_seconds("--since", value))


def _prefixes(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Beginnings of keys, with or without `wg1`, as `show` takes them. Raises ConfigError."""
    whole = tuple(value if value.startswith("wg") else f"wg1{value}" for value in values)
    for given, prefix in zip(values, whole, strict=True):
        if not _PREFIX.fullmatch(prefix):
            raise ConfigError(f"--key={given!r:.80}: expected the beginning of a key, as `warmgraph ls` lists them")
    return whole


def _selecting(moment: str) -> Callable[[Any], Any]:
    """The options that choose entries. moment: what --since is about."""
    help_since = f"Only what was {moment} within this time: 90s, 15m, 6h, 2d."
    help_key = "Only keys that begin so. May be given several times."
    since = click.option("--since", metavar="AGE", callback=_since, help=help_since)
    key = click.option("--key", "prefixes", metavar="PREFIX", multiple=True, callback=_prefixes, help=help_key)
    return lambda command: since(key(command))


# -- export and import


@click.command(name="export", epilog=epilog("warmgraph export --since 1d --to bundle.wg", "nothing could be exported"))
@_selecting("used")
@click.option("--to", "place", metavar="FILE", required=True, help="The file to write; - for stdout.")
@json_option
def export_command(since: float | None, prefixes: tuple[str, ...], place: str, as_json: bool) -> int:
    """Write entries to one file, to bake into an image.

    Entries keep their signatures; what was compiled here without a key is signed, if there is one now. Damaged entries
    are left out.
    """
    if place == "-" and as_json:
        raise click.UsageError("--json and --to - both want stdout; give --to a file")
    if place == "-" and sys.stdout.isatty():
        raise click.UsageError("--to -: a bundle is not for a terminal; send it to a pipe or a file")
    signer = settings().keyring.signer
    store = find_store()
    # Last used comes last, so that an import, which writes in this order, leaves it the last to be evicted.
    files = select_local(store, Selection(since, prefixes))[::-1] if store is not None else []
    # Without a store there is an empty bundle all the same: a build that starts cold must not fail.
    source = store if store is not None else DiskStore(store_root(settings()), readonly=True)
    with _output(place) as out, _progress("exporting", len(files)) as watch:
        report = export_bundle(source, out, files, verifier=local_verifier(settings()), signer=signer, watch=watch)
    if signer is None:
        talk("no key signs here (`warmgraph keygen`): import takes what it compiled only with WARMGRAPH_TRUST=network")
    _tell_left_out(report, "TIP: warmgraph verify --fix")
    _summary(report, f"exported {_amount(report)}", as_json, to_stderr=place == "-")
    return _status(report)


@contextmanager
def _output(place: str) -> Iterator[BinaryIO]:
    """Where the bundle goes; a file appears whole under its name, for its owner alone, or not at all."""
    if place == "-":
        yield sys.stdout.buffer
        return
    target = Path(place).absolute()
    if target.exists() and not target.is_file():  # replacing /dev/null, say, would be a disaster
        raise click.UsageError(f"--to={place!r}: expected a file; for a pipe or a device use `--to - >`")
    target = target.resolve()
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}")
    try:
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as out:  # noqa: PTH123 (a descriptor, not a path)
                yield out
                out.flush()
                os.fsync(out.fileno())  # it is to be copied elsewhere, not looked up: nobody would notice later
            temporary.replace(target)
        except OSError as error:
            raise click.ClickException(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


@click.command(name="import", epilog=epilog("warmgraph import bundle.wg", "it is damaged, cut short or not trusted"))
@click.argument("bundle")
@json_option
def import_command(bundle: str, as_json: bool) -> int:
    """Add a bundle's entries to the store.

    BUNDLE is a file that `warmgraph export` made; - for stdin. Each entry is verified before it is kept; those
    before a damage stay. It must be signed with a key that is known here, unless WARMGRAPH_TRUST=network, and keeps
    that signature. What is newer here is not replaced.
    """
    current = settings()
    verifier = remote_verifier(current)
    store = _writable_store("import")
    with _input(bundle) as source, _progress("importing") as watch:
        report = import_bundle(source, store, verifier=verifier, here=local_verifier(current), watch=watch)
    if report.untrusted and not (report.entries or report.skipped or report.stopped):
        report = replace(report, stopped=Untrusted(_NOT_TRUSTED.format(report.why)))
    else:
        _tell_left_out(report, "TIP: export it again")
    if report.stopped is not None and not isinstance(report.stopped, Untrusted):
        report = replace(report, stopped=type(report.stopped)(f"{report.stopped} (what came before that is kept)"))
    _summary(report, f"imported {_amount(report)}, to {store.root}", as_json, name="stdin" if bundle == "-" else bundle)
    _keep_within(store)
    return 1 if report.stopped or report.left_out else 0


@contextmanager
def _input(bundle: str) -> Iterator[BinaryIO]:
    if bundle == "-":
        if sys.stdin.isatty():
            raise click.UsageError("-: stdin is a terminal; send a bundle to it, or name a file")
        yield sys.stdin.buffer
        return
    try:
        descriptor = os.open(bundle, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a pipe must not block
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"BUNDLE={bundle!r}: expected a file that can be read ({reason})") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise click.UsageError(f"BUNDLE={bundle!r}: expected a regular file; for a pipe, - and stdin")
    with open(descriptor, "rb") as source:  # noqa: PTH123 (a descriptor, not a path)
        yield source


# -- push and pull


@click.command(epilog=epilog("warmgraph push --since 1d", "the server or the store cannot be used"))
@_selecting("used")
@json_option
def push(since: float | None, prefixes: tuple[str, ...], as_json: bool) -> int:
    """Copy local entries to the server at WARMGRAPH_URL.

    Those that are there already are passed by. What is signed keeps its signature; what was compiled here without a
    key is signed.
    """
    remote = remote_store("push")
    current = settings()
    _check_mode("push", "url_mode", current.url_mode)
    if remote.readonly:
        raise ConfigError(
            "WARMGRAPH_SIGNING_KEY_FILE holds public halves alone, and what goes to a server is signed: push from a "
            "host that has a secret key (`warmgraph keygen`)"
        )
    learn_revocations_of(remote)
    store = find_store()
    files = select_local(store, Selection(since, prefixes)) if store is not None else []
    report = Transferred()
    if store is not None:
        with _progress("pushing", len(files)) as watch:
            report = copy_entries(
                store,
                remote,
                read_local(files),
                source_verifier=local_verifier(current),
                target_verifier=remote_verifier(current),
                signer=current.keyring.signer,
                watch=watch,
            )
    _tell_left_out(report, "TIP: warmgraph verify --fix")
    _summary(report, f"pushed {_amount(report)}, to {remote.url.masked}", as_json)
    return _status(report)


@click.command(epilog=epilog("warmgraph pull --key wg13f9a", "the server or the store cannot be used"))
@_selecting("published")
@json_option
def pull(since: float | None, prefixes: tuple[str, ...], as_json: bool) -> int:
    """Copy entries from the server at WARMGRAPH_URL.

    They come to the local store; those that are there already are passed by.
    """
    remote = remote_store("pull")
    current = settings()
    store = _writable_store("pull")
    learn_revocations_of(remote)
    with _progress("pulling") as watch:
        report = copy_entries(
            remote,
            store,
            select_remote(remote, Selection(since, prefixes)),
            source_verifier=remote_verifier(current),
            target_verifier=local_verifier(current),
            inwards=True,
            watch=watch,
        )
    _tell_left_out(report, "They stay on the server; a lookup that meets a damaged one removes it")
    _summary(report, f"pulled {_amount(report)}, to {store.root}", as_json)
    _keep_within(store)
    return _status(report)


# -- what they share


def _writable_store(command: str) -> DiskStore:
    current = settings()
    _check_mode(command, "dir_mode", current.dir_mode)
    root = store_root(current)
    if root != current.dir:  # whoever can write above a namespace's folder can replace it
        DiskStore(current.dir)
    return DiskStore(root)


def _check_mode(command: str, name: str, mode: Mode) -> None:
    """These commands are asked for by name, and still write nothing where a setting says not to. Raises ConfigError."""
    for variable, value in ((f"WARMGRAPH_{name.upper()}", mode), ("WARMGRAPH_MODE", settings().mode)):
        if value is Mode.READONLY:
            raise ConfigError(f"{variable}=readonly: {command} writes there; set it to readwrite for this command")


def _keep_within(store: DiskStore) -> None:
    """What came in counts against the same bounds as what is compiled here."""
    pruned = store.keep_within(settings().max_size, settings().max_files)
    if pruned is not None:
        talk(
            f"the store was over WARMGRAPH_MAX_SIZE={settings().max_size}: "
            f"the {pruned.entries} entries that were used least recently are evicted"
        )


@contextmanager
def _progress(doing: str, total: int | None = None) -> Iterator[Watch]:
    """A line on stderr that moves, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda report: None
        return
    from rich.console import Console

    with Console(stderr=True).status(doing) as status:

        def watch(report: Transferred) -> None:
            seen = report.entries + report.skipped + report.left_out
            of = "" if total is None else f" of {total}"
            status.update(f"{doing}: {seen}{of} entries, {size(report.bytes)}")

        yield watch


def _amount(report: Transferred) -> str:
    there = f" ({report.skipped} were there already)" if report.skipped else ""
    return f"{report.entries} entries{there} and {report.blobs} blobs, {size(report.bytes)}"


def _tell_left_out(report: Transferred, on_damage: str) -> None:
    for count, what, advice in (
        (report.damaged, "damaged", on_damage),
        (report.incomplete, "incomplete", "Blobs of theirs were evicted"),
        (report.untrusted, f"not trusted ({report.why})", "TIP: `warmgraph config` lists the keys known here"),
    ):
        if count:
            talk(f"left out {count} entries that are {what}. {advice}")


def _summary(
    report: Transferred, line: str, as_json: bool, *, to_stderr: bool = False, name: str | None = None
) -> None:
    """What was done, and why no more was, if it was stopped. name: of what was read."""
    error = None if report.stopped is None else str(report.stopped)
    if as_json:
        counts = {field: getattr(report, field) for field in _FIELDS}
        print_json({"version": 1, "ok": error is None} | counts | {"error": error})
    elif to_stderr:
        talk(line)
    elif error is None or report.entries:
        click.echo(plain(line))
    if error is not None:
        of = f"{name}: " if name is not None and isinstance(report.stopped, CorruptEntry) else ""
        talk(f"Error: {of}{error}")


def _status(report: Transferred) -> int:
    """1 as well when all that there is could not be used: whoever asked for it has nothing."""
    nothing = report.left_out and not report.entries and not report.skipped
    return 1 if report.stopped or nothing else 0
