"""`show --dot`, `--svg` and `--text`: what is drawn of a graph, of a very large one, and of hostile texts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warmgraph.scripts import drawing
from warmgraph.scripts.output import plain

pydot = pytest.importorskip("pydot")
# pydot calls pyparsing by its older names.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pydot.*")
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="apt-get install graphviz")

# As `hashing` writes them. %3 is a nested graph; %6 takes %0 second.
GRAPH = """\
%0 placeholder
%1 placeholder
%2 placeholder
graph 0:
  %0 placeholder
  %1 method sin (%0,) {}
  %2 output ((%1,),)
%3 attribute graph 0
%4 hop higher_order::wrap (%3, %0) {"use_reentrant": False}
%5 builtin torch._C._nn.linear (%4, %1) {}
%6 builtin _operator.sub (%5, %0) {}
%7 builtin _operator.add (%6, %5) {}
%8 python torch.functional.einsum ("ij->i", %7) {"out": %2}
%9 output ((%8,),)"""
INPUTS = """\
p0 Tensor torch.float32 cpu size [$12, 8] stride [8, 1] offset 0 leaf
p1 Parameter torch.float32 cuda:0 size [8, 8] stride [8, 1] offset 0 requires_grad leaf static "unguarded"
p2 constant 7"""
SYMBOLS = """$12 "L['x'].size()[0]" {"integer": True}"""
HOOKS = """\
pack [None, [0]]:
%0 placeholder
%1 method to (%0, <dtype torch.int8>) {}
%2 output (%1,)
unpack [None, [0]]:
%0 placeholder
%1 output (%0,)"""
TEXTS = {"graph": GRAPH, "inputs": INPUTS, "symbols": SYMBOLS, "hooks": HOOKS}


def notes(rows: list[list[Any]], modules: tuple[str, ...] = (), places: tuple[str, ...] = (), **nested: Any) -> str:
    return json.dumps({"version": 1, "modules": modules, "places": places, "graphs": {"": rows, **nested}})


NOTES = notes(
    [
        ["float32[s77, 8]", -1, 0, "x"],
        ["float32[8, 8] cuda:0", 0, 0, "weight"],
        ["", -1, -1, ""],
        ["", -1, -1, ""],
        ["float32[s77, 8]", -1, 0, ""],
        ["float32[s77, 8]", 0, 0, ""],
        *[["float32[s77, 8]", 1, 1, ""]] * 3,
        ["", -1, -1, ""],
    ],
    ("layers.0.lin", "layers.0"),
    ("m.py:3 in forward", "m.py:4 in forward"),
)


@pytest.fixture
def key(publish: Any) -> str:
    """An entry with the texts above."""
    return str(publish(texts=msgpack.packb(TEXTS), graphs=msgpack.packb({"forward": "def f", "nodes": NOTES})))


def picture(texts: dict[str, str], told: str = "", symbols: dict[str, str] | None = None) -> drawing.Picture:
    return drawing.picture_of(texts, told, symbols or {}, ("title",))


def chain(length: int, layers: int = 0, per_layer: int = 10) -> tuple[dict[str, str], str]:
    """A graph of so many nodes, one after the other, in modules `layers.N.part` if there are to be layers."""
    lines, rows, modules = ["%0 placeholder"], [["float32[4]", -1, -1, "x"]], []
    for number in range(1, length):
        lines.append(f"%{number} builtin _operator.sub (%{number - 1}, %{max(0, number - 5)}) {{}}")
        module = f"layers.{number // per_layer % layers}.part{number % 2}" if layers else ""
        if module:
            modules.append(module)
        rows.append(["float32[4]", len(modules) - 1 if module else -1, 0, ""])
    return {"graph": "\n".join(lines)}, notes(rows, tuple(modules), ("m.py:1 in forward",))


def labels(dot: str) -> dict[str, list[str]]:
    """Identifier -> the texts of each box, read by pydot."""
    (graph,) = pydot.graph_from_dot_data(dot)
    found = {}
    for part in (graph, *graph.get_subgraphs()):
        for node in part.get_nodes():
            if node.get_name() not in ("node", "graph", "edge"):
                body = ElementTree.fromstring(node.get("label")[1:-1])
                found[node.get_name()] = ["".join(cell.itertext()) for cell in body.iter("TD")]
    return found


# -- what is drawn


def test_a_box_says_what_a_node_calls_its_shape_its_constants_and_its_module(run: Any, key: str) -> None:
    """Inputs have the names of the code, symbols short ones that the title explains."""
    found = labels(run("show", key, "--dot").out)
    assert found["g0_0"] == ["x  %0", "float32[s77, 8]"]
    assert found["g0_1"] == ["weight  %1", "float32[8, 8] cuda:0", "layers.0.lin"]
    assert found["g0_5"] == ["linear  %5", "float32[s77, 8]", "layers.0.lin"]
    assert found["g0_8"] == ["einsum  %8", "float32[s77, 8]", '"ij->i", %7, out=%2', "layers.0"]
    assert "g0_3" not in found  # the nested graph itself is drawn
    assert found["g1_1"][0] == "sin  %1"


def test_symbols_are_drawn_by_what_this_compile_called_them(run: Any) -> None:
    """The notes name a symbol as its process did; the entry says which slot that is."""
    drawn = picture(TEXTS, NOTES, {"$12": "s77"})
    assert drawn.symbols == (("s0", "L['x'].size()[0]"),)
    assert drawn.graphs[0].nodes[6].value == "float32[s0, 8]"
    without = picture(TEXTS)
    assert [node.value for node in without.graphs[0].nodes[:3]] == ["float32[s0, 8]", "float32[8, 8] cuda:0", "7"]


def test_kinds_of_operations_have_colours_of_their_own() -> None:
    """Placeholders, parameters, families of calls, higher-order operators, outputs."""
    families = [node.family for node in picture(TEXTS, NOTES).graphs[0].nodes]
    assert families == [
        *("input", "parameter", "input", "higher-order", "higher-order", "matmul", "pointwise", "pointwise"),
        *("matmul", "output"),
    ]
    lines = {
        "op aten::aten.add_.Tensor (%0,) {}": "pointwise",
        "op _c10d_functional::_c10d_functional.all_reduce.default (%0,) {}": "collective",
        "op mine::mine.f.default (%0,) {}": "other",
        "method sum (%0,) {}": "reduction",
        "attribute torch.Tensor.T (%0,) {}": "view",
        "python torch.nn.functional.dropout (%0, f0x1.0000000000000p-1) {}": "random",
        'wrapped ["m", "scale"] "v1" (%0, 3) {}': "other",
        "builtin _operator.getitem (%0, (..., <slice None, -1, None>, <slice %0, None, 2>)) {}": "view",
    }
    text = "\n".join(["%0 placeholder", *(f"%{number} {line}" for number, line in enumerate(lines, 1))])
    nodes = picture({"graph": text}).graphs[0].nodes
    assert [node.family for node in nodes[1:]] == list(lines.values())
    assert [node.name for node in nodes[1:]] == [
        *("add_.Tensor", "_c10d_functional::all_reduce", "mine::f", "sum", "T", "dropout", "scale", "getitem")
    ]
    assert [node.arguments for node in nodes[6:]] == ["%0, 0.5", "%0, 3", "%0, (..., :-1, %0::2)"]


def test_an_edge_says_its_position_where_it_matters(run: Any, key: str) -> None:
    """`sub` and a keyword do, `add` does not; a nested graph reaches its operator from its frame."""
    (graph,) = pydot.graph_from_dot_data(run("show", key, "--dot").out)
    edges = {(edge.get_source(), edge.get_destination(), edge.get("headlabel")) for edge in graph.get_edges()}
    assert {("g0_5", "g0_6", '"0"'), ("g0_0", "g0_6", '"1"'), ("g0_2", "g0_8", '"out"')} <= edges
    assert {("g0_6", "g0_7", None), ("g0_5", "g0_7", None)} <= edges
    (dashed,) = [edge for edge in graph.get_edges() if edge.get("style") == "dashed"]
    assert (dashed.get("ltail"), dashed.get_destination()) == ("cluster_1", "g0_4")


def test_hooks_and_nested_graphs_are_framed(run: Any, key: str) -> None:
    """One frame each, with a title."""
    (graph,) = pydot.graph_from_dot_data(run("show", key, "--dot").out)
    titles = [frame.get_graph_defaults()[0]["label"] for frame in graph.get_subgraphs()]
    assert titles == ['"graph 0 (%3)"', '"pack hook of saved tensors"', '"unpack hook of saved tensors"']


def test_text_lists_every_node(run: Any, key: str) -> None:
    """By graph, with shapes, arguments and the user's lines; a module is said once for its nodes."""
    lines = run("show", key, "--text").out.splitlines()
    assert lines[0] == "forward (/src/model.py:7)"
    assert "s0 = L['x'].size()[0]" in lines
    (sub,) = [line for line in lines if "sub" in line]
    assert sub.split() == ["%6", "sub", "float32[s77,", "8]", "(%5,", "%0)", "#", "m.py:4", "in", "forward"]
    assert lines.count("  -- layers.0") == 1
    assert {"graph 0 (%3):", "pack hook of saved tensors:"} <= set(lines)


def test_the_notes_are_not_printed_as_a_graph(run: Any, key: str) -> None:
    """`--graph` prints what people read."""
    assert run("show", key, "--graph", "--json").json["entries"][0]["graphs"] == {"forward": "def f"}


REAL = """
import torch, torch.nn as nn, json, warmgraph
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint
torch._inductor.config.fallback_by_default = True
torch._functorch.config.saved_tensors_hooks_filtering_mode = "all"

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)
    def forward(self, x):
        return x + torch.tanh(self.lin(x))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])
    def forward(self, x):
        x = self.layers[0](x)
        return checkpoint(self.layers[1], x, use_reentrant=False).sum()

pack = torch.fx.symbolic_trace(lambda x: x.to(torch.float16))
unpack = torch.fx.symbolic_trace(lambda x: x.to(torch.float32))
with saved_tensors_hooks(pack, unpack):
    torch.compile(Net(), backend="warmgraph", dynamic=True)(torch.randn(4, 8))
print(json.dumps(warmgraph.stats()["misses"]))
"""


@pytest.mark.exhaustive
def test_a_real_entry_is_drawn_with_the_shapes_and_modules_of_its_compile(
    run: Any, run_in: Any, tmp_path: Path
) -> None:
    """A module that is compiled with warmgraph: symbols, parameters by name, checkpointed graph, hooks."""
    program = tmp_path / "program.py"
    program.write_text(REAL)
    assert run_in(tmp_path, program) == 1
    (entry,) = run("ls", "--json").json["entries"]
    listed = run("show", entry["key"], "--text").out
    top, nested, *hooks = re.split(r"\n\n", listed)[1:]
    assert re.search(r"^s0 = L\['x'\]\.size\(\)\[0\]$", listed, re.MULTILINE)
    assert re.search(r"%\d+ +weight +float32\[8, 8\] ", top)
    assert re.search(r"%\d+ +linear +float32\[s0, 8\] +\(%\d+, %\d+, %\d+\)  # program.py:\d+ in forward", top)
    assert "-- layers.0.lin" in top
    assert re.search(r"tag_activation_checkpoint", top)
    assert nested.startswith("graph 0 (%")
    assert "-- layers.1.lin" in nested
    assert [hook.partition("\n")[0] for hook in hooks] == [
        *("pack hook of saved tensors:", "unpack hook of saved tensors:")
    ]
    assert labels(run("show", entry["key"], "--dot").out)


# -- large graphs


@given(st.integers(1, 400), st.integers(0, 30), st.integers(1, 40), st.none() | st.integers(0, 4), st.booleans())
@settings(max_examples=60, deadline=None)
def test_folding_loses_no_node_and_keeps_the_order(
    length: int, layers: int, per_layer: int, depth: int | None, full: bool
) -> None:
    """Each node is in one box, in graph order, and no edge goes backwards; without options there are few boxes."""
    drawn = picture(*chain(length, layers, per_layer))
    (boxes,) = drawing.fold(drawn, depth, full=full).values()
    assert [node.number for box in boxes for node in box.nodes] == list(range(length))
    home = {node.number: place for place, box in enumerate(boxes) for node in box.nodes}
    for node in drawn.graphs[0].nodes:
        assert all(home[edge.source] <= home[node.number] for edge in node.edges)
    if full:
        assert len(boxes) == length
    elif depth is None:
        assert len(boxes) <= drawing.MOST_BOXES + 4
        assert len(boxes) >= min(length, 12)


def test_depth_folds_by_module() -> None:
    """At depth 2 a layer is a box, which has taken in the parameters that it alone uses."""
    lines = ["%0 placeholder", "%1 placeholder", "%2 placeholder"]
    lines += [f"%{n} builtin torch._C._nn.linear (%{n - 1 if n > 3 else 0}, %{1 + n // 6}) {{}}" for n in range(3, 9)]
    rows = [["", -1, -1, "x"], ["", 0, -1, "w0"], ["", 1, -1, "w1"]]
    rows += [["float32[4]", n // 6, 0, ""] for n in range(3, 9)]
    inputs = "p0 Tensor x\np1 Parameter x\np2 Parameter x"
    told = notes(rows, ("layers.0.lin", "layers.1.lin"), ("m.py:1 in forward",))
    drawn = picture({"graph": "\n".join(lines), "inputs": inputs}, told)
    (boxes,) = drawing.fold(drawn, 2).values()
    assert [(box.title, len(box.nodes), box.inside) for box in boxes] == [
        ("", 1, 0),
        ("layers.0", 3, 1),
        ("layers.1", 3, 1),
    ]
    assert boxes[1].contents == "3 nodes: 3 matmul; 1 parameter"


@needs_dot
@pytest.mark.parametrize("layers", [0, 500])
def test_a_graph_of_5000_nodes_renders(run: Any, publish: Any, tmp_path: Path, layers: int) -> None:
    """Folded unasked, with a word on how; by modules where it has any, else by runs of nodes."""
    texts, told = chain(5000, layers)
    key = publish(texts=msgpack.packb(texts), graphs=msgpack.packb({"nodes": told}))
    ran = run("show", key, "--svg", "-o", tmp_path / "graph.svg")
    assert ran.status == 0
    assert "5000 nodes in" in ran.err
    assert "--depth" in ran.err
    said = "".join(ElementTree.parse(tmp_path / "graph.svg").getroot().itertext())
    assert ("layers.0" in said) is bool(layers)
    assert len(run("show", key, "--text").out.splitlines()) > 5000


# -- hostile texts

HOSTILE = [
    '"];evil [label="',
    "</TD></TR></TABLE>> evil",
    "<script>alert(1)</script>",
    "&lt;b&gt; &#0; &bogus;",
    '\\N \\G \\l \\" \\',
    "{a|b}<port> [x]",
    "\x1b[31m\x00\x08\ufffe\ud800",
    "}} // comment /* # preprocessor",
    "日本語 ∑ \u202e",
]
names = st.text(max_size=12) | st.sampled_from(HOSTILE)


@given(st.lists(names, min_size=9, max_size=9), st.sampled_from(drawing.SHAPES))
@settings(max_examples=60, deadline=None)
def test_no_text_of_an_entry_ends_its_quotes(texts: list[str], shape: str) -> None:
    """Whatever names, constants, modules, places and symbols say, the DOT has the same boxes and edges."""
    call, constant, module, place, value, symbol, title, called, custom = texts
    quoted = json.dumps(constant)
    lines = [
        "%0 placeholder",
        f"%1 op mine::{call} (%0, {quoted}) {{}}",
        f"%2 method f (%1, {quoted}) {{{quoted}: %0}}",
    ]
    lines.append(f"%3 output ((%2,),) custom {json.dumps(custom)}")
    graph = "\n".join("".join(line.splitlines()) for line in lines)
    told = notes([["", -1, -1, called], [value, 0, 0, ""], [value, 0, 0, ""], ["", -1, -1, ""]], (module,), (place,))
    drawn = drawing.picture_of({"graph": graph, "symbols": f"$1 {json.dumps(symbol)} {{}}"}, told, {}, (title, title))
    dot = drawing.dot_of(drawn, drawing.fold(drawn, None, full=True), shape)
    assert all(line == plain(line) for line in dot.splitlines())
    (parsed,) = pydot.graph_from_dot_data(dot)
    boxes = {node.get_name() for node in parsed.get_nodes()} - {"node", "graph", "edge"}
    assert boxes == {f"g0_{number}" for number in range(4)}
    assert {edge.get_source() for edge in parsed.get_edges()} <= boxes
    drawing.listing_of(drawn, drawing.fold(drawn, 1))


@needs_dot
@pytest.mark.parametrize("shape", drawing.SHAPES)
def test_hostile_texts_are_shown_as_they_are(run: Any, publish: Any, shape: str) -> None:
    """Graphviz itself reads them, and the SVG shows each one as text and holds nothing else."""
    lines = ["%0 placeholder"]
    lines += [f"%{number} method m{number} (%0, {json.dumps(text)}) {{}}" for number, text in enumerate(HOSTILE, 1)]
    rows = [["", -1, -1, ""]] + [[text, number, number, ""] for number, text in enumerate(HOSTILE)]
    told = notes(rows, tuple(HOSTILE), tuple(HOSTILE))
    packed = msgpack.packb({"nodes": told}, unicode_errors="surrogatepass")
    key = publish(texts=msgpack.packb({"graph": "\n".join(lines)}), graphs=packed, function=HOSTILE[1])
    ran = run("show", key, "--svg", "--shape", shape)
    assert ran.status == 0
    root = ElementTree.fromstring(ran.out)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {"svg", "g", "title", "polygon", "ellipse", "path", "text", "a", "polyline"}
    said = ["".join(element.itertext()).replace("\N{NO-BREAK SPACE}", " ") for element in root.iter() if element.text]
    for text in HOSTILE:
        assert any(plain(text) == shown.strip() or plain(text) in shown for shown in said), text


@given(st.text(max_size=200), st.text(max_size=60), st.dictionaries(st.sampled_from(["$1", "$2"]), st.text(max_size=5)))
@settings(max_examples=150, deadline=None)
def test_reading_is_total(text: str, other: str, symbols: dict[str, str]) -> None:
    """Any texts make some picture, which every form can show."""
    texts = {"graph": text, "hooks": f"pack [None, []]:\n{other}", "inputs": other, "symbols": other}
    drawn = drawing.picture_of(texts, other, symbols, ())
    for depth in (None, 0, 1):
        folded = drawing.fold(drawn, depth)
        assert drawing.dot_of(drawn, folded).endswith("}\n")
        drawing.listing_of(drawn, folded)


pieces = st.lists(
    st.sampled_from(["%0 ", "%1 ", "  ", "graph 0:", "\n", "placeholder", "attribute graph 0", "output (%0,)"])
    | st.sampled_from(
        ["hop a::b (%0, %9) {}", '"\\"', "(", "{", "%0", "attribute lifted b0", "wrapped x", "attribute"]
    ),
    max_size=40,
)


@given(pieces)
@settings(max_examples=200, deadline=None)
def test_reading_is_total_on_what_nearly_is_a_graph(found: list[str]) -> None:
    """The words of the grammar in any order."""
    drawn = picture({"graph": "".join(found), "hooks": "".join(found)}, NOTES)
    drawing.dot_of(drawn, drawing.fold(drawn, 1))


@pytest.mark.parametrize("told", ["", "nonsense", "7", "[]", "{}", '{"graphs": 7}', '{"graphs": {"": [7, [1], null]}}'])
def test_notes_that_are_none_leave_a_picture_without_shapes(told: str) -> None:
    """They come from a store, and may be anything."""
    assert [node.module for node in picture(TEXTS, told).graphs[0].nodes] == [()] * 10


def test_indices_outside_the_notes_are_nothing() -> None:
    """Neither a negative one, nor one too large, nor a truth value names a module."""
    for index in (-1, -2, 2, 10**30, True, "0", None, 0.0):
        told = notes([["", index, index, ""]], ("a", "b"), ("c", "d"))
        (node,) = picture({"graph": "%0 method f () {}"}, told).graphs[0].nodes
        assert (node.module, node.place) == ((), "")


# -- the command


def test_a_picture_is_written_whole(run: Any, key: str, tmp_path: Path) -> None:
    """`-o` replaces the file, says so on stderr, and leaves no other behind."""
    place = tmp_path / "out" / "graph.dot"
    place.parent.mkdir()
    place.write_text("old")
    ran = run("show", key, "--dot", "-o", place)
    assert (ran.status, ran.out) == (0, "")
    assert str(place) in ran.err
    assert place.read_text().startswith("digraph")
    assert [path.name for path in place.parent.iterdir()] == ["graph.dot"]
    gone = run("show", key, "--dot", "-o", tmp_path / "nowhere" / "graph.dot")
    assert gone.status == 1
    assert "cannot be written" in gone.err


@pytest.mark.parametrize(
    "options",
    [
        *(["--shape", "html"], ["--depth", "1"], ["--full"], ["-o", "x"], ["--text", "--shape", "html"]),
        *(["--dot", "--json"], ["--svg", "--texts"], ["--dot", "--full", "--depth", "1"], ["--dot", "--shape", "star"]),
    ],
)
def test_options_that_contradict_each_other_are_refused(run: Any, key: str, options: list[str]) -> None:
    """With status 2, and nothing on stdout."""
    ran = run("show", key, *options)
    assert (ran.status, ran.out) == (2, "")


def test_svg_without_graphviz_says_what_to_install(run: Any, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status 1, and the package's name; the other forms need nothing."""
    monkeypatch.setenv("PATH", "/nowhere")
    ran = run("show", key, "--svg")
    assert (ran.status, ran.out) == (1, "")
    assert "apt-get install graphviz" in ran.err
    assert run("show", key, "--dot").status == 0


def test_a_renderer_that_fails_or_hangs_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first line is told; a hanging one is ended."""
    program = tmp_path / "dot"
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    fails, hangs = "echo 'Error: flat edge' >&2; exit 1", "exec sleep 60"
    for body, said, seconds in ((fails, "flat edge", 60.0), (hangs, "not done after", 0.5)):
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        with pytest.raises(drawing.CannotRender, match=said):
            drawing.svg_of("digraph { a -> b }", timeout=seconds)


def test_damaged_notes_cost_the_shapes_only(run: Any, publish: Any) -> None:
    """The graph is drawn, and stderr says what is missing; without the graph there is no picture."""
    key = publish(texts=msgpack.packb(TEXTS), graphs=b"\xc1")
    ran = run("show", key, "--text")
    assert ran.status == 0
    assert "without shapes" in ran.err
    assert "linear" in ran.out
    bad = publish(2, texts=b"\xc1")
    assert run("show", bad, "--text").status == 1
    assert run("show", publish(3, texts=msgpack.packb({"inputs": ""})), "--text").status == 1


@needs_dot
def test_records_are_read_by_graphviz(key: str, run: Any) -> None:
    """Without a warning: a bad record is drawn all the same, and wrongly."""
    dot = run("show", key, "--dot", "--shape", "record").out
    done = subprocess.run(["dot", "-Tsvg"], input=dot, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "linear" in done.stdout
