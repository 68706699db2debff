"""What code asks for in ways that are easily overlooked: names put together, places in a class, caches, what hangs on
objects, helpers of torch's own functions, and what passes look at.
"""

from __future__ import annotations

import collections
import copy
import copyreg
import dataclasses
import functools
import os.path

import torch
from harness import compiled, pair, values
from torch._inductor.custom_graph_pass import CustomGraphPass

allowed = torch.compiler.allow_in_graph
KIND = "wide"
HELD = torch.ones(2)
TABLE = torch.tensor([2.0])


class Rules:
    """Asked for its methods by names that stand nowhere."""

    def rule_wide(self, x):
        return x * 2


@dataclasses.dataclass
class Point:
    """`__match_args__` leads to a property."""

    x: float = 1.0
    __match_args__ = ("scaled",)

    @property
    def scaled(self):
        return self.x * 2


def in_graph(function, *inputs):
    """The result of a function that is not traced, and stands in the graph."""
    called = globals()[function.__name__] = allowed(function)
    return compiled(lambda *given: called(*given))(*(inputs or (values(),)))


def operator_with(backward, name):
    """The gradient that this backward gives to an operator."""

    @torch.library.custom_op(f"wgpairs::{name}", mutates_args=())
    def made(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    made.register_fake(torch.empty_like)
    made.register_autograd(backward)
    x = values().requires_grad_()
    compiled(lambda x: made(x).sum())(x).backward()
    return x.grad


def by_percent(x):
    return getattr(Rules(), "rule_%s" % KIND)(x)  # noqa: UP031


def by_join(x):
    name = "_".join(["rule", KIND])
    return getattr(Rules(), name)(x)


def by_table(x):
    name = "_".join(["rule", KIND])
    return Rules.__dict__[name](Rules(), x)


@pair()
def a_method_by_a_name_that_is_formatted(v):
    Rules.rule_wide = (lambda self, x: x * 2) if v == 1 else (lambda self, x: x * 3)
    return in_graph(by_percent)


@pair()
def a_method_by_a_name_that_is_joined(v):
    Rules.rule_wide = (lambda self, x: x * 2) if v == 1 else (lambda self, x: x * 3)
    return in_graph(by_join)


@pair()
def a_method_by_a_variable_in_a_table(v):
    Rules.rule_wide = (lambda self, x: x * 2) if v == 1 else (lambda self, x: x * 3)
    return in_graph(by_table)


def by_place(x):
    match Point():
        case Point(scaled):
            return x * scaled


@pair()
def a_property_by_its_place_in_a_pattern(v):
    Point.scaled = property((lambda self: self.x * 2) if v == 1 else (lambda self: self.x * 3))
    return in_graph(by_place)


def hung_list(x):
    return x * HELD.points[0].x


def hung_table(x):
    return x * HELD.table["x"]


@pair()
def a_list_that_hangs_on_a_tensor(v):
    HELD.points = [Point(v + 1.0)]
    return in_graph(hung_list)


@pair()
def an_ordered_table_that_hangs_on_a_tensor(v):
    HELD.table = collections.OrderedDict(x=v + 1.0)
    return in_graph(hung_table)


@pair()
def a_number_on_torchs_class_of_tensors(v):
    torch.Tensor.wg_scale = v + 1.0
    return operator_with(lambda ctx, grad: grad * grad.wg_scale, "on_class")


def multiplied(x):
    with torch.autocast("cpu"):
        return torch.mm(x[:, None] / 3, x[None] / 7).float()


@pair()
def the_dtype_of_autocast_where_code_turns_it_on(v):
    torch.set_autocast_dtype("cpu", torch.float16 if v == 1 else torch.bfloat16)
    return in_graph(multiplied)


@functools.cache
def threads():
    return torch.get_num_threads()


@pair()
def what_a_cache_was_filled_with_before(v):
    threads.cache_clear()
    torch.set_num_threads(v)
    threads()
    torch.set_num_threads(1)
    return operator_with(lambda ctx, grad: grad * threads(), "cached")


def named_so(x):
    return x * len(str(Rules.rule_wide).split(" ")[1])


@pair()
def what_a_function_is_called(v):
    def rule(self, x):
        return x

    rule.__qualname__ = "rule" if v == 1 else "a_rule"
    Rules.rule_wide = rule
    return in_graph(named_so)


def logits(x):
    return torch.distributions.utils.probs_to_logits(x / 100)


@pair()
def a_helper_of_torchs_own_outside_its_core(v):
    utils = torch.distributions.utils
    clamp = utils.clamp_probs
    utils.clamp_probs = (lambda x: clamp(x) * 2) if v == 1 else (lambda x: clamp(x) * 3)
    return in_graph(logits)


def copied(x):
    return x * copy.copy(Point()).x


@pair()
def how_objects_are_copied(v):
    copyreg.pickle(Point, (lambda point: (Point, (2.0,))) if v == 1 else (lambda point: (Point, (3.0,))))
    return in_graph(copied)


def by_operators_name(x):
    space, name = "wgpairs::inner".split("::")
    return getattr(getattr(torch.ops, space), name)(x)


@pair(bypass="cannot be seen")
def an_operator_by_a_text(v):
    @torch.library.custom_op("wgpairs::inner", mutates_args=())
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x * (v + 1)

    inner.register_fake(torch.empty_like)
    return in_graph(by_operators_name)


@pair()
def a_tensor_that_a_decomposition_holds(v):
    from torch._inductor.decomposition import decompositions

    TABLE.fill_(v + 1.0)
    decompositions[torch.ops.aten.hardswish.default] = lambda x: x * TABLE.tolist()[0]
    return compiled(torch.nn.functional.hardswish)(values())


class Doubles(CustomGraphPass):
    """Takes another function for sin within modules of one name."""

    def __call__(self, graph):
        for node in graph.nodes:
            if "mlp" in str(node.meta.get("nn_module_stack")) and "sin" in str(node.target):
                node.target = torch.cos

    def uuid(self):
        return "1"


class Sine(torch.nn.Module):
    def forward(self, x):
        return torch.sin(x)


@pair()
def modules_that_a_pass_looks_at(v):
    model = torch.nn.Sequential(collections.OrderedDict([("mlp" if v == 1 else "attention", Sine())]))
    with torch._inductor.config.patch(pre_grad_custom_pass=Doubles()):
        return compiled(model)(values())


@pair(bypass="relpath")
def where_a_path_is_seen_from(v):
    def far(x):
        return x * len(os.path.relpath("/", os.sep if v == 1 else "/tmp"))

    far.__module__ = __name__
    return in_graph(far)
