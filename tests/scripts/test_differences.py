"""Differences in words: values, lists, inputs, symbols and graphs, down to the line; and texts that are not ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warmgraph.scripts.explain.differences import differences
from warmgraph.scripts.explain.suspects import kind_of, suspects
from warmgraph.scripts.grammar import parse, show, split


def told(part: str, before: str, after: str, symbols: tuple[str, str] = ("", "")) -> list[str]:
    """The lines about one part."""
    old, new = {part: before, "symbols": symbols[0]}, {part: after, "symbols": symbols[1]}
    return [one.text for one in differences(old, new) if one.part == part]


NAMED = [
    ("a: False", "a: True", ["compiler: a False -> True"]),
    ('a: "x"\nb: 1', 'a: "y"\nb: 1', ["compiler: a x -> y"]),
    ("a: f0x1.8000000000000p+1", "a: fnan", ["compiler: a 3.0 -> fnan"]),
    ("a: 1", 'a: "1"', ['compiler: a 1 -> "1"']),
    ('a: "None"', "a: None", ['compiler: a "None" -> None']),
    ("a: <dtype torch.float16>", "a: <device cpu>", ["compiler: a torch.float16 -> cpu"]),
    ("", "a: 1", ["compiler: a absent -> 1"]),
    ("a: 1", "", ["compiler: a 1 -> absent"]),
    ("a: {}", "a.b: 1\na.c: 2", ["compiler: a.b absent -> 1", "compiler: a.c absent -> 2"]),
    ("a.b: 1", "a: {}", ["compiler: a.b 1 -> absent"]),
    ('a: {"k": {"x": 1, "y": 2}}', 'a: {"k": {"x": 1, "y": 3}}', ["compiler: a.k.y 2 -> 3"]),
    ('a: {"k": 1}', 'a: {"m": 1}', ["compiler: a.k 1 -> absent", "compiler: a.m absent -> 1"]),
    ('a: ["p", "q", "r", "s"]', 'a: ["p", "r", "s", "t"]', ["compiler: a +t -q"]),
    ("a: [1, 2, 3, 4, 5]", "a: [1, 2, 9, 4, 5]", ["compiler: a[2] 3 -> 9"]),
    ('a: [{"n": 1}]', 'a: [{"n": 2}]', ["compiler: a[0].n 1 -> 2"]),
    ('"my::op".fake: "' + "a" * 64 + '"', '"my::op".fake: "' + "b" * 64 + '"', [
        "compiler: my::op.fake source aaaaaaaa -> source bbbbbbbb"
    ]),
    ('a: "x: y, [z"\nb: 1', 'a: "x: y, [z"\nb: 2', ["compiler: b 1 -> 2"]),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "expected"), NAMED)
def test_named_values(before: str, after: str, expected: list[str]) -> None:
    """Settings differ by name, dictionaries by their inner name, lists by their items."""
    assert told("compiler", before, after) == expected


def test_long_values_are_cut_where_they_differ() -> None:
    """Of two long texts the place is shown where they part."""
    (line,) = told("compiler", f'a: "{"x" * 500} one {"y" * 500}"', f'a: "{"x" * 500} two {"y" * 500}"')
    assert len(line) < 300
    assert "one" in line
    assert "two" in line


TENSOR = "Tensor torch.float32 cpu size [8, 128] stride [128, 1] offset 0 leaf"
INPUTS = [
    (f"p0 {TENSOR}", f"p0 {TENSOR.replace('[8,', '[16,')}", ["inputs: p0 size [8, 128] -> [16, 128]"]),
    (f"p0 {TENSOR}", f"p0 {TENSOR.replace('cpu', 'cuda:1')}", ["inputs: p0 device cpu -> cuda:1"]),
    (f"p0 {TENSOR}", f"p0 {TENSOR} requires_grad", ["inputs: p0 requires_grad False -> True"]),
    (f"p0 {TENSOR} static \"a\"", f"p0 {TENSOR}", ["inputs: p0 static a -> absent"]),
    (f"p0 {TENSOR} storage 9 bytes", f"p0 {TENSOR} storage 8 bytes", ["inputs: p0 storage 9 -> 8"]),
    (f"p0 {TENSOR}\np1 constant 3", f"p0 {TENSOR}\np1 constant 4", ["inputs: p1 constant 3 -> constant 4"]),
    ("p0 SymInt $1\np1 constant 3", "p0 constant 3", ["inputs: -p0 SymInt L['x'].size()[0]"]),
    ("", f"p0 {TENSOR}", [f"inputs: +p0 {TENSOR}"]),
    ("one storage: [0, 1] x", "", ["inputs: sharing one storage [0, 1] x -> absent"]),
    ("p0 <subclass a.B {inner: 1}>", f"p0 {TENSOR}", [f"inputs: p0 <subclass a.B {{inner: 1}}> -> {TENSOR}"]),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "expected"), INPUTS)
def test_inputs(before: str, after: str, expected: list[str]) -> None:
    """Inputs differ by position and word; slots are shown as the sizes they stand for."""
    names = "$1 \"L['x'].size()[0]\" {}"
    assert told("inputs", before, after, (names, names)) == expected


def test_symbols() -> None:
    """Symbols differ by source and fact, whatever their slots."""
    before = '$7 "L[\'x\'].size()[0]" {"range": [2, 8], "size_like": False}\n$u0 None {"integer": True}'
    after = '$9 "L[\'x\'].size()[0]" {"range": [2, 16], "size_like": False}\n$8 "L[\'y\']" {}'
    lines = [one.text for one in differences({"symbols": before}, {"symbols": after})]
    assert lines == [
        "symbols: L['x'].size()[0].range[1] 8 -> 16",
        "symbols: -$u0 {integer: True}",
        "symbols: +L['y'] {}",
    ]


def graph(*nodes: str) -> str:
    return "\n".join(f"%{number} {node}" for number, node in enumerate(nodes))


GRAPHS = [
    (("placeholder", "relu (%0)", "sin (%1)"), ("placeholder", "relu (%0)", "cos (%1)"), [
        "graph: %2 sin (%1) -> cos (%1)"
    ]),
    # Without alignment each node behind an inserted one would differ.
    (("placeholder", *[f"op{n} (%{n})" for n in range(20)]),
     ("placeholder", "new (%0)", "op0 (%0)", *[f"op{n} (%{n + 1})" for n in range(1, 20)]), [
        "graph: +%1 new (%0)"
    ]),
    (("placeholder", "placeholder", "sub (%0, %1)"), ("placeholder", "placeholder", "sub (%1, %0)"), [
        "graph: %2 sub (%0, %1) -> sub (%1, %0)"
    ]),
    (("placeholder", "a (%0)", "b (%1)", "c (%2)"), ("placeholder", "a (%0)", "c (%1)"), [
        "graph: -%2 b (%1)", "graph: %3 (now %2) c (%2) -> c (%1)"
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "expected"), GRAPHS)
def test_graphs(before: tuple[str, ...], after: tuple[str, ...], expected: list[str]) -> None:
    """Nodes are aligned; then what is left to tell are those that changed, came and went, and edges."""
    assert told("graph", graph(*before), graph(*after)) == expected


def test_nested_graphs_have_numbers_of_their_own() -> None:
    """The same number in another graph is another node."""
    before = "%0 placeholder\ngraph 0:\n  %0 placeholder\n  %1 sin (%0)\n%1 attribute graph 0\n%2 call (%1, %0)"
    assert told("graph", before, before.replace("sin", "cos")) == ["graph: %1 sin (%0) -> cos (%0)"]
    assert told("graph", before, before.replace("%2 call (%1, %0)", "%2 call (%1, %1)")) == [
        "graph: %2 call (%1, %0) -> call (%1, %1)"
    ]


def test_a_large_graph_with_one_change_is_one_line() -> None:
    """Twenty thousand nodes, one of them another."""
    nodes = ["placeholder", *[f"op (%{n})" for n in range(20_000)]]
    changed = [*nodes]
    changed[9_000] = "other (%8999)"
    assert len(told("graph", graph(*nodes), graph(*changed))) == 1


ANYTHING = st.text(st.sampled_from('ab01 ,:%$"\\[](){}<>\n.f0x'), max_size=80)


@given(ANYTHING, ANYTHING)
def test_no_text_is_an_error(before: str, after: str) -> None:
    """Whatever a store says: no exception, and equal texts never differ."""
    for part in ("graph", "inputs", "symbols", "compiler", "hooks", "unheard of"):
        differences({part: before, "symbols": after}, {part: after, "symbols": before})
        assert differences({part: before}, {part: before}) == []
    assert ", ".join(split(before, ", ")) == before
    assert parse(before).text == before
    show(before)
    list(suspects("graph", before, ["host"]))


def test_depth_is_bounded() -> None:
    """A value of a hundred thousand brackets is one value."""
    deep = "[" * 100_000 + "]" * 100_000
    assert told("compiler", f"a: {deep}", f"a: [{deep}]")


# -- what looks as if it changed from run to run


@pytest.mark.parametrize(
    ("line", "kind", "value"),
    [
        ('a: "/home/me/cache/x"', "path", "/home/me/cache/x"),
        ('a: "<object at 0x7f2a4c3b9d00>"', "address", "0x7f2a4c3b9d00"),
        ('a: "run-6f9619ff-8b86-d011-b42d-00cf4fc964ff"', "uuid", "6f9619ff-8b86-d011-b42d-00cf4fc964ff"),
        ('a: "2025-11-20 22:43"', "time", "2025-11-20 22:43"),
        ("%3 builtin _operator.mul (%0, 1763679723) {}", "time", "1763679723"),
        ("%3 builtin _operator.mul (%0, f0x1.a47c3ecd9999ap+30) {}", "time", "1763643315.4"),
        ('a: "node-17.local"', "host", "node-17.local"),
    ],
)
def test_suspects(line: str, kind: str, value: str) -> None:
    """Paths, addresses, identifiers, moments and hosts are seen for what they are."""
    found = list(suspects("graph" if line.startswith("%") else "compiler", line, ["node-17.local"]))
    assert [(one.kind, one.value) for one in found] == [(kind, value)]


@pytest.mark.parametrize(
    "line",
    [
        'torch: "2.13.0+cpu"',
        f'files: "record {"ab" * 32}"',
        "a: f0x1.8000000000000p+1",
        "a: f-0x1.fffffffffffffp+1",
        "p0 Tensor torch.float32 cpu size [1763679723] stride [1] offset 0",
        '$1 "L[\'self\'].size()[0]" {"range": [2, 9223372036854775806]}',
        "%3 builtin _operator.truediv (%0, 4096) {}",
        'a: "a/b"',
    ],
)
def test_what_stays_the_same_is_no_suspect(line: str) -> None:
    """Versions, digests, floats, sizes and sources are what keys are made of."""
    assert list(suspects("inputs" if line[0] in "p$" else "compiler", line, ["node-17"])) == []


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["mul (%0, 41)", "mul (%0, 42)", "mul (%0, 43)"], "process"),
        (["mul (%0, 3)", "mul (%0, 4)", "mul (%0, 7)"], "counter"),
        (["mul (%0, 7)", "mul (%0, 3)", "mul (%0, 9)"], "changing"),
        (["on a-1", "on b-2", "on c-3"], "host"),
        (["1763679723.5", "1763679724.5", "1763679725.5"], "time"),
        (["/tmp/run/a", "/tmp/run/b", "/tmp/run/c"], "path"),
        (["mul (%0, 0)", "mul (%0, 1)", "mul (%0, 2)"], "rank"),
    ],
)
def test_what_changes_is_told_apart(values: list[str], kind: str) -> None:
    """By what each run had: its process, host and rank; else by how it looks."""
    assert kind_of(values, [41, 42, 43], ["a-1", "b-2", "c-3"], [0, 1, 2]) == kind
