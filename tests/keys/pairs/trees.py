"""Classes that torch's trees take apart as a user told them to, in code that a graph reaches."""

from __future__ import annotations

import dataclasses
import types

import torch
from harness import gradient_of_backward, pair


def scaled_by(read):
    """The gradient through an operator whose backward multiplies by `read()`."""
    return gradient_of_backward(lambda ctx, g: g * read())


class Pack:
    def __init__(self, first, second):
        self.first, self.second = first, second


@pair()
def how_a_class_is_flattened(v):
    """What are the leaves of a user's class is said to torch once, and kept there."""
    flatten = (lambda one: ([2], None)) if v == 1 else (lambda one: ([3], None))
    torch.utils._pytree.register_pytree_node(Pack, flatten, lambda leaves, context: Pack(*leaves, 0))
    return scaled_by(lambda: sum(torch.utils._pytree.tree_leaves(Pack(5, 7))))


@dataclasses.dataclass
class Row:
    """In a list that a backward finds; `Row` is nowhere named in it."""

    first: int
    second: int


ROWS = [Row(5, 7)]


@pair()
def how_a_class_in_a_list_is_flattened(v):
    """Code is led to the class by a value."""
    flatten = (lambda row: ([row.first], None)) if v == 1 else (lambda row: ([row.second], None))
    torch.utils._pytree.register_pytree_node(Row, flatten, lambda leaves, context: Row(*leaves, 0))
    return scaled_by(lambda: sum(torch.utils._pytree.tree_leaves(ROWS)))


@pair()
def whether_a_class_is_flattened(v):
    """Torch's own function takes it apart, or it is a leaf."""
    if v == 1:
        torch.utils._pytree.register_dataclass(Row)
    return scaled_by(lambda: len(torch.utils._pytree.tree_leaves(ROWS)))


SPACES = [types.SimpleNamespace(scale=5)]


@pair()
def how_a_class_of_the_library_is_flattened(v):
    """No code of the user's stands behind the class."""
    flatten = (lambda space: ([2], None)) if v == 1 else (lambda space: ([3], None))
    torch.utils._pytree.register_pytree_node(types.SimpleNamespace, flatten, lambda leaves, context: SPACES[0])
    return scaled_by(lambda: sum(torch.utils._pytree.tree_leaves(SPACES)))


@pair()
def how_a_class_is_put_together_that_a_text_names(v):
    """A structure that was written down: the class is found by its name."""
    from torch.utils import _pytree

    put = (lambda leaves, context: [2 * leaf for leaf in leaves]) if v == 1 else (lambda leaves, context: [*leaves])
    names = {"serialized_type_name": "pairs.Pack"}
    _pytree.register_pytree_node(Pack, lambda one: ([one.first], None), put, **names)
    text = _pytree.treespec_dumps(_pytree.tree_structure(Pack(1, 1)))
    return scaled_by(lambda: _pytree.tree_unflatten([3], _pytree.treespec_loads(text))[0])
