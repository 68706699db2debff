"""Which nodes of a picture share a box, so that a graph of thousands can be looked at. Draws nothing.

A box is one node, or a run of nodes that follow each other in the graph and come from one module. Only runs: then every
edge between boxes goes forward, as those between nodes do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from .model import Graph, Node, Picture

# Of a picture whose depth was not asked for: more cannot be looked at, fewer show nothing.
MOST_BOXES, FEWEST_BOXES = 120, 12
_SOURCES = ("input", "parameter", "constant")


@dataclass(frozen=True, slots=True)
class Box:
    """nodes: one, or several that are folded. title: of several. inside: how many parameters only they use."""

    nodes: tuple[Node, ...]
    title: str = ""
    inside: int = 0

    @property
    def folded(self) -> bool:
        return len(self.nodes) > 1

    @property
    def contents(self) -> str:
        """`12 nodes: 8 pointwise, 4 matmul; 3 parameters`, for people."""
        counts = Counter(node.family for node in self.nodes)
        kinds = [f"{count} {family}" for family, count in counts.most_common(3)]
        parameters = f"; {self.inside} parameter{'s' * (self.inside > 1)}" if self.inside else ""
        return f"{len(self.nodes)} nodes: {', '.join(kinds)}{parameters}"


Folded = dict[str, list[Box]]  # by the graph's name


def fold(picture: Picture, depth: int | None, *, full: bool = False) -> Folded:
    """The boxes of each graph: none folded if `full`, by `depth` names of a module's path, or as few as can be read."""
    if full:
        return _at(picture, None)
    if depth is not None:
        return _at(picture, depth)
    deepest = max((len(node.module) for graph in picture.graphs for node in graph.nodes), default=0)
    finer = _at(picture, None)
    if _count(finer) <= MOST_BOXES:
        return finer
    for level in range(deepest, 0, -1):
        folded = _at(picture, level)
        if _count(folded) <= MOST_BOXES:
            # Five hundred layers are one box at one depth and five hundred at the next: neither shows anything.
            return folded if _count(folded) >= FEWEST_BOXES else _merged(finer)
        finer = folded
    return _merged(finer)


def _merged(folded: Folded) -> Folded:
    """No more than about MOST_BOXES, each graph its share."""
    share = MOST_BOXES / _count(folded)
    return {name: _absorbed(_runs(boxes, max(1, int(len(boxes) * share)))) for name, boxes in folded.items()}


def _count(folded: Folded) -> int:
    return sum(len(boxes) for boxes in folded.values())


def _at(picture: Picture, depth: int | None) -> Folded:
    return {graph.name: _boxes(graph, depth) for graph in picture.graphs}


def _boxes(graph: Graph, depth: int | None) -> list[Box]:
    """Nodes that stand for a nested graph have no box: the graph itself is drawn."""
    nodes = [node for node in graph.nodes if node.nested is None]
    if depth is None:
        return [Box((node,)) for node in nodes]

    def module(node: Node) -> tuple[str, ...] | None:
        inside = node.family not in (*_SOURCES, "output") and len(node.module) >= depth
        return node.module[:depth] if inside else None

    found: list[Box] = []
    for path, run in groupby(nodes, module):
        members = tuple(run)
        if path is None or len(members) == 1:
            found += [Box((node,)) for node in members]
        else:
            found.append(Box(members, ".".join(path) or "all"))
    return _absorbed(found)


def _absorbed(boxes: Sequence[Box]) -> list[Box]:
    """Parameters and constants that one folded box alone uses become part of it."""
    users: dict[int, set[int]] = {}
    for place, box in enumerate(boxes):
        for node in box.nodes:
            for edge in node.edges:
                users.setdefault(edge.source, set()).add(place)
    inside: Counter[int] = Counter()
    gone = set()
    for place, box in enumerate(boxes):
        node = box.nodes[0]
        if box.folded or node.family not in ("parameter", "constant"):
            continue
        using = users.get(node.number, set())
        if len(using) == 1 and boxes[user := next(iter(using))].folded:
            inside[user] += 1
            gone.add(place)
    return [
        Box(box.nodes, box.title, box.inside + inside[place]) for place, box in enumerate(boxes) if place not in gone
    ]


def _runs(boxes: Sequence[Box], most: int) -> list[Box]:
    """At most about `most` boxes, by merging neighbours; inputs with inputs, and what is computed with its like."""

    def kind(box: Box) -> str:
        family = box.nodes[0].family
        return family if family in (*_SOURCES, "output") else "computed"

    size = -(-len(boxes) // most)
    found: list[Box] = []
    for _, group in groupby(boxes, kind):
        for piece in _pieces(list(group), size):
            nodes = tuple(node for box in piece for node in box.nodes)
            found.append(Box(nodes, _title(piece), sum(box.inside for box in piece)) if len(nodes) > 1 else piece[0])
    return found


def _pieces(boxes: Sequence[Box], size: int) -> Iterator[Sequence[Box]]:
    for start in range(0, len(boxes), size):
        yield boxes[start : start + size]


def _title(boxes: Sequence[Box]) -> str:
    """What a run of boxes has in common: modules, else a function, else only that its nodes follow each other."""
    nodes = [node for box in boxes for node in box.nodes]
    titles = list(dict.fromkeys(box.title or ".".join(box.nodes[0].module) for box in boxes))
    functions = {node.place.rpartition(" in ")[2] for node in nodes}
    span = f"%{nodes[0].number} to %{nodes[-1].number}"
    if all(titles):
        return titles[0] if len(titles) == 1 else f"{titles[0]} to {titles[-1]}"
    return f"{functions.pop()}, {span}" if len(functions) == 1 and "" not in functions else span
