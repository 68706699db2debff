"""Group 7: functions that run while Dynamo traces, prints, closures over arguments. Cases only.

PyTorch's own: dynamo/test_comptime.py (all of `test_print_*`, `test_get_local*`, `test_graph_break`), dynamo/
test_misc.py (`test_closure_*`, `test_nested_closure*`, `test_inline_closure*`, `test_cell_output*`),
dynamo/test_reorder_logs.py (`test_reorder_print`, `test_dont_reorder_print`).
"""

import functools
import sys

import torch
from harness import case, raised
from torch._dynamo.comptime import comptime

WITHOUT_KERNELS = True


def numbers():
    return torch.arange(4.0)


@case(torch_wrong="comptime functions run while tracing: in eager they print values, or nothing", fields=("printed",))
def values_are_printed_while_tracing(way):
    """`comptime.print` of a tensor's fake, of a constant and of the locals; once per trace, not per call."""

    def function(x):
        y = x * 2
        comptime.print(y)
        comptime.print({"four": x.shape[0]})
        comptime.print_locals()
        return y + 3

    compiled = way.compile(function)
    return [compiled(numbers()), compiled(numbers() + 1)]


@case(torch_wrong="comptime functions run while tracing: in eager they print values, or nothing", fields=("printed",))
def the_graph_is_printed_while_tracing(way):
    """`print_graph`, `print_value_stack` and code of one's own that sees the context."""

    def function(x):
        y = x * 2
        comptime.print_graph()

        @comptime
        def _(ctx):
            y = ctx.get_local("y")
            print("y", y.size(), y.is_dynamic(), y.as_fake().dtype, ctx.get_local("x").python_type().__name__)

        return y + comptime.print_value_stack_and_return(x + 4)

    return way.compile(function)(numbers())


@case(torch_wrong="comptime functions run while tracing: in eager they print values, or nothing", fields=("printed",))
def comptime_through_a_closure(way):
    """A comptime function reads its caller's locals, closures over arguments and the frame above."""

    def function(x, k):
        y = x * k

        def inner(z):
            comptime(lambda ctx: print("k", ctx.get_local("k").as_python_constant(), ctx.get_local("z").is_proxy()))
            comptime(lambda ctx: print("above", ctx.parent().get_local("y").size()))
            return z + y + k

        return inner(x.sin())

    return way.compile(function)(numbers(), 3)


@case(torch_wrong="comptime functions run while tracing: in eager they print values, or nothing", fields=("printed",))
def comptime_breaks_the_graph(way):
    """Two graphs, each with a key of its own; the function between them runs in the break."""

    def function(x):
        y = x * 2
        comptime.print(y)
        comptime.graph_break()
        return y + x.cos()

    return way.compile(function)(numbers())


@case()
def a_size_is_made_static(way):
    """`force_static` specialises a dynamic size: a compile for each, none used for the other."""

    def function(x):
        comptime.force_static(x.shape[0])
        return x * 2 + x.shape[0]

    compiled = way.compile(function, dynamic=True)
    return [compiled(torch.arange(float(n))) for n in (4, 5, 4)]


@case()
def a_static_size_is_asserted(way):
    """`assert_static` holds for a static size."""

    def function(x):
        comptime.assert_static(x.shape[0])
        return x * 2 + 5

    return way.compile(function, dynamic=False)(numbers())


@case(uncompiled="comptime raises while tracing", torch_wrong="in eager the function is not called")
def an_error_in_comptime(way):
    """What comptime raises reaches the caller, and no graph is left behind."""

    def function(x):
        comptime.assert_static(x.shape[0])
        return x * 2 + 5

    if way.backend is None:
        return way.compile(function)(numbers())
    return raised(way.compile(function, dynamic=True), numbers())


@case()
def prints_between_graphs(way):
    """`print` breaks the graph; what is printed, and in which order, is as in eager, at each call."""

    def function(x):
        y = x * 2
        print("twice", y.tolist())
        z = y + x.cos()
        print("sum", z.shape, file=sys.stdout)
        return z

    compiled = way.compile(function)
    return [compiled(numbers()), compiled(numbers() + 1)]


def say(*words):
    print(*[w.tolist() if isinstance(w, torch.Tensor) else w for w in words])


@case()
def prints_moved_to_the_end(way):
    """A reorderable log function is called after the graph, with the values of its place."""

    def function(x):
        y = x * 2
        say("twice", y)
        z = y + x.cos()
        say("kind", "sum")
        return z

    with torch._dynamo.config.patch(reorderable_logging_functions={say}):
        compiled = way.compile(function)
        return [compiled(numbers()), compiled(numbers() + 1)]


@case()
def closures_over_arguments(way):
    """Functions made inside close over tensors and numbers that came as arguments; another number is another graph."""

    def function(x, y, k):
        def scale(z):
            return z * k + y

        def twice(f):
            return lambda z: f(f(z))

        return twice(scale)(x)

    compiled = way.compile(function, dynamic=False)
    return [compiled(numbers(), numbers() + 1, k) for k in (2, 3, 2)]


@case()
def cells_are_written(way):
    """`nonlocal` inside the graph, and cells of the caller that the compiled function writes to."""
    count, last = 0, None

    def function(x):
        nonlocal count, last
        total = x

        def add(y):
            nonlocal total
            total = total + y

        add(x * 2)
        count += 1
        last = total.sin()
        return total

    compiled = way.compile(function)
    outs = [compiled(numbers()), compiled(numbers() + 1)]
    return {"outs": outs, "count": count, "last": last}


@case()
def a_closure_is_returned(way):
    """A function made in the graph over a graph's value is returned, and works outside."""

    def function(x):
        y = x * 2

        def later(z):
            return y + z

        return later, functools.partial(torch.add, y)

    later, partial = way.compile(function)(numbers())
    return [later(1), partial(2)]


@case()
def captured_values_are_followed(way):
    """A tensor in a closure is an input; a number in it is a constant of the key. Changing either is seen."""
    table, scale = torch.ones(4), 2.0

    def function(x):
        return x * scale + table

    compiled = way.compile(function, dynamic=False)
    outs = [compiled(numbers())]
    table = torch.full((4,), 5.0)
    outs.append(compiled(numbers()))
    scale = 4.0
    outs.append(compiled(numbers()))
    table.mul_(2)
    return [*outs, compiled(numbers())]


@case()
def defaults_and_partials(way):
    """Arguments bound by a partial, by a default and by keyword."""

    def function(x, *more, k=2, **named):
        return x * k + sum(more) + named.get("last", 0)

    bound = functools.partial(function, k=3)
    compiled, plain = way.compile(bound, dynamic=False), way.compile(function, dynamic=False)
    return [compiled(numbers(), numbers()), plain(numbers()), plain(numbers(), last=numbers(), k=torch.tensor(5.0))]
