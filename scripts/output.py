"""How commands print: numbers for people, JSON for scripts, tables for terminals. Decides no content."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, sort_keys=False, default=str))


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print a table; `columns` are (name, `left` or `right`)."""
    # rich takes 60 ms to import, so only commands that print a table pay for it.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name, side in columns:
        grid.add_column(name, justify="right" if side == "right" else "left", overflow="fold")
    for row in rows:
        # Text, not str: what a store says must not be read as rich's markup.
        grid.add_row(*[Text(plain(str(cell))) for cell in row])
    Console().print(grid)


def plain(text: str) -> str:
    """`text` without control characters, so that a stored name cannot move the terminal's cursor."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def size(count: float) -> str:
    """Bytes for people: `1.2 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def seconds(count: float | None) -> str:
    """A duration for people: `28 ms`, `21.4 s`, `3.1 h`."""
    if count is None:
        return "-"
    if count < 1:
        return f"{count * 1000:.0f} ms"
    if count < 600:
        return f"{count:.1f} s"
    return f"{count / 60:.0f} min" if count < 36_000 else f"{count / 3600:.1f} h"


def ago(then: float | None) -> str:
    """How long since `then` (Unix time)."""
    if then is None:
        return "-"
    past = max(0.0, time.time() - then)
    for limit, divisor, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if past < limit:
            return f"{past / divisor:.0f} {unit} ago"
    return f"{past / 86_400:.0f} days ago"
