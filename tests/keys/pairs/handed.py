"""What one piece of code is handed by another: methods of a class, members of enumerations, dicts in their order."""

from __future__ import annotations

import dataclasses
import enum
import numbers

import torch
from harness import compiled, pair, values

allowed = torch.compiler.allow_in_graph


class Helper:
    """What it does is asked by code that is given it, and not where it is named."""


class Level(enum.Enum):
    A = 1


@dataclasses.dataclass
class Rules:
    level: Level = Level.A
    rule: type = Helper


def method(v):
    return staticmethod((lambda x: x * 2) if v == 1 else (lambda x: x * 3))


@pair()
def a_method_of_what_setup_context_hands_to_backward(v):
    """`setup_context` names the class, `backward` the method."""
    Helper.apply = method(v)

    @torch.library.custom_op("wgpairs::handed", mutates_args=())
    def handed(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    handed.register_fake(torch.empty_like)

    def setup(ctx, inputs, output):
        ctx.helper = Helper

    handed.register_autograd(lambda ctx, g: ctx.helper.apply(g), setup_context=setup)
    x = values().requires_grad_()
    compiled(lambda x: handed(x).sum())(x).backward()
    return x.grad


@pair()
def a_method_of_a_member_that_code_in_a_graph_is_given(v):
    """The graph holds the member, and a function that is not traced."""
    Level.scaled = (lambda self, x: x * 2) if v == 1 else (lambda self, x: x * 3)
    scale = globals()["scale_by_level"] = allowed(scale_by_level)
    return compiled(lambda x: scale(x, Level.A))(values())


def scale_by_level(x, level):
    return level.scaled(x)


@pair()
def the_order_of_keywords_that_code_in_a_graph_is_given(v):
    """It goes over them."""
    apply = globals()["apply_each"] = allowed(apply_each)
    if v == 1:
        return compiled(lambda x: apply(x, times=2.0, plus=3.0))(values())
    return compiled(lambda x: apply(x, plus=3.0, times=2.0))(values())


def apply_each(x, **steps):
    for name, amount in steps.items():
        x = x * amount if name == "times" else x + amount
    return x


TABLE = {"a": "floor"}


@pair()
def the_text_of_a_member_that_makes_itself(v):
    """An operator takes the text, which is neither the member's name nor its value."""
    TABLE["a"] = "floor" if v == 1 else "trunc"

    class Mode(str, enum.Enum):
        def __new__(cls, key):
            made = str.__new__(cls, TABLE[key])
            made._value_ = key
            return made

        A = "a"

    Mode.__qualname__, Mode.__module__ = "Mode", __name__
    globals()["Mode"] = Mode
    return compiled(lambda x: torch.div(x - 3, 0.3, rounding_mode=Mode.A))(values())


@pair(kernels=True)
def the_sign_of_what_is_no_number(v):
    """Inductor computes it where all items are alike."""
    filled = float("nan") if v == 1 else -float("nan")
    return compiled(lambda x: x + torch.signbit(torch.full((len(x),), filled)).float())(values())


@pair()
def a_flag_that_is_made_of_others(v):
    """A member by another name only: Python does not go over it."""
    permissions = {"R": 1, "W": 2, "X": 4, "BOTH": 3 if v == 1 else 5}
    Permission = globals()["Permission"] = enum.Flag("Permission", permissions, module=__name__)
    count = globals()["count_permissions"] = allowed(count_permissions)
    assert Permission.BOTH
    return compiled(lambda x: count(x))(values())


def count_permissions(x):
    return x * Permission.BOTH.value  # noqa: F821


@pair()
def whether_a_class_counts_as_one_of_pythons(v):
    """By registration alone, with an abstract class of Python's."""
    if v == 2:
        numbers.Number.register(Helper)
    count = globals()["count_helper"] = allowed(count_helper)
    return compiled(lambda x: count(x))(values())


def count_helper(x):
    return x * (3 if isinstance(Helper(), numbers.Number) else 2)


@pair()
def where_a_tensor_begins_in_its_storage(v):
    """Its values are the same."""
    held = torch.ones(12)[v : v + 4]
    function = allowed(lambda x: x * held.storage_offset())
    return compiled(lambda x: function(x) + 1)(values())


@pair()
def whether_a_tensor_is_a_leaf(v):
    """The same values, which need gradients."""
    held = torch.ones(4, requires_grad=True)
    held = held if v == 1 else held * 1
    function = allowed(lambda x: x * (2 if held.is_leaf else 3))
    return compiled(lambda x: function(x) + 1)(values())


@pair()
def how_a_tensors_gradient_lies(v):
    """It is there both times."""
    held = torch.ones(2, 2, requires_grad=True)
    held.grad = torch.zeros(2, 2) if v == 1 else torch.zeros(2, 2).t()
    function = allowed(lambda x: x * (2 if held.grad.is_contiguous() else 3))
    return compiled(lambda x: function(x) + 1)(values())
