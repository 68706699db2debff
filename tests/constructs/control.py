"""Group 14: control flow that stays in the graph: branches, loops, scans. Cases only.

PyTorch's own: functorch/test_control_flow.py (`test_cond_*`, `test_while_loop_*`, `test_scan_*`, `test_associative_
scan_*`, `test_map_*`), inductor/test_control_flow.py (`CondTests`, `WhileLoopTests`, `ScanTests`, `MapTests`).
"""

import torch
from harness import case
from torch._higher_order_ops import associative_scan, scan, while_loop

WITHOUT_KERNELS = True


def numbers(rows=3):
    return torch.arange(rows * 4.0).reshape(rows, 4) / 7


@case()
def a_cond_in_a_cond(way):
    """Each of three outcomes, with gradients."""

    def inner(x):
        return torch.cond(x.sum() > 10, lambda x: x.exp(), lambda x: x.tanh() * 2, (x,))

    compiled, found = way.compile(lambda x: torch.cond(x.mean() > 0, inner, lambda x: -x.sin(), (x,))), []
    for shift in (-5.0, 0.0, 3.0):
        x = (numbers() + shift).requires_grad_()
        out = compiled(x)
        out.sum().backward()
        found.append({"out": out, "grad": x.grad.clone()})
    return found


@case()
def a_cond_with_several_results(way):
    """Parameters of a module in one branch, none in the other; two results."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 4)

    def function(x):
        return torch.cond(x[0, 0] > 0, lambda x: (layer(x), x * 2), lambda x: (x + 1, x * 3), (x,))

    compiled = way.compile(function)
    with torch.no_grad():
        return [[part.clone() for part in compiled(numbers() + shift)] for shift in (1.0, -1.0)]


@case()
def a_cond_of_dynamic_size(way):
    """One graph for all sizes."""
    compiled = way.compile(
        lambda x: torch.cond(x.shape[0] > 4, lambda x: x.sin(), lambda x: x.cos(), (x,)), dynamic=True
    )
    return [compiled(numbers(rows)) for rows in (3, 6)]


@case()
def a_loop_in_a_branch(way):
    """Turns counted by a tensor, inside a cond."""

    def turns(x):
        count = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 1.5), (count, x))[1]

    compiled = way.compile(lambda x: torch.cond(x.sum() > 0, turns, lambda x: x * 1.0, (x,)))
    with torch.no_grad():
        return [compiled(numbers() + shift) for shift in (1.0, -3.0)]


@case()
def a_loop_over_captured_tensors(way):
    """The body reads a tensor that is no state of the loop."""
    step = torch.full((4,), 0.25)

    def function(x):
        return while_loop(lambda x: x.sum() < 40, lambda x: (x + step,), (x,))

    with torch.no_grad():
        return way.compile(function)(numbers())


@case()
def an_associative_scan(way):
    """Sums and products along either axis; backwards."""

    def function(x):
        return [
            associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic"),
            associative_scan(lambda a, b: a * b, x + 1, 1, combine_mode="generic"),
            associative_scan(lambda a, b: a + b, x, 0, reverse=True, combine_mode="generic"),
        ]

    return way.compile(function)(numbers())


@case()
def an_associative_scan_of_pairs(way):
    """A linear recurrence: each element is a pair."""

    def function(a, b):
        return associative_scan(
            lambda one, two: (one[0] * two[0], one[1] * two[0] + two[1]), (a, b), 0, combine_mode="generic"
        )

    return way.compile(function)(numbers(), numbers() + 1)


@case()
def an_associative_scan_of_dynamic_size(way):
    """Of an axis whose length varies."""
    compiled = way.compile(lambda x: associative_scan(lambda a, b: a + b, x, 1, combine_mode="generic"), dynamic=None)
    return [compiled(numbers(rows).T.contiguous()) for rows in (3, 5, 6)]


@case()
def scans_both_ways(way):
    """Forwards and backwards, with a carried value and a stacked output."""

    def function(start, xs):
        return [scan(lambda carry, x: (carry * 0.5 + x, carry * x), start, xs, reverse=way) for way in (False, True)]

    with torch._dynamo.config.patch(capture_scalar_outputs=True):  # Inductor fails without
        return way.compile(function)(torch.ones(4), numbers())
