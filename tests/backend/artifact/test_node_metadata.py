"""The notes on a graph's nodes: module paths and names as people write them, whatever Dynamo calls things."""

import json

import pytest
import torch
from torch.fx import Graph, GraphModule
from warmgraph.backend.artifact.node_metadata import input_name, module_path, node_notes


@pytest.mark.parametrize(
    ("told", "path"),
    [
        ("L['self'].layers.0.attention", "layers.0.attention"),
        ("L['self']._modules['layers']._modules['0']", "layers.0"),
        ("L['model'].layers[3].norm", "model.layers.3.norm"),
        ("G['net']", "net"),
        ("L['self']", ""),
        ("", ""),
    ],
)
def test_a_module_is_known_by_the_path_that_leads_to_it(told, path):
    """`self` is nothing that sets one module apart from another."""
    node = Graph().placeholder("x")
    node.meta["nn_module_stack"] = {"1": ("L['self']", object), "2": (told, object)}
    assert module_path(node) == path


def test_a_node_outside_of_modules_has_no_path():
    """Neither without a stack nor with an empty one."""
    node = Graph().placeholder("x")
    assert module_path(node) == ""
    node.meta["nn_module_stack"] = {}
    assert module_path(node) == ""


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("L_self_modules_lin_parameters_weight_", "weight"),
        ("l_self_modules_norm_buffers_running_mean_", "running_mean"),
        ("l_self_modules_drop_p", "drop_p"),
        *(("L_x_", "x"), ("s77", "s77"), ("lin.weight", "weight"), ("_", "_"), ("", "")),
    ],
)
def test_an_input_is_called_as_the_code_calls_it(target, name):
    """Dynamo's names are made of the way to it."""
    assert input_name(target) == name


def test_nested_graphs_are_numbered_as_the_key_numbers_them():
    """When they are first met, and once however often they are used."""
    inner = Graph()
    inner.output(inner.placeholder("a"))
    root = torch.nn.Module()
    root.first, root.second = GraphModule({}, inner), GraphModule({}, inner)
    outer = Graph()
    names = ("second", "first", "second")
    outer.output(tuple(outer.get_attr(name) for name in names))
    notes = json.loads(node_notes(GraphModule(root, outer)))
    assert list(notes["graphs"]) == ["", "0", "1"]
    assert [row[3] for row in notes["graphs"][""]] == [*names, ""]
