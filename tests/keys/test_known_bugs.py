"""What torch's keys were found to forget (its issues), and more of the kind: ours tell it apart, or say why not.

Each case (`known_operators.py`, `known_graphs.py`) makes the same graph from two versions of something that no node of
the graph names. The real Dynamo traces it; nothing is compiled. Cases that are compiled, and give wrong results when
they are confused, are in `tests/backend/test_wrong_hits.py`.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import linecache
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from warmgraph.hashing import KeyContext, Uncacheable, key_of

# torch's advice to authors of subclasses, given while it takes its own key.
pytestmark = pytest.mark.filterwarnings("ignore:.*_stable_hash_for_caching")

HERE = Path(__file__).parent
_SPEC = importlib.util.spec_from_file_location("warmgraph_tests_known", HERE / "known.py")
known = sys.modules.setdefault("warmgraph_tests_known", importlib.util.module_from_spec(_SPEC))
if not hasattr(known, "Cases"):
    _SPEC.loader.exec_module(known)
operators, bodies = known.load("known_operators"), known.load("known_graphs")
trace, X = known.trace, known.X
DIFFERS = {**operators.CASES.differing, **bodies.CASES.differing}
REFUSED = {**operators.CASES.refused, **bodies.CASES.refused}


# --- custom passes --------------------------------------------------------------------------------------


class Pass(torch._inductor.custom_graph_pass.CustomGraphPass):
    def __init__(self, identity):
        self.identity = identity

    def __call__(self, graph):
        pass

    def uuid(self):
        return self.identity


class Partition(torch._inductor.custom_graph_pass.CustomPartitionerFn):
    def __init__(self, identity):
        self.identity = identity

    def __call__(self, *args, **kwargs):
        raise NotImplementedError

    def uuid(self):
        return self.identity


PASSES = (
    "post_grad_custom_pre_pass",
    "post_grad_custom_post_pass",
    "joint_custom_pre_pass",
    "joint_custom_post_pass",
    "pre_grad_custom_pass",
    "custom_partitioner_fn",
)


@pytest.mark.parametrize("name", PASSES)
def test_a_custom_pass_is_told_apart_by_its_uuid_and_refused_without(name):
    """Changed, absent, in a list; and one that is only a function, as Inductor still takes some."""
    kind = Partition if name == "custom_partitioner_fn" else Pass

    def key(value):
        (graph,) = trace(lambda x: x + 1, X, settings={name: value}).graphs
        return graph

    keys = [key(None), key(kind("1")), key(kind("2"))]
    if name.startswith("post_grad"):
        keys.append(key([kind("1"), kind("2")]))
    assert len({graph.id for graph in keys} - {None}) == len(keys)
    assert key(kind("1")).id == keys[1].id
    for bad in (kind(None), lambda graph: None):
        assert key(bad).ours is None
        assert name in key(bad).why


@pytest.mark.parametrize("name", ["_pre_fusion_custom_pass", "_post_fusion_custom_pass"])
def test_a_hook_into_the_scheduler_is_refused(name):
    """Their types have no uuid; torch takes them by their name or not at all."""
    (graph,) = trace(lambda x: x + 1, X, settings={name: lambda nodes: nodes}).graphs
    assert graph.ours is None
    assert name in graph.why


# --- the claims -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DIFFERS)
def test_two_versions_have_two_keys_and_one_version_has_one(name):
    """Each graph of the one against each of the other; made twice, nothing of the process is in the key."""
    case = DIFFERS[name]
    first, again, second = case(1), case(1), case(2)
    assert None not in first.ids + second.ids, [graph.why for graph in first.graphs]
    assert first.ids == again.ids
    assert first.ids != second.ids


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_told_apart_is_refused_with_its_reason(name):
    """In words that say what stands in the way."""
    case, words = REFUSED[name]
    for version in (1, 2):
        (graph,) = case(version).graphs
        assert graph.ours is None
        for word in words:
            assert word in graph.why


@pytest.mark.parametrize("name", ["the_schemas_default_of_an_operator", "the_dtype_that_an_operator_is_autocast_to"])
def test_torchs_own_key_does_not_tell_these_apart(name):
    """Otherwise this file would guard against bugs that are not there; a torch that has learned is welcome."""
    (first,), (second,) = DIFFERS[name](1).graphs, DIFFERS[name](2).graphs
    assert first.theirs == second.theirs is not None


# --- what stands among the arguments of a node ----------------------------------------------------------


def key_with(argument):
    """The graph part of a graph that passes `argument` to an operator."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["example_value"] = torch.ones(2)
    graph.output((graph.call_function(torch.ops.aten.mul.Tensor, (x, 2)),))
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    (node,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    node.args = (node.args[0], argument)  # the module's Python text stays as it was: not everything has one
    return key_of(gm, [torch.ones(2)], KeyContext(compiler={})).texts()["graph"]


def module(text):
    """A real module with a source, under one name whatever its text."""
    name = "warmgraph_tests_edited"
    made = types.ModuleType(name)
    made.__file__ = f"/made/{next(COUNT)}.py"
    linecache.cache[made.__file__] = (len(text), None, text.splitlines(keepends=True), made.__file__)
    sys.modules[name] = made
    exec(compile(text, made.__file__, "exec"), vars(made))
    return made


COUNT = iter(range(10**6))


@pytest.mark.parametrize(
    "text",
    [
        "import enum\nclass C(enum.Enum):\n    A = {v}\nvalue = C.A\n",
        "import enum\nclass C(enum.IntEnum):\n    A = {v}\nvalue = C.A\n",
        "class C:\n    def f(self):\n        return {v}\nvalue = C\n",
    ],
    ids=["a member of an enumeration", "a number with a name", "a class"],
)
def test_an_argument_with_a_name_is_more_than_its_name(text):
    """Edited under the same name, it means something else."""
    one, again, two = (key_with(module(text.format(v=v)).value) for v in (1, 1, 2))
    assert one == again
    assert one != two


def test_an_object_among_the_arguments_is_refused():
    """Values of opaque types, functions, whatever Dynamo may come to put there."""
    for thing in (bodies.Opaque(1), lambda x: x, functools.partial(print), object()):
        with pytest.raises(Uncacheable, match="mul"):
            key_with(thing)


def test_an_object_among_the_inputs_is_refused():
    """Opaque types by reference, generators, script objects: none is described by what it may do."""
    graph = torch.fx.Graph()
    graph.output((graph.placeholder("thing"),))
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    for thing in (bodies.Opaque(1), torch.Generator(), object()):
        with pytest.raises(Uncacheable, match="input 0"):
            key_of(gm, [thing], KeyContext(compiler={}))


def test_a_nested_graph_is_refused_for_annotations_that_nobody_has_read():
    """Higher-order operators take functions from there (`local_map_kwargs`, `nested_region_config`)."""

    def graph_of(body):
        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        x.meta["example_value"] = torch.ones(2)
        graph.output((graph.call_function(torch.ops.higher_order.invoke_subgraph, (graph.get_attr("body"), "a", x)),))
        return torch.fx.GraphModule({"body": body}, graph)

    body = torch.fx.symbolic_trace(lambda x: x.sin())
    key_of(graph_of(body), [torch.ones(2)], KeyContext(compiler={}))
    body.meta["local_map_kwargs"] = {"device_mesh": None}
    with pytest.raises(Uncacheable, match="local_map_kwargs"):
        key_of(graph_of(body), [torch.ones(2)], KeyContext(compiler={}))


# --- keys that change without cause (pytorch#193418 set order, #173526 storage pointers; HOME) ------------

PROGRAM = """
import json, os, sys
sys.path.insert(0, {here!r})
import known_graphs, known_operators, warnings
warnings.simplefilter("ignore")
cases = {{**known_graphs.CASES.differing, **known_operators.CASES.differing}}
found = {{name: cases[name](1).ids for name in {names!r}}}
found["a set in a subclass"] = known_graphs.two(frozenset(["b", "a", "d", "c", 7])).ids
print(json.dumps(found))
"""

SEEDED = [
    "the_tags_of_an_operator",
    "a_helper_that_the_fake_of_an_operator_calls",
    "the_rule_by_which_an_operator_is_dispatched",
    "what_a_subclass_remembers",
    "a_partial_policy_with_a_hash",
    "whether_two_unbacked_sizes_are_one",
    "the_body_of_a_compile_region",
]


@pytest.mark.exhaustive
def test_seed_home_and_addresses_are_in_no_key(tmp_path):
    """Of graphs with users' code in them: sets, closures, subclasses, policies."""
    found = []
    for seed, home in (("0", "/nonexistent"), ("7", str(tmp_path))):
        environment = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": seed, "HOME": home}
        process = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(here=str(HERE), names=SEEDED)],
            env={**environment, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, process.stderr[-3000:]
        found.append(json.loads(process.stdout.splitlines()[-1]))
    assert len(found[0]) == len(SEEDED) + 1
    assert None not in [key for ids in found[0].values() for key in ids]
    assert found[0] == found[1]
