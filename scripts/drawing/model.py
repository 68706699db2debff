"""A graph to be drawn: nodes, edges, the graphs nested in it and its hooks. Values only; read by `reading`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edge:
    """source: the number of a node of the same graph. position: of the argument, such as `1`, `0.2` or `dim`."""

    source: int
    position: str


@dataclass(frozen=True, slots=True)
class Node:
    """One node. number: its place in its graph. name: what it calls, or which input it is.

    full: the line that was hashed. arguments: as text, when they say more than the edges do. value: its shape and type,
    or empty. module: the path of the module that it comes from. place: the user's line. calls: numbers of the nested
    graphs that it stands for.
    """

    number: int
    name: str
    full: str
    family: str
    edges: tuple[Edge, ...] = ()
    arguments: str = ""
    value: str = ""
    module: tuple[str, ...] = ()
    place: str = ""
    nested: str | None = None
    ordered: bool = True  # whether the positions of its arguments matter


@dataclass(frozen=True, slots=True)
class Graph:
    """name: empty for the main one, else unique in the picture. title: for people. hook: of saved tensors."""

    name: str
    title: str
    nodes: tuple[Node, ...]
    hook: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """All that belongs to one entry. title: its lines. symbols: (as drawn, what it stands for)."""

    title: tuple[str, ...]
    graphs: tuple[Graph, ...]
    symbols: tuple[tuple[str, str], ...] = ()

    @property
    def nodes(self) -> int:
        return sum(len(graph.nodes) for graph in self.graphs)
