"""`warmgraph audit`: what the cache did and why not more, as tables, JSON or a page. Counts nothing itself."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from warmgraph.cache import ConfigError, parse_namespace

from ..journal import moment
from ..output import NumberRange, epilog, json_option, percent, plain, print_json, table, talk
from ..writing import write_result

if TYPE_CHECKING:  # what counts is imported when it is needed: no other command pays for it
    from .document import Document, Filters
    from .sources import Events

_ROWS = 15
_F = TypeVar("_F", bound=Callable[..., Any])


def _namespaces(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(parse_namespace("--namespace", value) for value in values)
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def filtering(command: _F) -> _F:
    """The options that say which events count. Those that are given several times let each of these pass."""
    for option in reversed(
        (
            click.option("--fleet", is_flag=True, help="The whole fleet's journal, from the server at WARMGRAPH_URL."),
            click.option("--since", metavar="AGE", callback=moment, help="Only events younger than this: 90s, 6h, 2d."),
            click.option("--until", metavar="AGE", callback=moment, help="Only events older than this."),
            click.option("--host", "hosts", metavar="H", multiple=True, help="Only of this host (several allowed)."),
            click.option("--rank", "ranks", metavar="N", type=int, multiple=True, help="Only of this rank."),
            click.option("--function", "functions", metavar="F", multiple=True, help="Only of this function."),
            click.option("--namespace", "namespaces", metavar="NS", multiple=True, callback=_namespaces,
                         help="This namespace's journal, not that of WARMGRAPH_NAMESPACE."),
            click.option("--job", "jobs", metavar="J", multiple=True, help="Only of this job (WARMGRAPH_JOB)."),
            click.option("--dir", "folder", type=click.Path(path_type=Path),
                         help="Read this folder of journal files instead."),
        )
    ):  # fmt: skip
        command = option(command)
    return command


def chosen(options: dict[str, Any]) -> tuple[Events, Filters]:
    """The events and filters that these options (of `filtering`) name. Raises UsageError, ConfigError."""
    from .document import Filters
    from .sources import open_events

    if options["fleet"] and options["folder"] is not None:
        raise click.UsageError("--fleet reads the server, --dir a folder: give one of them")
    since, namespaces = options["since"], options["namespaces"]
    filters = Filters(
        since, options["until"], options["hosts"], options["ranks"], options["functions"], namespaces, options["jobs"]
    )
    folder = options["folder"]
    return open_events(fleet=options["fleet"], namespaces=namespaces, folder=folder, since=since), filters


@click.command(
    epilog=epilog(
        "warmgraph audit --fleet --since 1d --fail-under 0.95",
        "the hit rate is under --fail-under, or the journal or store cannot be read",
    )
)
@filtering
@json_option
@click.option(
    "--fail-under",
    metavar="RATE",
    type=NumberRange(0, 1),
    help="Exit status 1 for a lower hit rate (0 to 1; failures count as misses), and for any wrong hit.",
)
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write a page of it to this file.")
def audit(as_json: bool, fail_under: float | None, html: Path | None, **options: Any) -> int:
    """What hit, what missed and why, what to change.

    Over this host's journal, which goes back 30 days; with --fleet over that of all hosts, which holds the last 100,000
    events. The hit rate is hits / (hits + misses); what was bypassed is listed with what to do about it.
    """
    from .counting import audit_events
    from .sources import stored_entries

    events, filters = chosen(options)
    of_ours = options["folder"] is None
    store = stored_entries(fleet=options["fleet"], namespaces=options["namespaces"]) if of_ours else None
    with _rarely_collected():
        document = audit_events(events, filters, source=events.source, store=store)
    if html is not None:
        _write_page(document, html)
    if as_json:
        print_json(document.as_json())
    elif document.source.events:
        _print(document)
    else:
        talk(f"no such events in {document.source.name}")
    if document.source.skipped:
        talk(f"{document.source.skipped} lines in {document.source.name} are not events and were left out")
    return _verdict(document, fail_under)


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Counting makes no cycles, and looking for some takes a tenth of its time."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _print(document: Document) -> None:
    from .printing import sections
    from .wording import headline

    click.echo(plain(headline(document)))
    for section in sections(document, _ROWS):
        click.echo(f"\n{plain(section.title)}" if section.title else "")
        table(section.columns, section.rows)
        if section.more:
            click.echo(f"... and {section.more:,} more, see --json")


def _verdict(document: Document, fail_under: float | None) -> int:
    """0, or 1 and why on stderr. What failed was not served from the cache either, and a wrong hit passes no check."""
    from .wording import count, summary_lines, wrong_hits

    if fail_under is None:
        return 0
    totals = document.totals
    looked = totals.hits + totals.misses + totals.failed
    rate = totals.hits / looked if looked else None
    if rate is not None and rate >= fail_under and not wrong_hits(document):
        return 0
    if rate is None:
        talk(f"no lookups, so no hit rate of {100 * fail_under:g} %")
    elif rate < fail_under:
        failed = f", {count(totals.failed, 'failure')} counted as misses" if totals.failed else ""
        talk(f"the hit rate is {percent(rate)}, under {100 * fail_under:g} %{failed}")
    for line in summary_lines(document)[rate is not None and rate < fail_under :]:
        talk(line)
    return 1


def _write_page(document: Document, path: Path) -> None:
    from ..page import render

    write_result(path, render(document.as_json()).encode())
