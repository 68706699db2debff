"""`warmgraph journal`: what happened, one event per line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
from warmgraph.cache import read as read_journal
from warmgraph.cache import settings, store_root

from .output import json_option, plain, print_json, seconds

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class _Since(click.ParamType):
    """A length of time: 90s, 15m, 6h, 2d."""

    name = "age"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:  # noqa: RET503 - fail() raises
        if isinstance(value, str) and value[-1:] in UNITS and value[:-1].isdecimal():
            return time.time() - int(value[:-1]) * UNITS[value[-1]]
        self.fail(f"{value!r}: expected a number and one of s, m, h, d (for example 6h)", param, ctx)


@click.command(epilog="Example: warmgraph journal --since 1h --json")
@click.option("--since", type=_Since(), help="Only events younger than this: 90s, 15m, 6h, 2d.")
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="Read this folder of journal files instead.")
@json_option
def journal(since: float | None, folder: Path | None, as_json: bool) -> int:
    """Every hit, miss, bypass and failure that was journaled here, oldest first."""
    for event in read_journal(folder or store_root(settings()) / "journal", since):
        if as_json:
            print_json(event)
        else:
            click.echo(plain(_line(event)))
    return 0


def _line(event: dict[str, Any]) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event["time"]))
    place = f"{event['function'] or '-'}:{event['line'] or '-'}"
    spent = sum(event["seconds"].values())
    parts = [when, f"{event['host']}/{event['pid']}", event["outcome"], place, (event["key"] or "-")[:14]]
    parts.append(
        f"{seconds(spent)}" + (f", saved {seconds(event['seconds_saved'])}" if event["outcome"] == "hit" else "")
    )
    if event["tier"]:
        parts.append(f"from {event['tier']}")
    if event["reason"]:
        parts.append(f"{event['reason']}" + (f": {event['detail']}" if event["detail"] else ""))
    return "  ".join(parts)
