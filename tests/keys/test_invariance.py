"""What changes nothing: names, orders, which object it is. Not hosts, paths, processes: `test_processes.py`."""

from __future__ import annotations

import pytest
import torch

from .cases import CONSTANTS, Case, Wrapper, changed, everything, of_inputs


def renamed(case: Case) -> Case:
    """Every node, placeholder, attribute and nested graph under another name."""
    for number, node in enumerate(case.gm.graph.nodes):
        if node.op == "get_attr" and node.target != "lifted":
            setattr(case.gm, f"moved_{number}", getattr(case.gm, node.target))
            node.target = f"moved_{number}"
        if node.op == "placeholder":
            node.target = f"other_{number}"
        node.name = f"node_{number}"
    for name in ("inner", "outer"):
        for node in getattr(case.gm, name, case.gm).graph.nodes:
            node.name = f"inside_{node.name}"
    return case


def reordered(case: Case) -> Case:
    """Keywords, dictionaries and sets built in the other order."""
    constants = case.node("constants")
    values = dict(zip(CONSTANTS, constants.args[1], strict=True))
    values |= {"dictionary": {"b": 2, "a": 1}, "frozen set": frozenset(reversed(range(1, 3)))}
    constants.args = (constants.args[0], tuple(values.values()))
    case.node("relu").meta["custom"] = dict(reversed(case.node("relu").meta["custom"].items()))
    return case


def with_lists_of_its_own(case: Case) -> Case:
    """What nodes carry beside their meaning: stack traces, modules' names, sources."""
    for node in case.gm.graph.nodes:
        node.meta.update(stack_trace="File elsewhere.py, line 7", nn_module_stack={"a": ("b", "c")}, source_fn_stack=[])
    return case


def lifted_under_another_name(case: Case) -> Case:
    del case.gm.lifted
    case.gm.register_buffer("somewhere", torch.ones(4))
    case.node("lifted").target = "somewhere"
    return case


@pytest.mark.parametrize("change", [renamed, reordered, with_lists_of_its_own, lifted_under_another_name])
def test_what_a_graph_is_called_and_how_it_was_built_do_not_matter(change):
    """Names of nodes, placeholders, attributes and nested graphs; the order of keywords, dictionaries and sets."""
    assert changed(everything().key(), change(everything()).key()) == set()


def asserting(message: str) -> Case:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["example_value"] = torch.ones(3)
    graph.call_function(torch.ops.aten._assert_scalar.default, (True, message))
    graph.output((x,))
    return Case(torch.fx.GraphModule(torch.nn.Module(), graph), [torch.ones(3)])


def test_the_symbols_name_in_an_assertion_does_not_matter():
    """Dynamo writes the text of a runtime assertion with names of symbols and nodes in it; a user's own text counts."""
    told = "Runtime assertion failed for expression s{} > 2 on node '{}'"
    assert changed(asserting(told.format(77, "gt")).key(), asserting(told.format(12, "gt_1")).key()) == set()
    assert changed(asserting("mine").key(), asserting("another").key()) == {"graph"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: torch.ones(3), lambda: torch.zeros(3)),
        (lambda: torch.arange(8.0)[:4], lambda: torch.arange(64.0)[:4]),
        (lambda: Wrapper(torch.ones(3)), lambda: Wrapper(torch.zeros(3))),
    ],
    ids=["values", "a storage that nobody shares", "values inside a subclass"],
)
def test_what_an_input_holds_does_not_matter(one, other):
    """Nor the size of a storage that only this input can see."""
    assert changed(of_inputs(one()).key(), of_inputs(other()).key()) == set()


def test_a_gradient_and_a_grad_fns_history_do_not_matter():
    """A leaf that has a gradient already, and an input that came from elsewhere."""
    leaf = torch.ones(3, requires_grad=True)
    before = of_inputs(leaf).key()
    (leaf * 2).sum().backward()
    assert changed(before, of_inputs(leaf).key()) == set()
    assert changed(of_inputs(leaf.sin()).key(), of_inputs(leaf * 3).key()) == set()
