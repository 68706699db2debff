"""Group 10, third part: custom operators, and operators that take functions. Cases only.

PyTorch's own: test_custom_ops.py (`test_functionalize_*`, `test_mutable_custom_op*`, `test_autograd_*`), inductor/
test_auto_functionalize.py (`test_auto_functionalize_*`), testing/_internal/custom_op_db.py, dynamo/test_higher_order_
ops.py and functorch/test_control_flow.py (`test_cond_*`, `test_while_loop_*`, `test_scan_*`, `test_map_*`,
`test_associative_scan_*`), inductor/test_flex_attention.py, higher_order_ops/test_invoke_subgraph.py,
higher_order_ops/test_with_effects.py, testing/_internal/hop_db.py.
"""

import torch
import torch._inductor.config
from harness import case, outcome
from torch.utils.checkpoint import checkpoint


def numbers(requires_grad=False):
    return (torch.arange(12.0).reshape(3, 4) / 7).requires_grad_(requires_grad)


@torch.library.custom_op("constructs::tripled", mutates_args=())
def tripled(x: torch.Tensor, times: float = 3.0) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * times)


@tripled.register_fake
def _(x, times=3.0):
    return torch.empty_like(x)


def _keep(ctx, inputs, output):
    ctx.times = inputs[1]


tripled.register_autograd(lambda ctx, grad: (grad * ctx.times * 2, None), setup_context=_keep)


@torch.library.custom_op("constructs::count_up", mutates_args=("counter",))
def count_up(x: torch.Tensor, counter: torch.Tensor) -> torch.Tensor:
    counter += 1
    return x.sin()


@count_up.register_fake
def _(x, counter):
    return torch.empty_like(x)


@torch.library.custom_op("constructs::overwrite", mutates_args=("out",))
def overwrite(x: torch.Tensor, out: list[torch.Tensor]) -> None:
    for number, tensor in enumerate(out):
        tensor.copy_(x + number)


@torch.library.custom_op("constructs::halves", mutates_args=())
def halves(x: torch.Tensor) -> tuple[list[torch.Tensor], int]:
    return [x[:2].clone(), x[2:].clone()], x.shape[0]


@halves.register_fake
def _(x):
    return [torch.empty_like(x[:2]), torch.empty_like(x[2:])], x.shape[0]


@torch.library.custom_op("constructs::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 1].clone()


@positive.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@case()
def an_operator_with_a_gradient(way):
    """Its Python implementation is called by the compiled code; its registered backward is traced into it."""
    x = numbers(requires_grad=True)
    out = way.compile(lambda x: tripled(x * 2).sin() + tripled(x, 5.0))(x)
    out.sum().backward()
    return {"out": out, "grad": x.grad.clone()}


@case()
def an_operator_that_mutates(way):
    """An input, a view of an input and an intermediate are changed in place by the operator."""

    def function(x, counter):
        first = count_up(x, counter)
        second = count_up(first, counter[1])
        scratch = torch.zeros(2)
        return count_up(second, scratch) + 1, scratch + 1

    x, counter = numbers(), torch.zeros(3)
    return {"outs": way.compile(function)(x, counter), "counter": counter, "x": x}


@case()
def an_operator_that_fills_a_list(way):
    """A list of outputs is written; nothing is returned."""

    def function(x, outs):
        overwrite(x * 2, outs)
        return outs[0] + outs[1]

    outs = [torch.zeros(3, 4), torch.zeros(3, 4)]
    return {"sum": way.compile(function)(numbers(), outs), "outs": outs}


@case()
def an_operator_that_returns_a_list_and_a_number(way):
    """Several tensors and a plain integer come back."""

    def function(x):
        (upper, lower), rows = halves(x)
        return upper * rows, lower + 1

    return way.compile(function)(numbers())


@case()
def an_operator_of_unknown_size(way):
    """Its result's size is known only when it has run; code after it uses the size."""

    def function(x):
        found = positive(x)
        return found * 2, found.shape[0]

    return way.compile(function, fullgraph=True)(numbers())


def _library():
    library = torch.library.Library("constructs_library", "FRAGMENT")
    library.define("shifted(Tensor x, *, Tensor(a!)? seen=None) -> Tensor")

    def shifted(x, *, seen=None):
        if seen is not None:
            seen.fill_(7)
        return x + 1

    library.impl("shifted", shifted, "CPU")
    library.impl("shifted", lambda x, *, seen=None: torch.empty_like(x), "Meta")
    return library


LIBRARY = _library()


@case()
def an_operator_by_library_and_schema(way):
    """Defined by `torch.library.Library`, with a kernel for meta tensors instead of a fake."""

    def function(x, seen):
        return torch.ops.constructs_library.shifted(x * 2, seen=seen)

    seen = torch.zeros(2)
    return {"out": way.compile(function)(numbers(), seen), "seen": seen}


@case()
def cond_with_gradients(way):
    """Both branches, over a captured tensor, with a backward."""
    scale, found = torch.full((4,), 2.0), []

    def function(x):
        return torch.cond(x.sum() > 3, lambda x: (x * scale).sin(), lambda x: x.cos() + scale, (x,))

    compiled = way.compile(function)
    for shift in (0.0, -2.0):
        x = (numbers() + shift).requires_grad_()
        out = compiled(x)
        out.sum().backward()
        found.append({"out": out, "grad": x.grad.clone()})
    return found


@case(torch_wrong="results of a compiled loop were written to once", fields=("version",))
def while_loop(way):
    """As many turns as the data ask for."""

    def function(turns, x):
        return torch._higher_order_ops.while_loop(
            lambda turns, x: turns > 0, lambda turns, x: (turns - 1, x * 2 + 1), (turns, x)
        )

    compiled = way.compile(function)
    return [compiled(torch.tensor(turns), numbers()) for turns in (0, 3)]


@case(torch_wrong="results of a compiled scan are fresh, in eager written in steps", fields=("version",))
def scan(way):
    """A carried value and a stacked output."""

    def function(start, xs):
        return torch._higher_order_ops.scan(lambda carry, x: (carry + x, carry * x), start, xs)

    with torch._dynamo.config.patch(capture_scalar_outputs=True):  # Inductor fails without
        return way.compile(function)(torch.ones(4), numbers())


@case(torch_wrong="the compiled result is no view of something unseen", fields=("base",))
def map_over_rows(way):
    """A function for each row, with a captured tensor."""
    scale = torch.full((4,), 2.0)

    def function(x):
        return torch._higher_order_ops.map(lambda row, scale: row.sin() * scale, x, scale)

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        return way.compile(function)(numbers())


@case()
def flex_attention(way):
    """A score function over a captured table, and a block mask; on a CPU only without gradients."""
    from torch.nn.attention import flex_attention as flex

    torch.manual_seed(1)
    query, key, value = (torch.randn(1, 2, 16, 16) for _ in range(3))
    slopes = torch.tensor([0.5, 0.25])
    mask = flex.create_block_mask(lambda b, h, q, k: q >= k, None, None, 16, 16, device="cpu")

    def function(query, key, value):
        def score(score, b, h, q, k):
            return score - slopes[h] * (q - k)

        return flex.flex_attention(query, key, value, score_mod=score, block_mask=mask)

    vectors = torch._inductor.config.patch({"cpp.simdlen": None})  # Inductor's template for it needs them
    with torch.no_grad(), vectors:
        return way.compile(function)(query, key, value).clone()


@torch.compiler.nested_compile_region
def region(x, weight):
    return (x @ weight).sin() * x


@case()
def a_region_compiled_once(way):
    """`invoke_subgraph`: one region called three times in a graph, with a backward."""

    def function(x, weight):
        for _ in range(3):
            x = region(x, weight)
        return x

    x, weight = numbers(requires_grad=True), torch.eye(4).requires_grad_()
    out = way.compile(function)(x, weight)
    out.sum().backward()
    return {"out": out, "x": x.grad.clone(), "weight": weight.grad.clone()}


@case()
def regions_that_differ_in_a_constant(way):
    """Two regions with equal nodes and other constants do not share code."""

    def function(x):
        first = torch.compiler.nested_compile_region(lambda x: x.sin() * 2)
        second = torch.compiler.nested_compile_region(lambda x: x.sin() * 3)
        return first(x) + second(x) + first(second(x))

    return way.compile(function)(numbers())


@case()
def a_region_before_a_checkpoint(way):
    """A region's result is recomputed in a checkpoint."""

    def function(x, weight):
        return checkpoint(lambda x: (x @ weight).sin(), region(x, weight), use_reentrant=False).sum()

    x, weight = numbers(requires_grad=True), torch.eye(4).requires_grad_()
    out = way.compile(function)(x, weight)
    out.backward()
    return {"out": out, "x": x.grad.clone(), "weight": weight.grad.clone()}


@case(bypass="print")
def an_operator_with_an_effect(way):
    """`torch._higher_order_ops.print` keeps its place among the operators, at each call."""

    def function(x):
        y = x * 2
        torch._higher_order_ops.print("sum {total}", total=y.sum())
        return y + 3

    compiled = way.compile(function)
    return [compiled(torch.ones(4)), compiled(torch.ones(4) + 1)]


@case(torch_wrong="compiled code checks an index itself, and raises another error", fields=("error", "line"))
def an_index_out_of_bounds(way):
    """The generated code's own check raises, warm as cold, and the function works before and after."""

    compiled = way.compile(lambda x, index: x[index] * 2, dynamic=False)
    right = compiled(numbers(), torch.tensor([0, 2]))
    outside = outcome(compiled, numbers(), torch.tensor([0, 5]))
    return {"right": right, "outside": outside, "again": compiled(numbers(), torch.tensor([1, 1]))}


@case(torch_wrong="the compiled result is no view of something unseen", fields=("base",))
def a_map_with_gradients(way):
    """Over rows, with a captured parameter; both have gradients."""
    scale = torch.linspace(0.5, 2.0, 4).requires_grad_()

    def function(x):
        return torch._higher_order_ops.map(lambda row, scale: (row.sin() * scale).cumsum(0), x, scale)

    x = numbers(True)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        out = way.compile(function)(x)
        out.square().sum().backward()
    return {"out": out, "x": x.grad.clone(), "scale": scale.grad.clone()}


@case(torch_wrong="the compiled result is no view of something unseen", fields=("base",))
def a_map_of_dynamic_size(way):
    """As many rows as there are, in one graph."""
    compiled = way.compile(lambda x: torch._higher_order_ops.map(lambda row: row.softmax(0) + row, x), dynamic=True)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        return [compiled(torch.arange(rows * 4.0).reshape(rows, 4) / 7) for rows in (3, 5, 2)]
