"""Group 12: what PyTorch's tests of its own caches compile, once more in another process. Cases only.

PyTorch's own: dynamo/test_aot_autograd_cache.py and inductor/test_codecache.py; each of their tests is listed above,
with the test here that covers it, or the reason why none does.
"""

import contextlib

import torch
import torch._functorch.config
import torch._inductor.config
from harness import case
from torch._inductor.utils import fresh_cache

WITHOUT_KERNELS = True


def numbers(rows=3, requires_grad=False):
    return (torch.arange(rows * 4.0).reshape(rows, 4) / 7).requires_grad_(requires_grad)


def in_both_orders(way, compiled, inputs):
    """A loaded graph begins with the size that the compiled one came to last."""
    names = list(inputs)
    found = {name: compiled(*inputs[name]) for name in (reversed(names) if way.name == "warm" else names)}
    return {name: found[name] for name in names}


@case()
def a_view_of_an_input_with_other_sizes(way):
    """A dynamic graph returns a view of its input; the view is the input's, at whichever size comes first."""

    def function(x):
        rows, columns, width = x.shape
        return x.relu() + 1, x.view(rows * columns, width)

    # 5 is nobody else's size: dimensions of one size on the first call would be one symbol.
    inputs = {size: (torch.arange(32.0 * 5).reshape(*size, 5),) for size in ((2, 16), (4, 8), (8, 4))}
    found = in_both_orders(way, way.compile(function, dynamic=True), inputs)
    return [(found[size], inputs[size]) for size in inputs]


@case(torch_wrong="an operator that is called as it is returns a view of what it made", fields=("base", "version"))
def forward_and_backward_with_other_symbols(way):
    """The forward has sizes among its inputs that the backward has not, and the other way round."""
    compiled, found = way.compile(lambda x, y: (torch.cat((x, x)), x * y), dynamic=True), []
    for rows in (5, 7):
        x, y = numbers(rows, requires_grad=True), numbers(rows)
        doubled, product = compiled(x, y)
        doubled.sum().backward()
        found.append((doubled, product, x))
    return found


@case()
def sizes_among_results_that_have_gradients(way):
    """Sizes, tensors and a sum of sizes come back in turn; the backward is given gradients of the tensors alone."""

    def function(a, b, c):
        wide = torch.cat([a.expand(b.shape[0] + c.shape[0], a.shape[0]), b, c])
        return wide, b.size(), c, wide @ a, a.shape[0]

    compiled, found = way.compile(function, dynamic=True), []
    for rows in (3, 2):
        a, b, c = torch.ones(4, requires_grad=True), numbers(rows, True), numbers(rows + 1, True)
        out = compiled(a, b, c)
        (out[0].sum() + out[3].sum()).backward()
        found.append((out[0], list(out[1]), out[2] is c, out[3], out[4], a, b, c))
    return found


@case()
def a_dimension_that_is_dynamic_only_when_warm(way):
    """A size that may vary, and that tracing then finds fixed, does not move the key."""
    a, b, c = torch.ones(5), torch.ones(5) * 2, torch.ones(6) * 3
    for x in (a, c) + ((b,) if way.name == "warm" else ()):
        torch._dynamo.maybe_mark_dynamic(x, 0)
    return way.compile(lambda x, y, z: (torch.arange(5.0) + x + y, z * 2))(a, b, c)


@case()
def a_number_that_is_compared(way):
    """An integer argument decides which graph there is; a guard on one number serves for no other."""

    def function(x, number):
        return x.sin() if number > 5 else x.cos() if number != 2 else x * 0

    compiled = way.compile(function, dynamic=True)
    return {number: compiled(numbers(), number) for number in (6, 4, 2, 9, 3)}


@torch.library.custom_op("constructs_cached::same", mutates_args=())
def same(x: torch.Tensor, one: int, other: int) -> torch.Tensor:
    return x.clone()


@same.register_fake
def _(x, one, other):
    return torch.empty_like(x)


def _numbers(ctx, inputs, output):
    _, ctx.one, ctx.other = inputs


def _gradient_by_numbers(ctx, grad):
    if ctx.one % 3 == 0:
        grad = grad * 10
    if ctx.other % 5 == 0:
        grad = grad * 100
    return grad * 2 if ctx.one == ctx.other else grad, None, None


same.register_autograd(_gradient_by_numbers, setup_context=_numbers)


@case()
def guards_on_a_number_that_then_equals_another(way):
    """The backward asks of two numbers one by one, then whether they are equal. (torch keeps the last guard and forgets
    those on the number that it replaced: its cache serves 9 the gradient of 7.)"""
    compiled, found = way.compile(lambda x, one, other: same(x, one, other).sum(), dynamic=True), []
    for one, other in ((30, 30), (7, 7), (9, 9), (10, 10), (6, 7)):
        x = numbers(requires_grad=True)
        compiled(x, one, other).backward()
        found.append(x.grad)
    return found


class _KeysAndValues:
    def __init__(self):
        self.held, self.position = torch.zeros(2, 16, 4), 0

    def add(self, x):
        self.held[:, self.position : self.position + x.shape[1]] = x
        self.position += x.shape[1]
        return self.held[:, : self.position]


@case()
def a_position_that_is_zero_for_a_prompt(way):
    """A cache written by hand, prompts of several lengths: that they do not fill it is asked of position and length,
    and then the position is found to be 0."""
    compiled, found = way.compile(lambda cache, x: cache.add(x * 2).sum(1)), []
    for length in (3, 5, 4, 16):
        cache = _KeysAndValues()
        found += [
            compiled(cache, torch.full((2, many, 4), 0.5)) for many in (length, *((1, 1, 2) if length < 10 else ()))
        ]
    return found


@case()
def guards_that_make_sizes_static(way):
    """A pooling operator fixes sizes of a dynamic graph: a variant for each, and each has its own result."""
    compiled = way.compile(lambda x: torch.nn.functional.adaptive_avg_pool2d(x, [2, 3]), dynamic=True)
    shapes = ((1, 2, 4, 5), (1, 2, 5, 6), (1, 2, 6, 7))
    return [compiled(torch.arange(float(torch.Size(shape).numel())).reshape(shape)) for shape in shapes]


@case()
def sizes_from_one_to_four(way):
    """A table searched for one, two, three and four values: as many graphs as torch makes, and no more when warm."""
    table = torch.tensor([0, 2, 4, 6, 8])
    compiled = way.compile(lambda x: torch.isin(x, table))
    return [compiled(torch.arange(count)) for count in range(1, 5)]


class Constant(torch.nn.Module):
    """Reads a tensor that is neither parameter nor buffer."""

    TABLE = torch.tensor([[2.0, 2.0], [2.0, 2.0]])

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2, 2))

    def forward(self, x):
        return x.sin() + self.weight + Constant.TABLE


@case()
def a_tensor_of_the_class_that_is_replaced(way):
    """It is an input and not part of the key: the second graph is found, and computes with the new values."""
    found = []
    for value in (2.0, 3.0):
        Constant.TABLE = torch.full((2, 2), value)
        torch._dynamo.reset()
        with torch.no_grad():
            found.append(way.compile(Constant(), fullgraph=True)(torch.ones(2, 2)))
    return found


@case()
def constants_of_equal_shape(way):
    """Two functions that differ in a constant tensor's values, large and small; and one equal to the first."""

    def adding(first, count):
        return way.compile(lambda x: x + torch.tensor(list(range(first, first + count))))

    return [adding(first, count)(torch.ones(count)) for count in (4, 12) for first in (0, 1, 0)]


@case()
def a_function_without_tensors(way):
    """No argument at all, or numbers only: the result is made inside."""
    return way.compile(lambda: torch.arange(6.0).reshape(2, 3) * 2)(), way.compile(
        lambda size, value: torch.full((size,), value), dynamic=True
    )(3, 2.5)


@case()
def a_forward_whose_backward_comes_later(way):
    """Cold, only the forward runs; warm, the backward is there all the same, and right."""
    x = numbers(requires_grad=True)
    out = way.compile(lambda x: x.cos() * x)(x)
    if way.name == "warm":
        (grad,) = torch.autograd.grad(out.sum(), x)
        torch.testing.assert_close(grad, x.cos() - x * x.sin())
    return out


@case()
def a_step_compiled_with_its_backward(way):
    """`zero_grad`, forward and `backward` in one compiled function, over a module with a graph break inside."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = torch.nn.Conv2d(3, 4, 3, bias=False), torch.nn.Conv2d(4, 2, 3, bias=False)

        def forward(self, x):
            x = self.one(x)
            torch._dynamo.graph_break()
            return self.two(x)

    def step(model, x):
        model.zero_grad()
        model(x).sum().backward()
        return [parameter.grad for parameter in model.parameters()]

    model = Model()
    return [[grad.clone() for grad in way.compile(step)(model, torch.ones(1, 3, 6, 6) * k)] for k in (1, 2)]


@case()
def under_autocast_of_two_dtypes(way):
    """bfloat16, float16, bfloat16 again, and none: each dtype has code of its own."""
    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Linear(4, 2)).eval()
    found = []
    for dtype in (torch.bfloat16, torch.float16, torch.bfloat16, None):
        torch._dynamo.reset()
        with torch.no_grad(), torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            found.append(way.compile(layers)(numbers()))
    return found


@case()
def inside_a_fresh_cache_of_inductors(way):
    """torch's `fresh_cache` gives Inductor an empty folder, twice; ours is not asked to forget."""
    found = []
    for _ in range(2):
        torch._dynamo.reset()
        with fresh_cache():
            found.append(way.compile(lambda x: (x * 2 + 1).sin())(numbers()))
    return found


@case()
def view_replay(way):
    """`view_replay_for_aliased_outputs`: outputs that share an input's storage are made by replaying their views."""

    def function(x):
        early = x.detach()
        x.mul_(2)
        return x, early, x.t()[1:]

    replay = torch._functorch.config.patch(view_replay_for_aliased_outputs=True)
    with replay, torch.autograd._force_original_view_tracking(True):
        x = numbers()
        return way.compile(function)(x), x


@case()
def a_budget_of_activation_memory_per_region(way):
    """A region's memory budget is an annotation on its nodes; each budget is a graph of its own."""

    # In eager there are no budgets, and torch says so by an error.
    within = contextlib.nullcontext if way.backend is None else torch.autograd.graph.region_activation_memory_budget

    def function(x, budget):
        with within(budget):
            x = (x @ x.t() + 1).relu()
        torch._dynamo.graph_break()
        with within(0.5):
            return (x * 2).relu()

    found = []
    for budget in (0.25, 0.75):
        x = numbers(requires_grad=True)
        out = way.compile(function, dynamic=False)(x, budget)
        out.sum().backward()
        found.append((out, x))
    return found


@case()
def annotated_for_a_regional_compile(way):
    """An annotation of a region that this backend does not look at is kept apart from another, and harmless."""

    def function(x, mark):
        with torch.fx.traceback.annotate({"compile_with_inductor": mark}):
            x = x.sin() * 2
        return x + 1

    compiled = way.compile(function, fullgraph=True, dynamic=False)
    return [compiled(numbers(), mark) for mark in (0, 1)]
