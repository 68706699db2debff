"""Functions that Dynamo does not trace, and AOTAutograd does (`torch._dynamo.nonstrict_trace`)."""

from __future__ import annotations

import types

import torch
from harness import compiled, pair, values
from torch.utils import _pytree as pytree

RATE = 2.0


class Both:
    """Two tensors, and a number that is not a leaf."""

    def __init__(self, left, right, rate):
        self.left, self.right, self.rate = left, right, rate


def apart(both):
    return [both.left, both.right], both.rate


def together(children, rate):
    return Both(*children, rate)


def scaled(children, rate):
    return Both(children[0] * 3, children[1], rate)


def registered(unflatten=together):
    pytree.register_pytree_node(Both, apart, unflatten, serialized_type_name="wgpairs.Both")


def helped(x):
    return helper(x) * RATE


def helper(x):
    return x + 1


def difference(both):
    return both.left * both.rate - both.right


def named(x, by=1.0):
    return {"first": x * by, "second": x}


def run(function, *inputs):
    """The result of a function that is not traced, with its gradient."""
    called = globals()["called"] = torch._dynamo.nonstrict_trace(function)
    x = values().requires_grad_()
    out = compiled(lambda *given: called(*given))(*(inputs or (x,)))
    out.sum().backward() if out.requires_grad else None
    return [out.detach(), x.grad if x.grad is not None else 0]


@pair()
def a_global_of_what_is_not_traced_strictly(v):
    globals()["RATE"] = v + 1.0
    return run(helped)


@pair()
def a_helper_of_what_is_not_traced_strictly(v):
    globals()["helper"] = (lambda x: x + 2) if v == 1 else (lambda x: x + 3)
    return run(helped)


@pair()
def a_number_in_a_container_of_the_users(v):
    """It stands in the structure, and not among the inputs."""
    registered()
    return run(difference, Both(values(), values() + 1, v + 1.0))


@pair()
def how_a_container_of_the_users_is_put_together(v):
    registered(together if v == 1 else scaled)
    return run(difference, Both(values(), values() + 1, 2.0))


@pair()
def how_a_class_of_pythons_is_put_together(v):
    """The program registered it, so its class alone says nothing of that."""

    def make(children, context):
        return types.SimpleNamespace(left=children[0], right=children[1], rate=3.0 * v)

    pytree.register_pytree_node(types.SimpleNamespace, lambda held: ([held.left, held.right], None), make)
    return run(difference, types.SimpleNamespace(left=values(), right=values() + 1, rate=1.0))


@pair()
def a_default_of_what_is_not_traced_strictly(v):
    named.__defaults__ = (v + 1.0,)
    called = globals()["called"] = torch._dynamo.nonstrict_trace(named)
    return compiled(lambda x: called(x)["first"])(values())


@pair()
def which_of_two_that_are_not_traced_strictly(v):
    globals()["helper"] = (lambda x: x * 5) if v == 1 else (lambda x: x * 7)
    once = globals()["once"] = torch._dynamo.nonstrict_trace(helper)
    again = globals()["again"] = torch._dynamo.nonstrict_trace(helped)
    return compiled((lambda x: once(x) - again(x)) if v == 1 else (lambda x: again(x) - once(x)))(values())
