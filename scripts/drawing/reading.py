"""An entry's texts to a picture: the key's parts and the notes beside them. Total, for both come from a store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..grammar import Value, parse, show, split, symbol_rows
from .families import commutes, family_of
from .model import Edge, Graph, Node, Picture

_NODE = re.compile(r"( *)%(\d{1,9}) (.*)", re.DOTALL)
_NESTED = re.compile(r"( *)graph (\d{1,9}):")
_HOOK = re.compile(r"(\w+) (\[.*\]):")
_EDGE = re.compile(r'"(?:[^"\\]|\\.)*"|%(\d{1,9})')
_INPUT = re.compile(r"([pb]\d+) (.*)", re.DOTALL)
_TENSOR = re.compile(r"(Tensor|Parameter) torch\.(\w+) (\S+) size \[([^\]]*)\]")
_WORD = re.compile(r"[A-Za-z_]\w*")
_SLICE = re.compile(r"<slice (None|-?\d+|%\d+), (None|-?\d+|%\d+), (None|-?\d+|%\d+)>")
_SLOT = re.compile(r"\$u?\d+")
_LONGEST = 120  # characters of arguments that are kept for a label


def picture_of(texts: Mapping[str, str], notes: str, symbols: Mapping[str, str], title: tuple[str, ...]) -> Picture:
    """texts: of the key's parts. notes: the text `nodes`, or empty. symbols: slot -> the name it had in the compile."""
    rows = symbol_rows(texts.get("symbols", ""))
    drawn = {slot: f"s{number}" for number, (slot, _, _) in enumerate(rows)}
    names = {symbols[slot]: short for slot, short in drawn.items() if slot in symbols}
    reader = _Reader(drawn, _inputs(texts.get("inputs", "")), _Notes.read(notes, names))
    graphs = reader.graphs(texts.get("graph", ""), hooks=False)
    graphs += reader.graphs(texts.get("hooks", ""), hooks=True)
    legend = tuple((drawn[slot], "unbacked" if source == slot else source) for slot, source, _ in rows)
    return Picture(title, tuple(graphs), legend)


def _inputs(text: str) -> dict[str, str]:
    """`p3` -> what the part says of it."""
    return {match[1]: match[2] for line in text.splitlines() if (match := _INPUT.fullmatch(line))}


@dataclass(frozen=True, slots=True)
class _Notes:
    """What `backend.node_notes` wrote, as far as it is what it should be."""

    rows: Mapping[str, list[Any]] = field(default_factory=dict)
    modules: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str, names: Mapping[str, str]) -> _Notes:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return cls()
        if not isinstance(found, dict):
            return cls()
        graphs = found.get("graphs")
        rows = {k: v for k, v in graphs.items() if isinstance(v, list)} if isinstance(graphs, dict) else {}
        return cls(rows, _strings(found.get("modules")), _strings(found.get("places")), names)

    def on(self, graph: str, number: int) -> tuple[str, tuple[str, ...], str, str]:
        """(value, module path, place, name of an input) of a node."""
        rows = self.rows.get(graph, [])
        row = rows[number] if number < len(rows) else None
        if not (isinstance(row, list) and len(row) == 4 and isinstance(row[0], str) and isinstance(row[3], str)):
            return "", (), "", ""
        value = _WORD.sub(lambda word: self.names.get(word[0], word[0]), row[0])
        module = _item(self.modules, row[1])
        return (
            value,
            tuple(module.split(".")) if module else (),
            _item(self.places, row[2]),
            self.names.get(row[3], row[3]),
        )


def _strings(value: object) -> tuple[str, ...]:
    return tuple(item if isinstance(item, str) else "" for item in value) if isinstance(value, list) else ()


def _item(texts: tuple[str, ...], index: object) -> str:
    return texts[index] if type(index) is int and 0 <= index < len(texts) else ""


@dataclass(slots=True)
class _Open:
    """A graph that is being read. depth: how far its nodes are indented."""

    name: str
    title: str
    depth: int
    hook: bool
    nodes: list[Node] = field(default_factory=list)


def _title(graph: _Open, graphs: list[_Open]) -> str:
    """With the nodes that stand for it, which are not drawn themselves."""
    nodes = [f"%{node.number}" for one in graphs for node in one.nodes if node.nested == graph.name]
    return f"{graph.title} ({', '.join(nodes[:8])})" if nodes else graph.title


@dataclass(slots=True)
class _Reader:
    """slots: slot -> how it is drawn. inputs: what the part `inputs` says of each."""

    slots: Mapping[str, str]
    inputs: Mapping[str, str]
    notes: _Notes

    def graphs(self, text: str, *, hooks: bool) -> list[Graph]:
        """The graphs of a part, each before those nested in it."""
        found: list[_Open] = [] if hooks else [_Open("", "", 0, False)]
        stack = list(found)
        for line in text.splitlines():
            if hooks and (headline := _HOOK.fullmatch(line)):
                stack = [_Open(f"{headline[1]} hook", f"{headline[1]} hook of saved tensors", 0, True)]
                found.append(stack[0])
            elif (opened := _NESTED.fullmatch(line)) and stack:
                name = f"{stack[0].name} {opened[2]}".strip()
                stack.append(_Open(name, f"graph {opened[2]}", len(opened[1]) + 2, hooks))
                found.append(stack[-1])
            elif node := _NODE.fullmatch(line):
                while len(stack) > 1 and stack[-1].depth > len(node[1]):
                    stack.pop()
                if stack:
                    stack[-1].nodes.append(self._node(stack, len(stack[-1].nodes), node[3]))
        return [Graph(one.name, _title(one, found), tuple(one.nodes), one.hook) for one in found]

    def _node(self, stack: list[_Open], number: int, text: str) -> Node:
        graph = stack[-1]
        value, module, place, called = ("", (), "", "") if graph.hook else self.notes.on(graph.name, number)
        full = self._symbols(text)
        kind, *rest = split(full, " ")
        if rest[-2:-1] == ["custom"]:  # an annotation, behind whatever the node is
            del rest[-2:]
        at: dict[str, Any] = {"number": number, "full": show(full), "value": value, "module": module, "place": place}
        if kind == "placeholder":
            return self._placeholder(at, called, graph.name == "", " ".join(rest))
        if kind == "output":
            return Node(name="output", family="output", edges=_edges(" ".join(rest), number), **at)
        if kind == "attribute" and len(rest) <= 2:
            return self._attribute(at, called, stack[0].name, " ".join(rest))
        return _call(at, kind, rest)

    def _placeholder(self, at: dict[str, Any], called: str, top: bool, rest: str) -> Node:
        told = self.inputs.get(f"p{at['number']}", "") if top else ""
        at["full"] = f"{at['full']} {show(self._symbols(told))}".strip()
        at["value"] = at["value"] or self._value(told)
        family = "parameter" if told.startswith("Parameter") or " static " in told else "input"
        return Node(name=called or family, family=family, arguments=show(rest), **at)

    def _attribute(self, at: dict[str, Any], called: str, root: str, rest: str) -> Node:
        kind, _, which = rest.partition(" ")
        if kind == "graph":
            return Node(name=rest, family="higher-order", nested=f"{root} {which}".strip(), **at)
        if kind == "lifted":
            told = self.inputs.get(which, "")
            return Node(name=called or "parameter", family="parameter", **{**at, "value": self._value(told)})
        size = re.match(r"<constant torch\.(\w+) (\S+) size (\[[^\]]*\])", rest)
        at["value"] = at["value"] or (f"{size[1]}{size[3]}" if size else "")
        return Node(name=called or "constant", family="constant", **at)

    def _value(self, told: str) -> str:
        """Of an input, from the part `inputs`."""
        tensor = _TENSOR.search(told)
        if tensor is not None:
            device = "" if tensor[3] == "cpu" else f" {tensor[3]}"
            return f"{tensor[2]}[{self._symbols(tensor[4])}]{device}"
        kind, _, rest = told.partition(" ")
        return show(self._symbols(rest))[:_LONGEST] if kind.startswith(("Sym", "constant")) else ""

    def _symbols(self, text: str) -> str:
        return _SLOT.sub(lambda slot: self.slots.get(slot[0], slot[0]), text) if "$" in text else text


def _call(at: dict[str, Any], kind: str, rest: list[str]) -> Node:
    if kind == "wrapped":  # `wrapped [module, name] hash args kwargs`
        called = parse(rest[0]).items if rest else ()
        rest = [show(called[-1].text) if called else "wrapped", *rest[2:]]
    name, arguments, named_ones, *_ = [*rest, "", "", ""]
    edges = (*_edges(arguments, at["number"]), *_edges(named_ones, at["number"]))
    family = family_of(kind, name)
    if at["value"] and "[" not in at["value"] and family in ("pointwise", "view", "reduction", "other"):
        family = "size"
    return Node(
        name=_short(kind, name),
        family=family,
        edges=edges,
        arguments=_told(arguments, named_ones),
        ordered=not commutes(name),
        **at,
    )


def _short(kind: str, name: str) -> str:
    if "::" in name:
        namespace, _, rest = name.partition("::")
        rest = rest.removeprefix(f"{namespace}.").removesuffix(".default")
        return rest if namespace in ("aten", "higher_order", "prims") else f"{namespace}::{rest}"
    return name.rpartition(".")[2] or name or kind


def _told(arguments: str, named_ones: str) -> str:
    """The arguments for people, or nothing when edges alone say them all."""
    positional = [item.text for item in parse(arguments).items] if arguments.startswith("(") else [arguments]
    pairs = parse(named_ones)
    found = [*positional, *(f"{show(key)}={item.text}" for key, item in zip(pairs.keys, pairs.items, strict=False))]
    if all(re.fullmatch(r"%\d+", text) for text in found):
        return ""
    text = _SLICE.sub(_sliced, show(", ".join(found)))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _sliced(match: re.Match[str]) -> str:
    """`<slice None, 1, None>` as it is written in Python: `:1`."""
    start, stop, step = ("" if bound == "None" else bound for bound in match.groups())
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


def _edges(text: str, number: int) -> tuple[Edge, ...]:
    """From which earlier nodes `text` takes values, and at which position."""
    tree = parse(text)
    if tree.kind != "(":
        return tuple(Edge(source, position) for source, position in _sources(tree, "") if source < number)
    found = [pair for place, item in enumerate(tree.items) for pair in _sources(item, str(place))]
    return tuple(Edge(source, position) for source, position in found if source < number)


def _sources(tree: Value, position: str) -> Iterator[tuple[int, str]]:
    if not tree.items:
        for match in _EDGE.finditer(tree.text):
            if match[1]:
                yield int(match[1]), position
    for place, item in enumerate(tree.items):
        step = show(tree.keys[place]) if tree.keys else str(place)
        yield from _sources(item, f"{position}.{step}" if position else step)
