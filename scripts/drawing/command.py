"""The pictures of `warmgraph show`: an entry's graph as DOT, SVG or text, to stdout or a file. Draws by `drawing`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from warmgraph.cache import Entry

from ..output import talk
from ..writing import write_result
from . import SHAPES, CannotRender, dot_of, fold, listing_of, picture_of, svg_of

FORMS = ("dot", "svg", "text")
_PATIENCE = 1000  # boxes that Graphviz needs seconds for


@dataclass(frozen=True, slots=True)
class Wanted:
    """What picture was asked for, by options of the command line. form: one of FORMS, or None for no picture."""

    form: str | None
    shape: str | None
    depth: int | None
    full: bool
    output: Path | None


def picture_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `show` that ask for a picture, in the order of the help."""
    place = click.Path(path_type=Path, dir_okay=False)
    for option in reversed(
        [
            click.option("--dot", "form", flag_value="dot", help="Print the graph as Graphviz's DOT."),
            click.option("--svg", "form", flag_value="svg", help="Print the graph as SVG; needs Graphviz."),
            click.option("--text", "form", flag_value="text", help="Print the graph as a list of nodes."),
            click.option("--shape", type=click.Choice(SHAPES), help="Of a node in --dot and --svg; html if not given."),
            click.option("--depth", type=click.IntRange(min=0), help="Fold each module whose path has so many names."),
            click.option("--full", is_flag=True, help="Fold nothing, however large the graph."),
            click.option("-o", "--output", type=place, help="Write the picture to this file."),
        ]
    ):
        command = option(command)
    return command


def wanted_picture(form: str | None, shape: str | None, depth: int | None, full: bool, output: Path | None) -> Wanted:
    """Raises UsageError for options that contradict each other."""
    if form is None and (shape or depth is not None or full or output):
        raise click.UsageError("--shape, --depth, --full and --output belong to a picture: --dot, --svg or --text")
    if form == "text" and shape:
        raise click.UsageError("--shape belongs to --dot and --svg")
    if full and depth is not None:
        raise click.UsageError("--full folds nothing; --depth says how much to fold")
    return Wanted(form, shape, depth, full, output)


def draw(entry: Entry, parts: dict[str, str], notes: str, wanted: Wanted) -> int:
    """Print or write the picture of `entry`. parts, notes: its texts. Returns the exit status."""
    picture = picture_of(parts, notes, entry.symbols, _title(entry))
    # A list is read from above, and may be long; only what is looked at as a whole is folded unasked.
    full = wanted.full or (wanted.form == "text" and wanted.depth is None)
    folded = fold(picture, wanted.depth, full=full)
    if wanted.form == "text":
        return _out(listing_of(picture, folded).encode(), wanted.output)
    dot = dot_of(picture, folded, wanted.shape or "html")
    shown = sum(len(boxes) for boxes in folded.values())
    if any(box.folded for boxes in folded.values() for box in boxes):
        talk(f"{picture.nodes} nodes in {shown} boxes. TIP: --depth N folds more or less, --full nothing")
    if wanted.form == "svg" and shown > _PATIENCE:
        talk(f"Graphviz lays out {shown} boxes, which may take minutes")
    try:
        return _out(svg_of(dot) if wanted.form == "svg" else dot.encode(), wanted.output)
    except CannotRender as error:
        raise click.ClickException(f"{entry.key[:14]} is not drawn: {error}") from error


def _title(entry: Entry) -> tuple[str, ...]:
    facts = entry.facts
    place = f"{facts.get('file') or '-'}:{facts.get('line') or '-'}"
    return f"{facts.get('function') or 'a graph'} ({place})", f"{entry.key[:20]}, {facts.get('nodes') or '-'} nodes"


def _out(data: bytes, output: Path | None) -> int:
    if output is None:
        click.echo(data.decode(errors="replace"), nl=False)
        return 0
    write_result(output, data)
    return 0
