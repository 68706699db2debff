"""Group 1, optimizers: steps that change parameters, states, gradients and statistics in place.

PyTorch's own: test_compiled_optimizers.py (`test_sgd*`, `test_adam*`, `test_get_value_on_static_address`, the foreach
variants), test_aotdispatch.py (`test_input_mutation_requires_grad_no_grad`,
`test_input_mutation_batchnorm`, `test_batchnorm`, `test_buffer_copied_in_graph*`). Cases only.
"""

import torch
from harness import case


@case()
def a_step_in_the_style_of_shampoo(way):
    """Preconditioners and blocks of parameters that require grad, all changed in place by foreach ops under no_grad."""

    def step(blocks, grads, factors):
        torch._foreach_mul_(factors, 0.9)
        torch._foreach_add_(factors, [g @ g.t() for g in grads])
        updates = [factor @ g for factor, g in zip(factors, grads, strict=True)]
        torch._foreach_add_(blocks, updates, alpha=-0.1)

    weight = torch.nn.Parameter(torch.arange(12.0).reshape(4, 3) / 10)
    (weight * weight).sum().backward()
    blocks, grads = [weight[:2], weight[2:]], [weight.grad[:2], weight.grad[2:]]
    factors = [torch.eye(2) for _ in range(2)]
    version = weight._version
    with torch.no_grad():
        way.compile(step)([b.detach() for b in blocks], grads, factors)
    direct = [torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(2, 3) / 2)]
    with torch.no_grad():
        way.compile(step)(direct, grads, factors)
    return {"weight": weight, "factors": factors, "direct": direct, "rose": weight._version > version}


@case()
def an_sgd_step(way):
    """`torch.optim.SGD.step` compiled: parameters and momentum buffers over two steps."""
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = way.compile(optimizer.step)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).square().sum().backward()
        step()
    return {"weights": list(model.parameters()), "state": list(optimizer.state_dict()["state"].values())}


@case()
def an_adam_step_with_a_changing_rate(way):
    """Adam's state with its counters, and a learning rate that changes between steps."""
    weight = torch.nn.Parameter(torch.arange(4.0))
    optimizer = torch.optim.Adam([weight], lr=0.1)
    step = way.compile(optimizer.step)
    for rate in (0.1, 0.05, 0.025):
        optimizer.param_groups[0]["lr"] = rate
        weight.grad = weight.detach().cos()
        step()
    return {"weight": weight, "state": optimizer.state_dict()["state"][0]}


@case()
def an_average_of_parameters(way):
    """Averaged weights by `_foreach_lerp_`, and gradients clipped to a norm."""

    def f(averages, weights, grads):
        torch._foreach_lerp_(averages, weights, 0.1)
        total = torch.nn.utils.get_total_norm(grads)
        torch._foreach_mul_(grads, torch.clamp(1.0 / total, max=1.0))
        return total

    weights = [torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(2))]
    averages, grads = [torch.zeros(4), torch.zeros(2)], [torch.arange(4.0), torch.ones(2)]
    with torch.no_grad():
        total = way.compile(f)(averages, weights, grads)
    return {"total": total, "averages": averages, "grads": grads, "weights": weights}


@case()
def a_gradient_read_and_cleared(way):
    """`.grad` of an argument is scaled, used and cleared in the graph."""

    def f(p):
        with torch.no_grad():
            p.grad.mul_(0.5)
            p.sub_(p.grad)
            p.grad.zero_()
        return p.sum()

    p = torch.nn.Parameter(torch.arange(4.0))
    (p * p).sum().backward()
    with torch.no_grad():
        return {"out": way.compile(f)(p), "p": p}


@case()
def buffers_of_a_module_in_training(way):
    """Batch norm's running statistics and its integer counter, over two calls."""
    norm = torch.nn.BatchNorm1d(3)
    model = way.compile(norm)
    x = torch.arange(12.0).reshape(4, 3).sin().requires_grad_()
    outs = [model(x), model(x)]
    outs[1].square().sum().backward()
    return {"outs": outs, "state": norm.state_dict(), "x": x, "weight": norm.weight}
