"""A folded picture as lines of text, for terminals and diffs. Every line is free of control characters."""

from __future__ import annotations

from collections.abc import Iterator

from ..output import plain
from .folding import Box, Folded
from .model import Graph, Picture


def listing_of(picture: Picture, folded: Folded) -> str:
    """Title, symbols, then each graph with one line per box."""
    return "".join(f"{plain(line.expandtabs())}\n" for line in _lines(picture, folded))


def _lines(picture: Picture, folded: Folded) -> Iterator[str]:
    yield from picture.title
    yield from (f"{short} = {source}" for short, source in picture.symbols)
    for graph in picture.graphs:
        yield ""
        if graph.name:
            yield f"{graph.title}:"
        yield from _graph(graph, folded[graph.name])


def _graph(graph: Graph, boxes: list[Box]) -> Iterator[str]:
    rows = [_row(box) for box in boxes]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    widths = [min(width, limit) for width, limit in zip(widths, (14, 32, 40), strict=True)]
    module: tuple[str, ...] | None = None
    for box, row in zip(boxes, rows, strict=True):
        last = box.nodes[-1]
        if not box.folded and last.module != module and (last.module or module):
            module = last.module
            yield f"  -- {'.'.join(module) or 'outside of modules'}"
        cells = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False))
        yield f"  {cells}  {row[3]}".rstrip()


def _row(box: Box) -> tuple[str, str, str, str]:
    """Number, name, value, and what else there is to say."""
    first, last = box.nodes[0], box.nodes[-1]
    if box.folded:
        return f"%{first.number}-%{last.number}", box.title, last.value, box.contents
    sources = ", ".join(f"%{edge.source}" for edge in first.edges)
    said = first.arguments or (f"({sources})" if sources else "")
    place = f"# {first.place}" if first.place else ""
    return f"%{first.number}", first.name, first.value, "  ".join(filter(None, (said, place)))
