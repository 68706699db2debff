"""How commands print: numbers for people, JSON for scripts, tables for terminals. Decides no content."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

import click

# A table that goes to a file or a pipe is not folded: one row is one line, for grep and cut.
_UNFOLDED = 10_000


class NumberRange(click.FloatRange):
    """A number within bounds. Click's own lets `nan` pass, which is outside of none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")


def epilog(example: str, wrong: str | None = None) -> str:
    """The end of a command's help. wrong: what exit status 1 means."""
    statuses = ["0  done", f"1  {wrong}", "2  the command line or a setting is wrong"]
    if wrong is None:
        del statuses[1]
    return "\n  ".join(["\b\nExample:", example]) + "\n\n" + "\n  ".join(["\b\nExit status:", *statuses])


def print_json(value: Any) -> None:
    """One line. ASCII, so that no stored text reaches the terminal as anything but text."""
    click.echo(json.dumps(value))


def talk(message: str) -> None:
    """One line on stderr, for people."""
    click.echo(plain(message), err=True)


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print a table; `columns` are (name, `left` or `right`). Without names there is no header."""
    # rich takes 60 ms to import, so only commands that print a table pay for it.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    named = any(name for name, _ in columns)
    grid = Table(box=None, pad_edge=False, show_header=named, header_style="bold")
    for name, side in columns:
        right = side == "right"
        grid.add_column(name, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for row in rows:
        # Text, not str: what a store says must not be read as rich's markup.
        grid.add_row(*[Text(plain(str(cell))) for cell in row])
    console = Console(width=None if sys.stdout.isatty() else _UNFOLDED)
    with console.capture() as captured:  # rich would end the process itself when the reader is gone
        console.print(grid)
    if title is not None:
        click.echo(plain(title) + "\n")
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


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


def percent(share: float) -> str:
    """One decimal, and 100 % only when it is all: 99.96 % is 99.9 %."""
    return "100 %" if share == 1 else f"{int(share * 1000) / 10:.1f} %"


def clock(moment: float | None) -> str:
    """A Unix time as this host's calendar has it."""
    try:
        return "-" if moment is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
    except (OverflowError, ValueError, OSError):  # a number, but no time that this machine can name
        return "-"


def ago(then: float | None) -> str:
    """How long since `then` (Unix time)."""
    if then is None:
        return "-"
    past = max(0.0, time.time() - then)
    for limit, divisor, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if past < limit:
            return f"{past / divisor:.0f} {unit} ago"
    return f"{past / 86_400:.0f} days ago"
