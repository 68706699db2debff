"""Group 10, last part: what goes in and what comes out: views, the inputs themselves, numbers, None, many tensors, odd
strides, other kinds of tensors. Cases only.

PyTorch's own: test_aotdispatch.py (`test_output_aliases_input*`, `test_input_output_view_simple`,
`test_min_cut_partitioner_output_tensor_shape_tensor`, `test_dynamic_shape_output_not_in_bw_graph`),
inductor/test_torchinductor.py (`test_output_strides`, `test_multiple_outputs*`, `test_view_*`,
`test_large_*`, `test_scalar_*`), dynamo/test_unspec.py (`test_*float*`, `test_builtin_*`), dynamo/test_misc.py
(`test_returning_*`), test_aot_autograd_cache.py (`test_numpy_*`).
"""

import math

import torch
from harness import case

WITHOUT_KERNELS = True


def numbers(rows=3):
    return torch.arange(rows * 4.0).reshape(rows, 4) / 7


@case()
def views_and_inputs_are_returned(way):
    """Inputs, views of inputs, one view twice, a result: who shares memory with whom."""

    def function(x, y):
        made = y * 2
        upper, lower = x.split([1, 2])
        diagonal = x.diagonal()
        return x, y, upper, lower, diagonal, diagonal, made, x.expand(2, 3, 4), x[::2, 1:], y.detach()

    x, y = numbers(), numbers() + 1
    outs = way.compile(function)(x, y)
    outs[2].add_(100)
    outs[4].mul_(2)
    return {"outs": outs, "x": x, "y": y}


@case()
def a_result_and_its_view(way):
    """They share their memory."""
    made, turned = way.compile(lambda x: (made := x * 2, made.t()))(numbers())
    turned.add_(100)
    return {"made": made, "turned": turned}


@case()
def odd_inputs(way):
    """Expanded, transposed, strided, overlapping and channels-last inputs, by their strides."""
    compiled = way.compile(lambda x: (x * 2, x[1:]), dynamic=False)
    image = torch.arange(24.0).reshape(1, 2, 3, 4)
    inputs = [
        torch.ones(4).expand(3, 4),
        torch.arange(12.0).reshape(4, 3).t(),
        torch.arange(24.0).reshape(3, 8)[:, ::2],
        torch.arange(9.0).as_strided((3, 4), (2, 1)),
        image.to(memory_format=torch.channels_last)[0, 0],
    ]
    return [compiled(x) for x in inputs]


@case()
def none_and_other_outputs(way):
    """None, numbers, strings, sizes, dtypes, devices, nested containers and functions come back as they are."""

    def function(x, flag, name):
        tail = {"none": None, "size": x.shape, "dtype": x.dtype, "device": x.device, "name": name + "!"}
        return x + 1, None, 3, 2.5, flag, [x * 2, (x.shape[0] * 2, "end")], tail, math.pi if flag else slice(1, 2)

    compiled = way.compile(function)
    return [compiled(numbers(), flag, "it") for flag in (True, False)]


@case()
def numbers_as_inputs(way):
    """Integers and floats that become dynamic at the second call, and booleans that do not."""

    def function(x, whole, fraction, flag):
        out = x * whole + fraction
        return (out if flag else -out), whole * 2

    compiled = way.compile(function)
    calls = ((2, 0.5, True), (3, 0.5, True), (4, 1.5, True), (5, 2.5, False))
    return [compiled(numbers(), *call) for call in calls]


@case(bypass="guards that no entry can say")
def a_float_that_is_returned(way):
    """Arithmetic on a Python float that comes back as a float bakes its value in. (torch's own cache keeps no guard on
    it, and serves another value's code.)"""
    compiled = way.compile(lambda x, fraction: (x * fraction, fraction + 1))
    return [compiled(numbers(), fraction) for fraction in (0.5, 1.5, 2.5)]


@case()
def sizes_as_outputs(way):
    """With dynamic sizes: products of sizes, tensors made of them, a size compared with another."""

    def function(x, y):
        rows, columns = x.shape
        return rows * columns, torch.arange(rows) + columns, rows > y.shape[0], x.mean() * rows

    compiled = way.compile(function, dynamic=True)
    return [compiled(numbers(rows), numbers(4)) for rows in (3, 5, 2)]


@case()
def constants_that_look_alike(way):
    """0.0 and -0.0, 1 and True and 1.0, nan and infinity: a graph of its own for each."""

    def build(value):
        return lambda x: torch.full((2,), value)

    found = []
    for value in (0.0, -0.0, 1, True, 1.0, math.nan, math.inf):
        if way.backend is not None:
            torch._dynamo.reset()  # it is the key that is to tell them apart, and not Dynamo's guards
        found.append(1 / way.compile(build(value), dynamic=False)(numbers()))
    return found


@case()
def five_hundred_inputs(way):
    """A list of 500 tensors, each read and every hundredth returned; two are the same tensor."""
    tensors = [torch.full((2,), float(k)) for k in range(499)]
    tensors.append(tensors[7])

    def function(tensors):
        return torch.stack(tensors).sum(0), tensors[::100], tensors[-1]

    return {"out": way.compile(function)(tensors), "tensors": tensors[::100]}


@case(uncompiled="Dynamo leaves sparse tensors to eager")
def a_sparse_input(way):
    """Tensors that are not strided reach no graph."""
    x = torch.eye(3).to_sparse()
    return way.compile(lambda x, y: torch.sparse.mm(x, y) * 2)(x, numbers())


@case()
def functions_of_numpys(way):
    """Functions of numpy's on arrays are traced as torch's own versions of them, and cached."""
    import numpy

    def function(x, y):
        return numpy.round(x), numpy.sum(numpy.multiply(x, y)), numpy.linalg.norm(y, axis=1)

    rounded, total, norms = way.compile(function)(numbers().numpy(), numbers().numpy() + 1)
    return [torch.from_numpy(numpy.asarray(array)) for array in (rounded, total, norms)]


@case()
def methods_and_indices_of_numpys_arrays(way):
    """Reshaped, sliced, turned and reduced, by their methods and by indices."""

    def function(x):
        turned = x.reshape(4, -1).T
        return turned[1:, ::2].mean(axis=0), x.flatten()[:5].cumsum(), turned.max(), x.shape[1]

    means, sums, greatest, columns = way.compile(function)(numbers().numpy())
    return [torch.as_tensor(array) for array in (means, sums, greatest)] + [columns]


@case()
def operators_on_numpys_arrays(way):
    """Arithmetic on arrays goes through wrappers of Dynamo's: of functions, operators, methods and attributes."""
    import numpy

    return way.compile(lambda x: torch.from_numpy(numpy.sin(x.numpy()) * 2 + x.numpy().T.sum()))(numbers())
