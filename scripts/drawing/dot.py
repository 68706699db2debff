"""A folded picture as DOT text for Graphviz. Its texts are foreign: they are escaped here, and only here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..output import plain
from .families import FAMILIES
from .folding import Box, Folded
from .model import Edge, Graph, Node, Picture

# Graphviz's own shapes beside `html`, a table of its own. `record` is known to fail on large graphs.
SHAPES = ("html", "record", "box", "ellipse", "plaintext", "none")

_MOST_SYMBOLS = 24
_LONGEST_LINE = 60
_LEGEND_COLUMNS = 4
# Above this many boxes Graphviz is told to take less trouble: its layout is worse than quadratic.
_LARGE = 600
_FRAME = {False: ("#7b68a6", "rounded"), True: ("#b45f06", "rounded,dashed")}


def escaped_html(text: str) -> str:
    r"""For the text of an HTML-like label. What XML cannot hold becomes visible; `\N` is an escape here, too."""
    text = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("\\", "&#92;&#92;")


def quoted(text: str) -> str:
    r"""A quoted DOT string that shows `text` as it is: `\N` and the like are escapes there, and entities are read."""
    text = plain(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def escaped_record(text: str) -> str:
    """For a field of a record label, before `quoted`'s quotes: braces, bars and angle brackets build fields there."""
    text = plain(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return "".join(f"\\{c}" if c in "{}|<> " else c for c in text)


def dot_of(picture: Picture, folded: Folded, shape: str = "html") -> str:
    """The whole digraph."""
    drawing = _Drawing(picture, folded, shape)
    return "\n".join(drawing.lines()) + "\n"


@dataclass(slots=True)
class _Drawing:
    picture: Picture
    folded: Folded
    shape: str
    _ids: dict[tuple[str, int], str] = field(default_factory=dict)  # (graph, node) -> the box that shows it
    _last: dict[str, str] = field(default_factory=dict)  # graph -> its last box, where edges from the graph begin
    _frames: dict[str, str] = field(default_factory=dict)  # graph -> its cluster

    def lines(self) -> Iterator[str]:
        count = sum(len(boxes) for boxes in self.folded.values())
        yield "digraph warmgraph {"
        yield f"  graph [{self._graph_attributes(count)}]"
        yield '  node [fontname="Helvetica", fontsize=11, margin="0.08,0.04"]'
        yield '  edge [fontname="Helvetica", fontsize=8, fontcolor="#666666", color="#888888", arrowsize=0.6]'
        for number, graph in enumerate(self.picture.graphs):
            self._name(number, graph)
        for number, graph in enumerate(self.picture.graphs):
            yield from self._graph(number, graph)
        for graph in self.picture.graphs:
            yield from self._edges(graph)
        yield "}"

    def _graph_attributes(self, count: int) -> str:
        easier = ", nslimit=1, nslimit1=1, mclimit=0.2, splines=line" if count > _LARGE else ""
        label = self._html_title() if self.shape == "html" else quoted_lines(self._title())
        return (
            'charset="UTF-8", compound=true, rankdir=TB, nodesep=0.2, ranksep=0.35, bgcolor="white", labelloc=t, '
            f'fontname="Helvetica", fontsize=11, label={label}{easier}'
        )

    def _title(self) -> list[str]:
        symbols = [f"{short} = {source}" for short, source in self.picture.symbols[:_MOST_SYMBOLS]]
        more = len(self.picture.symbols) - _MOST_SYMBOLS
        return [*self.picture.title, *symbols, *([f"and {more} more symbols"] if more > 0 else [])]

    def _html_title(self) -> str:
        used = {box_family(box) for boxes in self.folded.values() for box in boxes}
        first, *rest = self._title() or [""]
        rows = [f"<TR><TD><B>{escaped_html(first)}</B></TD></TR>"]
        rows += [f'<TR><TD><FONT POINT-SIZE="9">{escaped_html(line)}</FONT></TD></TR>' for line in rest]
        cells = [
            f'<TD BORDER="1" COLOR="#999999" BGCOLOR="{fill}"><FONT POINT-SIZE="9">{said}</FONT></TD>'
            for family, (fill, said) in FAMILIES.items()
            if family in used
        ]
        cells += ["<TD></TD>"] * (-len(cells) % _LEGEND_COLUMNS)
        grid = [cells[start : start + _LEGEND_COLUMNS] for start in range(0, len(cells), _LEGEND_COLUMNS)]
        body = "".join(f"<TR>{''.join(row)}</TR>" for row in grid)
        if body:
            table = f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="2" CELLPADDING="2">{body}</TABLE>'
            rows.append(f"<TR><TD>{table}</TD></TR>")
        return f'<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="1" CELLPADDING="1">{"".join(rows)}</TABLE>>'

    def _name(self, number: int, graph: Graph) -> None:
        """Identifiers are made of our numbers alone."""
        self._frames[graph.name] = f"cluster_{number}"
        for box in self.folded[graph.name]:
            name = self._last[graph.name] = f"g{number}_{box.nodes[0].number}"
            for node in box.nodes:
                self._ids[graph.name, node.number] = name

    def _graph(self, number: int, graph: Graph) -> Iterator[str]:
        framed = bool(graph.name)
        if framed:
            colour, style = _FRAME[graph.hook]
            yield f"  subgraph cluster_{number} {{"
            yield f'    graph [label={quoted(graph.title)}, color="{colour}", fontcolor="{colour}", style="{style}"]'
        for box in self.folded[graph.name]:
            yield f"    {self._ids[graph.name, box.nodes[0].number]} [{self._box(box)}]"
        if framed:
            yield "  }"

    def _box(self, box: Box) -> str:
        fill = FAMILIES[box_family(box)][0]
        tooltip = quoted(_tooltip(box))
        texts = box_lines(box)
        if self.shape == "html":
            return f"shape=plain, tooltip={tooltip}, label={_html(box, texts, fill)}"
        style = f'shape={self.shape}, style="filled", fillcolor="{fill}", color="#888888", tooltip={tooltip}'
        if self.shape == "record":
            fields = "|".join(escaped_record(text) for text in texts)
            return f'{style}, label="{{{fields}}}"'
        return f"{style}, label={quoted_lines(texts)}"

    def _edges(self, graph: Graph) -> Iterator[str]:
        nested = {node.number: node.nested for node in graph.nodes if node.nested is not None}
        drawn: Counter[tuple[str, str, str]] = Counter()
        for box in self.folded[graph.name]:
            for node in box.nodes:
                for edge in node.edges:
                    if (line := self._edge(graph, box, node, edge, nested)) is not None:
                        drawn[line] += 1
        for source, target, attributes in drawn:
            yield f"  {source} -> {target}{attributes}"

    def _edge(
        self, graph: Graph, box: Box, node: Node, edge: Edge, nested: dict[int, str]
    ) -> tuple[str, str, str] | None:
        target = self._ids[graph.name, node.number]
        label = f"headlabel={quoted(edge.position)}" if _matters(box, node, edge) else ""
        if edge.source in nested:  # a graph as an argument: from its frame
            name = nested[edge.source]
            if name not in self._last:
                return None
            style = f'ltail={self._frames[name]}, style=dashed, color="{_FRAME[False][0]}"'
            return self._last[name], target, f" [{style}{', ' + label if label else ''}]"
        source = self._ids.get((graph.name, edge.source))
        if source is None or source == target:  # absorbed, or inside one box
            return None
        return source, target, f" [{label}]" if label else ""


def _matters(box: Box, node: Node, edge: Edge) -> bool:
    """Whether a reader needs the argument's position: where there are several, and they cannot be exchanged."""
    several = len({other.position for other in node.edges}) > 1 or edge.position not in ("0", "0.0")
    return not box.folded and node.ordered and node.family != "output" and several


def box_family(box: Box) -> str:
    return "folded" if box.folded else box.nodes[0].family


def box_lines(box: Box) -> list[str]:
    """What stands in a box: a name first, then what there is to say of it."""
    node = box.nodes[-1]
    if box.folded:
        lines = [box.title, box.contents, node.value]
    else:
        lines = [node.name, node.value, "" if node.family == "output" else node.arguments, ".".join(node.module)]
    return [_short(line) for number, line in enumerate(lines) if line or not number]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else f"{text[: _LONGEST_LINE - 3]}..."


def _tooltip(box: Box) -> str:
    node = box.nodes[0]
    if box.folded:
        return f"%{node.number} to %{box.nodes[-1].number}"
    place = f" ({node.place})" if node.place else ""
    return f"%{node.number} {node.full[:400]}{place}"


def _html(box: Box, texts: Sequence[str], fill: str) -> str:
    first, *rest = texts
    number = f'  <FONT POINT-SIZE="8" COLOR="#777777">%{box.nodes[0].number}</FONT>' if not box.folded else ""
    rows = [f"<TR><TD><B>{escaped_html(first) or ' '}</B>{number}</TD></TR>"]
    for text in rest:
        rows.append(f'<TR><TD><FONT POINT-SIZE="9" COLOR="#444444">{escaped_html(text)}</FONT></TD></TR>')
    look = 'BORDER="2" COLOR="#8c7a3d"' if box.folded else 'BORDER="1" COLOR="#888888"'
    return (
        f'<<TABLE {look} CELLBORDER="0" CELLSPACING="0" CELLPADDING="2" STYLE="ROUNDED" BGCOLOR="{fill}">'
        f"{''.join(rows)}</TABLE>>"
    )


def quoted_lines(texts: Sequence[str]) -> str:
    return '"' + "\\n".join(quoted(text)[1:-1] for text in texts) + '"'
