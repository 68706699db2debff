"""Group 10, sixth part: regions that write to what they are given, and operators that write to views. Cases only.

PyTorch's own: higher_order_ops/test_invoke_subgraph.py (`test_input_mutation*`, `test_nonlocal_update`,
`test_simple_module`, `test_input_output_aliasing`, `test_input_input_aliasing`), inductor/test_auto_functionalize.py
(`test_auto_functionalize_extra1` to `5`, `test_auto_functionalize_with_returns*`),
testing/_internal/custom_op_db.py (`numpy_sort`, `numpy_mul_scalar`; the module itself needs a package that torch does
not install).
"""

import torch
import torch._inductor.config
from harness import case, outcome

WITHOUT_KERNELS = True


def numbers(rows=3, requires_grad=False):
    return (torch.arange(rows * 4.0).reshape(rows, 4) / 7).requires_grad_(requires_grad)


@torch.compiler.nested_compile_region
def counted(x, count):
    count.add_(1)
    return x * count


@case()
def a_region_that_writes_to_its_input(way):
    """Under no_grad a region counts up in place, called three times in a graph, from two graphs."""

    def function(x, count):
        for _ in range(3):
            x = counted(x, count)
        return x + count

    count, compiled, found = torch.zeros(()), way.compile(function, fullgraph=True), []
    with torch.no_grad():
        for _ in range(2):
            found.append((compiled(numbers(), count), count.clone()))
    return found


@case()
def a_region_over_a_module_and_a_number(way):
    """A layer's weights and a number of the caller's are closed over; another number is another region."""
    layer, factor = torch.nn.Linear(4, 4), 2

    @torch.compiler.nested_compile_region
    def region(x):
        return layer(x).sin() * factor, x.cos()

    def function(x):
        nonlocal factor
        factor = 2
        first, rest = region(x)
        factor = 3
        return region(first)[0] + rest

    out = way.compile(function, fullgraph=True)(numbers())
    out.sum().backward()
    return {"out": out, "weight": layer.weight.grad, "bias": layer.bias.grad}


@case()
def a_region_of_several_sizes(way):
    """One dynamic region: its code is found at other sizes, with its backward."""

    @torch.compiler.nested_compile_region
    def region(x):
        return (x * x.shape[0]).sin()

    compiled, found = way.compile(lambda x: region(region(x)) + 1, dynamic=True, fullgraph=True), []
    for rows in (3, 5):
        x = numbers(rows, requires_grad=True)
        out = compiled(x)
        out.sum().backward()
        found.append((out, x))
    return found


@case(
    uncompiled="Dynamo refuses the region",
    torch_wrong="a region must not return its input, nor be given a tensor and its view",
)
def a_region_that_returns_its_input(way):
    """torch's refusal, in its words, and no entry."""

    @torch.compiler.nested_compile_region
    def region(x, y):
        return x, x * y

    def same(x, y):
        first, second = region(x, y)
        return first * second

    return [
        outcome(way.compile(same, fullgraph=True), numbers(), numbers()),
        outcome(way.compile(lambda x: region(x, x.view(12))[1], fullgraph=True), numbers()),
    ]


@torch.library.custom_op("constructs_regions::waved", mutates_args=("x", "y"))
def waved(x: torch.Tensor, y: torch.Tensor) -> None:
    x.sin_()
    y.cos_()


@torch.library.custom_op("constructs_regions::noted", mutates_args=("x",))
def noted(x: torch.Tensor, at: torch.Tensor | None = None) -> torch.Tensor:
    x.add_(1)
    return x * 2 if at is None else x * at


@noted.register_fake
def _(x, at=None):
    return torch.empty_like(x)


@case()
def an_operator_that_writes_to_two_views(way):
    """Two rows of one input, two inputs that lie in one storage, one input twice over: with static sizes."""

    def rows(x):
        a, b = x[0], x[1]
        waved(a, b)
        return a, b, x

    base = numbers(2)
    beside = numbers(2)
    one, two = beside[0], beside[1]

    def inputs(a, b):
        waved(a, b)
        return a + b

    return way.compile(rows)(base), base, way.compile(inputs)(one, two), beside


@case()
def an_operator_that_writes_and_returns(way):
    """An optional argument given and not, over an intermediate, a slice of an input, and an input."""

    def function(x, at):
        scratch = x * 0
        return noted(scratch) + noted(x[1:], at).sum() + noted(x), scratch

    x = numbers()
    return way.compile(function)(x, torch.full((4,), 3.0)), x


@torch.library.custom_op("constructs_regions::ranked", mutates_args=())
def ranked(x: torch.Tensor, dim: int, *, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    values, order = x.sort(dim)
    return values * scale, order


@ranked.register_fake
def _(x, dim, *, scale):
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)


def _order(ctx, inputs, keyword_only_inputs, output):
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])
    ctx.dim, ctx.scale = inputs[1], keyword_only_inputs["scale"]


def _unranked(ctx, grad, _):
    return torch.zeros_like(grad).scatter(ctx.dim, ctx.saved_tensors[0], grad * ctx.scale), None


ranked.register_autograd(_unranked, setup_context=_order)
ranked.register_vmap(lambda info, dims, x, dim, *, scale: (ranked(x.movedim(dims[0], 0), dim + 1, scale=scale), (0, 0)))


@case(torch_wrong="an operator's result without a gradient is not marked as written to", fields=("version",))
def an_operator_with_a_keyword_and_an_order(way):
    """An argument by keyword only, a result without a gradient, and a rule for vmap."""
    x = numbers(requires_grad=True)

    def function(x):
        values, order = ranked(x.flip(1), 1, scale=3.0)
        return values.sin(), order, torch.vmap(lambda row: ranked(row, 0, scale=2.0)[0])(x)

    values, order, rows = way.compile(function)(x)
    (values.sum() + rows.sum()).backward()
    return values, order, rows, x
