"""Group 10, fourth part: sizes that depend on data, random numbers, dtypes, and tensors of odd shapes. Cases only.

PyTorch's own: inductor/test_unbacked_symints.py (`test_*nonzero*`, `test_expand*`, `test_item*`), inductor/
test_torchinductor.py (`test_dropout*`, `test_randint*`, `test_zero_dim*`, `test_zero_element_*`, `test_complex*`,
`test_dtype*`, `test_empty*`), test_view_ops.py (`test_conj_*`, `test_view_as_*`).
"""

import torch
from harness import case, outcome


def numbers(rows=3):
    return torch.arange(rows * 4.0).reshape(rows, 4) / 7


@case()
def sizes_that_depend_on_data(way):
    """`nonzero`, masks and `item` inside one graph; another answer, another size, the same code."""

    def function(x):
        found = x[x > 0.9]
        count = (x > 0.5).sum().item()
        torch._check(count > 0)
        return found * 2, torch.nonzero(x > 0.7), torch.ones(count) + 1, count

    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        compiled = way.compile(function, fullgraph=True)
        return [compiled(numbers()), compiled(numbers() + 0.5)]


@case()
def sizes_from_a_list(way):
    """A mixture of experts: rows are split by the counts of another tensor (`tolist`), of one dimension and of two."""

    def function(x, counts):
        parts = torch.split(x, counts[0].tolist())
        (first, _), _ = counts.tolist()
        return torch.cat([part * number for number, part in enumerate(parts)]), x[:first].sum()

    counts = torch.tensor([[1, 2], [3, 0]])
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = way.compile(function, fullgraph=True)
        return [compiled(numbers(), counts), compiled(numbers() + 0.5, counts.flip(1))]


@case()
def a_buffer_made_in_a_graph(way):
    """`torch.nn.Buffer` of what is computed there, as ESMFold makes its constants when they are first asked for."""

    def function(x):
        return torch.nn.Buffer(x + 1) * 2, torch.nn.Buffer(x.sin(), persistent=False)

    return way.compile(function)(numbers())


@case()
def tensors_of_sizes(way):
    """`torch.tensor(x.shape[0])`, of a size that varies: Dynamo puts another function of torch's there."""

    def function(x):
        return x * torch.tensor(x.shape[0]), torch.tensor(x.shape, dtype=torch.float32)

    compiled = way.compile(function, dynamic=True)
    return [compiled(numbers()), compiled(numbers(5))]


@case()
def constructors_by_dtype(way):
    """`torch.LongTensor([0, 2])` and its kin, as older code has them."""

    def function(x):
        return x[torch.LongTensor([0, 2])], torch.FloatTensor([1, 2]) + x[:1, :2], torch.BoolTensor([True, False])

    return way.compile(function)(numbers())


@case()
def operators_on_numbers_alone(way):
    """Results that no tensor went into."""

    def function(x):
        return torch.add(x.shape[0], 3), torch.div(1024, 100), x + 1

    return [way.compile(function)(numbers()), way.compile(function, dynamic=True)(numbers(5))]


@case()
def methods_called_as_functions(way):
    """`torch.Tensor.split(x, 2)`: of those that Python wrote, and of those of C."""

    def function(x):
        of_python = torch.Tensor.split(x, [1, 2]), torch.Tensor.norm(x), torch.Tensor.__rsub__(x, 1)
        return of_python, torch.Tensor.chunk(x, 2), torch.Tensor.view(x, 4, 3)

    return way.compile(function)(numbers())


@case(torch_wrong="what a false `_check` raises, compiled code names by its expression", fields=("line",))
def a_check_of_data_fails(way):
    """A promise about a size that the data break is an error at run time, warm as cold."""

    def function(x):
        count = (x > 0.5).sum().item()
        torch._check(count > 10, lambda: "too few")
        return torch.ones(count) + x.sum()

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = way.compile(function, fullgraph=True)
        return [compiled(numbers() + 1), outcome(compiled, numbers())]


@case()
def a_size_that_breaks_the_graph(way):
    """Without these settings `item` breaks the graph, and the second part has a dynamic number."""

    def function(x):
        return x * x.sum().item() + 1

    compiled = way.compile(function)
    return [compiled(numbers()), compiled(numbers() + 1)]


@case(torch_wrong="compiled code draws other random numbers than eager", fields=("value",))
def random_numbers(way):
    """With one seed cold and warm draw alike, call by call, and leave the generator in one state."""

    def function(x):
        noise = torch.rand_like(x) + torch.randn(4) + torch.randint(0, 9, (3, 4))
        return torch.nn.functional.dropout(x + 1, 0.5) + noise, torch.bernoulli(torch.full((4,), 0.5))

    compiled = way.compile(function)
    torch.manual_seed(5)
    first, second = compiled(numbers()), compiled(numbers())
    torch.manual_seed(5)
    again = compiled(numbers())
    same = bool((first[0] == again[0]).all()) and not bool((first[0] == second[0]).all())
    return {"first": first, "second": second, "same": same, "after": torch.rand(2)}


@case()
def random_numbers_as_in_eager(way):
    """`fallback_random`: eager's numbers, also for permutations and a draw by weights."""

    def function(x):
        return torch.rand_like(x) + torch.randperm(4), torch.multinomial(x[1], 2), torch.nn.functional.dropout(x, 0.5)

    with torch._inductor.config.patch(fallback_random=True):
        return way.compile(function)(numbers())


@case(torch_wrong="compiled code draws other random numbers than eager", fields=("value",))
def dropout_with_a_backward(way):
    """The backward drops what the forward dropped; cold and warm the same."""
    x = (numbers() + 1).requires_grad_()
    out = way.compile(lambda x: torch.nn.functional.dropout(x.sin() * x, 0.5))(x)
    out.sum().backward()
    return {"out": out, "grad": x.grad.clone(), "agree": bool(((out == 0) == (x.grad == 0)).all())}


@case()
def complex_numbers(way):
    """Products, conjugates, absolute values, real views of complex numbers and complex views of real ones."""

    def function(z, x):
        return z * z.conj() + 1j, z.abs(), torch.view_as_real(z * 2), torch.view_as_complex(x), z.imag.neg(), z.conj()

    z = torch.complex(numbers(), numbers() + 1)
    return way.compile(function)(z, numbers().reshape(3, 2, 2))


@case()
def conjugated_inputs(way):
    """A complex input that is lazily conjugated is read as what it means, and is another graph than a plain one."""
    z = torch.complex(numbers(), numbers() + 1)
    compiled = way.compile(lambda z: z * 2, dynamic=False)
    return [compiled(z), compiled(z.conj()), compiled(z)]


@case(torch_wrong="Inductor overlooks that an input is lazily negated", fields=("value",))
def negated_inputs(way):
    """A lazily negated input gets a graph of its own; what Inductor makes of it has the wrong sign."""
    z = torch.complex(numbers(), numbers() + 1)
    compiled = way.compile(lambda x: x * 2, dynamic=False)
    return [compiled(z.imag), compiled(z.conj().imag), compiled(z.imag)]


@case()
def low_precision(way):
    """bfloat16, float16, float8 and small integers: arithmetic, casts and promotion."""

    def function(x):
        half, short = x.to(torch.float16), x.to(torch.bfloat16)
        eight = x.to(torch.float8_e4m3fn)
        bits = (x * 9).to(torch.uint8)
        return half * 2, short + short.sum(), eight, eight.to(torch.float32) * 2, bits // 2, bits.to(torch.int8) * 3

    return way.compile(function)(numbers())


@case()
def every_dtype_goes_through(way):
    """One function, inputs of eleven dtypes: a key and a result for each."""
    compiled = way.compile(lambda x: (x[1:], x.t()), dynamic=False)
    names = "float64 float32 float16 bfloat16 complex64 int64 int32 int16 int8 uint8 bool".split()
    with torch._dynamo.config.patch(recompile_limit=len(names)):
        return {name: compiled(numbers().mul(3).to(getattr(torch, name))) for name in names}


@case()
def empty_and_zero_dimensional(way):
    """Tensors without elements, of many shapes, and without dimensions."""

    def function(empty, flat, scalar):
        return (
            empty * 2,
            empty.sum(),
            torch.cat([flat, empty.reshape(-1)]),
            empty.reshape(4, 0, 1),
            scalar * flat.sum(),
            scalar.expand(3),
        )

    return way.compile(function)(torch.zeros(0, 4), numbers()[0], torch.tensor(2.5))
