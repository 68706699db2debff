"""`warmgraph top`: the audit, refreshed in the terminal as events come. Counts nothing itself."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click
from warmgraph.cache import StoreUnavailable

from ..output import NumberRange, epilog, plain, talk
from .command import chosen, filtering

if TYPE_CHECKING:
    from .counting import Auditor
    from .document import Document
    from .sources import Events

_ROWS = 5


@click.command(epilog=epilog("warmgraph top --fleet --since 1h", "the journal cannot be read"))
@filtering
@click.option(
    "--interval", metavar="SECONDS", type=NumberRange(0.2, 3600), default=2.0, show_default=True,
    help="How often to look for new events.",
)  # fmt: skip
def top(interval: float, **options: Any) -> int:
    """The audit, live, until Ctrl-C.

    Where stdout is no terminal, one line per interval.
    """
    from .counting import Auditor

    events, filters = chosen(options)
    auditor = Auditor(filters, source=events.source)
    _read_on(auditor, events)  # the first time an error ends it: later it may pass
    if sys.stdout.isatty():
        return _live(auditor, events, interval)
    while True:
        click.echo(_line(auditor.document(skipped=events.skipped)))
        time.sleep(interval)
        if (trouble := _try_on(auditor, events)) is not None:
            talk(trouble)


def _read_on(auditor: Auditor, events: Events) -> None:
    for event in events:
        auditor.add(event)


def _try_on(auditor: Auditor, events: Events) -> str | None:
    """What has come since; why it could not be read, if it could not. The next time may be better."""
    try:
        _read_on(auditor, events)
    except StoreUnavailable as error:
        return str(error)
    return None


def _line(document: Document) -> str:
    from .wording import headline

    return plain(f"{time.strftime('%H:%M:%S')}  {document.source.events:,} events  {headline(document)}")


def _live(auditor: Auditor, events: Events, interval: float) -> int:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        trouble = None
        while True:
            live.update(_screen(auditor.document(skipped=events.skipped), trouble), refresh=True)
            time.sleep(interval)
            trouble = _try_on(auditor, events)


def _screen(document: Document, trouble: str | None) -> Any:
    """What `audit` prints, with fewer rows. Texts, not markup: what an event says is shown as it is written."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from .printing import sections

    parts: list[Any] = [Text(_line(document), style="bold")]
    if trouble is not None:
        parts.append(Text(plain(trouble), style="yellow"))
    for section in sections(document, _ROWS):
        grid = Table(box=None, pad_edge=False, show_header=bool(section.title), header_style="dim")
        for name, side in section.columns:
            right = side == "right"
            grid.add_column(name, justify="right" if right else "left", overflow="ellipsis", no_wrap=True, ratio=None)
        for row in section.rows:
            grid.add_row(*[Text(plain(str(cell))) for cell in row])
        parts += [Text(""), *([Text(plain(section.title), style="bold")] if section.title else []), grid]
    return Group(*parts)
