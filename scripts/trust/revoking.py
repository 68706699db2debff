"""`warmgraph revoke` and `revocations`: what is not believed any more. Not how lookups obey it (`warmgraph.cache`)."""

from __future__ import annotations

import re
import time
from datetime import datetime, timezone

import click
from warmgraph.cache import (
    ConfigError,
    RedisStore,
    Revocation,
    StoreUnavailable,
    learn_revocations,
    open_remote,
    parse_seconds,
    remote_readonly,
    revocations_of,
    settings,
    statement,
)

from ..output import epilog, json_option, plain, print_json, talk

_PREFIX = re.compile(r"wg1[0-9a-f]{4,64}")
_SIGNER = re.compile(r"[0-9a-f]{32}")


@click.command(
    epilog=epilog(
        'warmgraph revoke --signer 0123456789abcdef0123456789abcdef --why "the key leaked"', "it is not on the server"
    )
)
@click.argument("key", required=False)
@click.option("--signer", metavar="ID", help="What this key signed, whenever (`warmgraph config` lists ids).")
@click.option("--before", metavar="TIME", help="What was signed before: an age (6h, 2d), or 2026-01-31T12:00.")
@click.option("--why", metavar="TEXT", required=True, help="For people, where it is met.")
@json_option
def revoke(key: str | None, signer: str | None, before: str | None, why: str, as_json: bool) -> int:
    """Let entries be believed no more, anywhere.

    KEY is a key or its beginning (4 digits at least); without one, all keys. With neither --signer nor --before: what
    was signed until now; what is compiled from now on is believed. It is signed, kept in the folder, and written to
    the server at WARMGRAPH_URL, from where every lookup, push and pull learns it.
    """
    current = settings()
    if signer is not None and before is not None:
        raise click.UsageError("give --signer or --before, not both")
    if key is None and signer is None and before is None:
        raise click.UsageError("that would be everything: give KEY, --signer or --before")
    if signer is not None and not _SIGNER.fullmatch(signer):
        raise ConfigError(f"--signer={signer!r:.80}: expected the id of a key, 32 hex digits (`warmgraph config`)")
    if not why.strip() or not why.isprintable() or len(why) > 500:
        raise ConfigError(f"--why={why[:80]!r}: expected 1 to 500 printable characters")
    if current.keyring.only_checks or (current.url is not None and remote_readonly(current)):
        raise ConfigError(
            "a revocation is signed and written to the server: run this where a secret key and a writer's URL are"
        )
    now = time.time_ns() // 1000
    until = _moment(before) if before is not None else 0 if signer is not None else now
    said = Revocation(_prefix(key), signer or "", until, " ".join(why.split()), now)
    piece = statement(said, current.keyring.signer)
    learn_revocations(current, piece, local=True)
    error = _send(open_remote(current))
    if as_json:
        print_json(
            {
                "version": 1,
                "ok": error is None,
                "revocation": _plain(said),
                "error": None if error is None else str(error),
            }
        )
    talk(f"revoked: {_words(said)}")
    if error is not None:
        talk(f"Error: it is kept here, and not on the server; run any revoke again: {error}")
    return 0 if error is None else 1


@click.command(
    epilog=epilog("warmgraph revocations --json", "the server cannot be asked; what is known here is listed")
)
@json_option
def revocations(as_json: bool) -> int:
    """What is not believed any more.

    What is known here, and what the server at WARMGRAPH_URL lists.
    """
    current = settings()
    error = None
    remote = open_remote(current)
    if remote is not None:
        try:
            remote.fetch_revocations()
        except StoreUnavailable as failed:
            error = failed
    listed = revocations_of(current).listed()
    if as_json:
        print_json({"version": 1, "ok": error is None, "revocations": [_plain(said) for said in listed]})
    else:
        for said in listed:
            click.echo(plain(_words(said)))
    if error is not None:
        talk(f"Error: {error}")
    elif not listed:
        talk("nothing is revoked")
    return 0 if error is None else 1


def _send(remote: RedisStore | None) -> StoreUnavailable | None:
    """All that is known here and not yet on the server: one that was flushed learns again what was said before."""
    if remote is None:
        return None
    try:
        there = remote.fetch_revocations()
        for piece in revocations_of(settings()).pieces():
            if piece not in there:
                remote.revoke(piece)
    except StoreUnavailable as error:
        return error
    return None


def _prefix(key: str | None) -> str:
    if key is None:
        return ""
    whole = key if key.startswith("wg") else f"wg1{key}"
    if not _PREFIX.fullmatch(whole):
        raise ConfigError(f"KEY={key!r:.80}: expected a key, or 4 digits or more of its beginning (`warmgraph ls`)")
    return whole


def _moment(text: str) -> int:
    """Microseconds since 1970, of an age or a date. Raises ConfigError."""
    try:
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.astimezone()).timestamp() * 1e6)
    except (ValueError, OverflowError):
        return int((time.time() - parse_seconds("--before", text)) * 1e6)


def _plain(said: Revocation) -> dict[str, object]:
    return {
        "key": said.prefix or None,
        "signer": said.signer or None,
        "before": said.before / 1e6 if said.before else None,
        "why": said.why,
        "time": said.time / 1e6,
        "by": said.by,
    }


def _words(said: Revocation) -> str:
    """One line."""
    what = f"keys {said.prefix}*" if said.prefix else "all keys"
    of = f", of signer {said.signer}" if said.signer else ""
    until = f", signed before {_date(said.before)}" if said.before else ""
    return f"{_date(said.time)}  {what}{of}{until}: {said.why}"


def _date(microseconds: int) -> str:
    try:
        return datetime.fromtimestamp(microseconds / 1e6, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        return str(microseconds)
