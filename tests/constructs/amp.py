"""Group 13: autocast inside compiled functions, as mixed precision is written. Cases only.

PyTorch's own: dynamo/test_ctx_manager.py (`test_autocast`, `test_autocast_cpu`, `test_autocast_graph_break_*`,
`test_nested_autocast`, `test_autocast_arguments_binding`), dynamo/test_aot_autograd_cache.py (`test_autocast`).
"""

import torch
from harness import case

WITHOUT_KERNELS = True


def layers():
    """Two layers with fixed weights."""
    torch.manual_seed(3)
    return torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)


def numbers():
    return torch.linspace(-1, 1, 24).reshape(3, 8)


def trained(way, function, modules, x=None):
    """Outputs and gradients of one step."""
    x = numbers().requires_grad_() if x is None else x
    out = way.compile(function)(x)
    out.float().square().sum().backward()
    weights = [weight.grad.clone() for module in modules for weight in module.parameters()]
    return {"out": out.clone(), "x": x.grad.clone(), "weights": weights}


@case()
def a_training_step_under_bfloat16(way):
    """Matrix products in bfloat16, the loss in float32; gradients of the weights in float32."""
    one, other = layers()

    def step(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return other(torch.nn.functional.gelu(one(x)))

    return trained(way, step, (one, other))


@case()
def autocast_with_its_own_dtype(way):
    """Without a dtype it is the process's; with float16 another."""
    one, other = layers()
    found = []
    for options in ({}, {"dtype": torch.float16}):

        def step(x, options=options):
            with torch.autocast("cpu", **options):
                return other(one(x))

        with torch.no_grad():
            found.append(way.compile(step)(numbers()))
    return found


@case()
def autocast_off_inside_autocast(way):
    """As rotary embeddings do: angles in float32 between products in bfloat16."""
    one, other = layers()

    def step(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = one(x)
            with torch.autocast("cpu", enabled=False):
                angles = y.float() @ y.float().T
            return other(y) * angles.cos()[:, :1]

    return trained(way, step, (one, other))


@case()
def autocast_around_a_part(way):
    """Entered and left twice; what is between runs in float32."""
    one, other = layers()

    def step(x):
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            y = one(x)
        z = (y.float() @ one.weight).tanh()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return other(z)

    return trained(way, step, (one, other))


@case()
def autocast_around_the_compiled_function(way):
    """Entered outside: a state of the process; the same function without it is another graph."""
    one, other = layers()
    compiled = way.compile(lambda x: other(one(x)))
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        inside = compiled(numbers())
    with torch.no_grad():
        return [inside, compiled(numbers())]


@case()
def autocast_and_checkpoint(way):
    """The part that is computed again in the backward is computed in the same precision."""
    one, other = layers()

    def part(x):
        return torch.relu(one(x))

    def step(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return other(torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False))

    return trained(way, step, (one, other))


@case()
def an_operator_with_a_cast_of_its_own(way):
    """`custom_fwd` and `custom_bwd` of an autograd.Function, which run in float32 whatever is around them."""

    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            return grad @ w.T, x.T @ grad

    one, other = layers()

    def step(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return other(Product.apply(one(x), one.weight))

    return trained(way, step, (one, other))
