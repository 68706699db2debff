"""`warmgraph journal`: what happened, one event per line. Counts of it are `warmgraph stats`."""

from __future__ import annotations

import re
import time
from pathlib import Path

import click
from warmgraph.cache import EventDict, journal_dir, settings
from warmgraph.cache import read as read_journal

from .output import clock, epilog, json_option, plain, print_json, seconds, talk

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
FIELDS = (
    *("time", "host", "pid", "rank", "outcome", "reason", "tier", "key", "parts"),
    *("function", "file", "line", "nodes", "bytes", "seconds_saved", "seconds", "detail"),
    *("nearest", "differs", "started", "backend", "namespace", "job"),
)


def moment(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A length of time, such as 6h, to the Unix time that long ago. Raises BadParameter."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,9})([smhd])", value, re.ASCII)
    if match is None:
        raise click.BadParameter(f"{value!r}: expected a number and one of s, m, h, d (for example 6h)", ctx, param)
    return max(0.0, time.time() - int(match[1]) * UNITS[match[2]])


@click.command(epilog=epilog("warmgraph journal --since 1h --json", "the journal cannot be read"))
@click.option("--since", metavar="AGE", callback=moment, help="Only events younger than this: 90s, 15m, 6h, 2d.")
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="Read this folder of journal files instead.")
@json_option
def journal(since: float | None, folder: Path | None, as_json: bool) -> int:
    """Every hit, miss, bypass and failure.

    In the order in which they were written; where several hosts share the store, by day and host. With --json
    each line is one object.
    """
    place = folder or journal_dir(settings())
    events = read_journal(place, since)
    told = False
    for event in events:
        told = True
        if as_json:
            print_json({name: event[name] for name in FIELDS})
        else:
            click.echo(plain(_line(event)))
    if events.skipped:
        talk(f"{events.skipped} lines in {place} are not events and were left out")
    if not told and since is not None:
        talk(f"no events that young in {place}")
    elif not told:
        talk(f'no events in {place} yet. TIP: run a model with torch.compile(model, backend="warmgraph")')
    return 0


def _line(event: EventDict) -> str:
    spent = seconds(sum(event["seconds"].values()))
    saved = f", saved {seconds(event['seconds_saved'])}" if event["outcome"] == "hit" else ""
    parts = [
        clock(event["time"]),
        f"{event['host']}/{event['pid']}" + (f" rank {event['rank']}" if event["rank"] is not None else ""),
        f"{event['outcome']:<6}",
        f"{event['function'] or '-'}:{event['line'] or '-'}",
        (event["key"] or "-")[:14],
        spent + saved,
    ]
    told = [f"from {event['tier']}"] if event["tier"] else []
    told += [event["reason"]] if event["reason"] else []
    if told and event["detail"]:
        told[-1] += f": {event['detail']}"
    parts += told
    return "  ".join(parts)
