"""Group 9: `torch.func` inside compiled functions. (First calls from many threads: test_first_calls.py.) Cases only.

PyTorch's own: dynamo/test_higher_order_ops.py (`FuncTorchHigherOrderOpTests.test_vmap_*`, `test_grad_*`, `test_jvp_*`,
`test_vjp_*`, `test_jacrev_*`, `test_hessian*`, `test_functional_call*`, `test_linearize_*`), functorch/test_eager_
transforms.py (`test_linearize_*`).
"""

import torch
from harness import case
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap

WITHOUT_KERNELS = True


def numbers(rows=3):
    return torch.arange(rows * 4.0).reshape(rows, 4) / 7


@case()
def vmap_in_the_graph(way):
    """Over two inputs with different axes, one not mapped; and one vmap in another."""

    def function(x, y):
        inner = vmap(torch.dot, in_dims=(0, 0))(x, x)
        outer = vmap(vmap(lambda a, b: a * b, in_dims=(0, None)), in_dims=(0, None))(x, torch.ones(()) * 2)
        return inner, vmap(torch.mv, in_dims=(None, 1), out_dims=1)(y, x.t().contiguous()), outer

    return way.compile(function)(numbers(), numbers())


@case()
def vmap_with_random_numbers(way):
    """With one seed, cold and warm draw the same numbers; `different` draws one per row."""

    def function(x):
        drop = torch.nn.functional.dropout
        one = vmap(lambda row: drop(row, 0.5), randomness="same")(x)
        return one, vmap(lambda row: drop(row, 0.5), randomness="different")(x)

    with torch._inductor.config.patch(fallback_random=True):  # the generator's own numbers, so that eager agrees
        return way.compile(function)(torch.ones(3, 4))


@case()
def grad_in_the_graph(way):
    """First and second derivatives, with the value and something beside it."""

    def function(x):
        def loss(x):
            return (x.sin() * x).sum(), x * 2

        (slope, more), again = grad(loss, has_aux=True)(x), grad(lambda x: grad(lambda x: loss(x)[0])(x).sum())(x)
        return slope, more, again, grad_and_value(lambda x: loss(x)[0])(x)

    return way.compile(function)(numbers())


@case(torch_wrong="results are no views of something unseen", fields=("base",))
def jvp_and_vjp_in_the_graph(way):
    """Forward and backward derivatives along a tangent."""

    def function(x, t):
        value, along = jvp(torch.sin, (x,), (t,))
        again, back = vjp(torch.sin, x)
        return value, along, again, back(t)

    return way.compile(function)(numbers(), numbers() + 1)


@case()
def a_jvp_with_a_gradient(way):
    """A derivative along a tangent, and its own gradient backwards: by both of its inputs."""

    def function(x, t):
        return jvp(lambda x: x.sin() * x, (x,), (t,))[1]

    x, t = numbers().requires_grad_(), (numbers() + 1).requires_grad_()
    out = way.compile(function)(x, t)
    out.square().sum().backward()
    return {"out": out, "x": x.grad.clone(), "t": t.grad.clone()}


@case(torch_wrong="results are no views of something unseen", fields=("base",))
def a_jvp_of_each_row(way):
    """`vmap` around it, and two functions in a row within."""

    def function(x, t):
        def row(x, t):
            value, along = jvp(lambda x: x.exp().cumsum(0), (x,), (t,))
            return value, jvp(torch.tanh, (along,), (t,))[1]

        return vmap(row)(x, t)

    return way.compile(function)(numbers(), numbers() + 1)


@case()
def jacobians_in_the_graph(way):
    """Forward over backward, both ways round."""

    def function(x):
        def squares(x):
            return x * x * 2

        return jacrev(squares)(x), jacfwd(squares)(x), hessian(lambda x: squares(x).sum())(x)

    return way.compile(function)(numbers()[0])


@case(torch_wrong="results are no views of something unseen, and were not written in steps", fields=("base", "version"))
def gradients_per_sample(way):
    """`vmap` over `grad` of a module called with other parameters than its own."""
    model = torch.nn.Linear(4, 2)
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def function(weights, x):
        def loss(weights, row):
            return functional_call(model, weights, (row,)).square().sum()

        return vmap(grad(loss), in_dims=(None, 0))(weights, x)

    return way.compile(function)(weights, numbers())


@case(uncompiled="Dynamo leaves a function alone while a transform is at work around it")
def transforms_around_a_compiled_function(way):
    """torch.func outside, torch.compile inside."""
    function = way.compile(lambda x: (x.sin() * x).sum())
    return grad(function)(numbers())


@case()
def autograd_grad_in_the_graph(way):
    """`torch.autograd.grad` inside the function, of an input that requires grad."""

    def function(x):
        y = (x.sin() * x).sum()
        (slope,) = torch.autograd.grad(y, x)
        return slope * 2

    x = numbers().requires_grad_()
    return way.compile(function)(x)
