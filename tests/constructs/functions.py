"""Group 10, second part: `autograd.Function`, and how compiled code takes part in autograd. Cases only.

PyTorch's own: dynamo/test_autograd_function.py (`test_autograd_function_*`, `test_mark_non_differentiable`, `test_once_
differentiable`, `test_function_with_bound_free_variable`), testing/_internal/autograd_function_db.py,
test_aotdispatch.py (`test_multi_output`, `test_complex_linear`, `test_no_grad_input_output`, `test_grad_context`,
`test_some_outputs_dont_require_grad_*`, `test_output_aliases_*`, `test_outputs_are_aliased`,
`test_aot_dispatch_output_requires_grad_in_no_grad*`, `test_input_output_aliase_custom_autograd_function`).
"""

import torch
import torch._inductor.config
from harness import case, raised

WITHOUT_KERNELS = True


def numbers(requires_grad=True):
    return (torch.arange(12.0).reshape(3, 4) / 7).requires_grad_(requires_grad)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x.sin() * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos() * ctx.factor * 3, None  # three times the truth, so that it shows who was asked


class Split(torch.autograd.Function):
    """`setup_context`, an output that is not differentiable, a gradient that was not needed."""

    @staticmethod
    def forward(x, y):
        return x * y, (x > y).float()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad, _):
        x, y = ctx.saved_tensors
        return grad * y * 2, grad * x if ctx.needs_input_grad[1] else None


class Doubled(torch.autograd.Function):
    """Changes its input in place."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


@case()
def a_function_with_a_backward_of_its_own(way):
    """The user's backward runs, with what the forward saved, for each factor."""
    compiled, found = way.compile(lambda x, factor: Scale.apply(x * 2, factor) + 1, dynamic=False), []
    for factor in (2.0, 3.0):
        x = numbers()
        out = compiled(x, factor)
        out.sum().backward()
        found.append({"out": out, "grad": x.grad.clone()})
    return found


@case()
def a_function_with_several_outputs(way):
    """Context set up apart from the forward; one output without a gradient; one input that needs none."""
    x, y = numbers(), numbers(requires_grad=False) + 1
    out, mask = way.compile(lambda x, y: Split.apply(x, y))(x, y)
    out.sum().backward()
    return {"out": out, "mask": mask, "grad": x.grad.clone(), "none": y.grad}


class Outer(torch.autograd.Function):
    """Calls another one, forward and backward; keeps a number, a string and a tuple."""

    @staticmethod
    def forward(ctx, x, how, sizes):
        ctx.save_for_backward(x)
        ctx.how, ctx.sizes = how, sizes
        return Scale.apply(x, 2.0).reshape(sizes)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        grad = grad.reshape(x.shape)
        return (grad * x if ctx.how == "input" else grad.cos()) * len(ctx.sizes), None, None


@case()
def a_function_that_calls_another(way):
    """What the context keeps beside tensors decides what the backward does."""
    found = []
    for how in ("input", "cosine"):
        x = numbers()
        out = way.compile(lambda x, how=how: Outer.apply(x, how, (4, 3)) + 1)(x)
        out.sum().backward()
        found.append({"out": out, "grad": x.grad.clone()})
    return found


@case()
def a_function_twice_with_an_input_that_is_an_output(way):
    """Returned as it came in, and used again; two calls in one graph."""

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x.view_as(x), x * y

        @staticmethod
        def backward(ctx, one, other):
            return one + other * 2, other * 3

    x, y = numbers(), numbers()
    one, other = way.compile(lambda x, y: [part.sin() for part in Same.apply(*Same.apply(x * 1, y))])(x, y)
    (one + other).sum().backward()
    return {"one": one, "other": other, "x": x.grad.clone(), "y": y.grad.clone()}


@case()
def a_function_that_changes_its_input(way):
    """`mark_dirty`: what came in goes out, changed. Dynamo leaves it to Python, between two graphs."""
    x = numbers()
    out = way.compile(lambda x: Doubled.apply(x * 1) + 1)(x)
    out.sum().backward()
    return {"out": out, "grad": x.grad.clone()}


@case()
def a_function_without_gradients(way):
    """Under no_grad only the forward of an autograd.Function is traced: an ordinary graph."""
    with torch.no_grad():
        return way.compile(lambda x: Scale.apply(x, 2.0) + 1)(numbers())


@case()
def grad_modes_inside(way):
    """Half of a function under no_grad, a detached value, grad mode set by the function: gradients of the rest only."""

    def function(x):
        with torch.no_grad():
            fixed = x.sin()
        with torch.enable_grad():
            free = x * fixed
        return free, fixed, x.detach() * 2, free + x.detach()

    x = numbers()
    outs = way.compile(function)(x)
    (outs[0].sum() + outs[3].sum()).backward()
    return {"outs": outs, "grad": x.grad.clone()}


@case()
def the_same_code_with_and_without_gradients(way):
    """A forward under no_grad has no backward, one that needs it has; neither serves for the other."""
    function, found = way.compile(lambda x: x.sin() * x), []
    for requires_grad in (False, True, False):
        x = numbers(requires_grad)
        out = function(x)
        found.append([out, torch.autograd.grad(out.sum(), x)[0].clone() if requires_grad else None])
    with torch.no_grad():
        found.append(function(numbers()))
    with torch.inference_mode():
        found.append(function(numbers(requires_grad=False)).tolist())
    return found


@case()
def inference_mode_within(way):
    """A decorated function within the compiled one, and a block: the graph enters the mode by itself."""

    @torch.inference_mode()
    def decorated(x):
        return x.cos() * 2

    def function(x):
        with torch.inference_mode():
            y = x.sin()
        return decorated(x) + 1, y

    return [out.tolist() for out in way.compile(function)(numbers(requires_grad=False))]


@case()
def only_some_inputs_and_outputs_have_gradients(way):
    """One input requires grad, one does not; one output is used, one not, one is an integer."""
    x, y = numbers(), numbers(requires_grad=False)
    outs = way.compile(lambda x, y: (x * y, x + y, y * 2, (x > y).long()))(x, y)
    outs[0].sum().backward()
    return {"outs": outs, "grad": x.grad.clone(), "none": y.grad}


@case()
def odd_tangents(way):
    """Gradients that come back expanded, transposed or of another stride than the compiler guessed."""
    function, found = way.compile(lambda x: x.sin() * x), []
    for tangent in (torch.ones(()).expand(3, 4), torch.ones(4, 3).t(), torch.ones(3, 8)[:, ::2]):
        x = numbers()
        function(x).backward(tangent)
        found.append(x.grad.clone())
    return found


def kernels():
    return torch._inductor.config.patch(fallback_by_default=False)


def layers(x):
    """Saves results of matrix products for its backward, which Inductor likes to overwrite."""
    return ((x @ x.t()).sin() @ x).exp().sum()


@case()
def a_backward_repeated(way):
    """With `retain_graph` it runs again to the same gradient; after a run without it is refused in torch's words."""
    x = numbers()
    with kernels():
        out = way.compile(layers)(x)
    out.backward(retain_graph=True)
    first = x.grad.clone()
    out.backward()
    return {"first": first, "both": x.grad.clone(), "refused": raised(out.backward)}


@case()
def a_graph_kept_after_one_that_was_not(way):
    """Code whose first backward did not keep the graph can keep it the next time. (Plain Inductor refuses: it compiled
    the backward to overwrite what was saved. Here it is compiled ahead, and then overwrites copies.)"""
    compiled, x = way.compile(layers), numbers()
    with kernels():
        compiled(x).backward()
    once = x.grad.clone()
    out = compiled(x)
    out.backward(retain_graph=True)
    (again,) = torch.autograd.grad(out, x)
    (kept,) = torch.autograd.grad(compiled(x), x, create_graph=True)
    return {"once": once, "twice": x.grad.clone(), "again": again, "kept": kept.detach().clone()}


@case(torch_wrong="the backward of compiled code cannot be differentiated again")
def a_second_derivative(way):
    """Refused when it is asked for, in torch's words."""
    x = numbers()
    out = way.compile(lambda x: (x.sin() * x).sum())(x)
    (grad,) = torch.autograd.grad(out, x, create_graph=True)
    try:
        (second,) = torch.autograd.grad(grad.sum(), x)
    except RuntimeError:
        second = raised(torch.autograd.grad, grad.sum(), x)
        return {"grad": grad.detach(), "second": second}
    return {"grad": grad.detach(), "second": second}


@case()
def several_gradients_accumulate(way):
    """Three calls, one backward of all; then a second step on top."""
    weight = torch.nn.Parameter(torch.ones(4))
    function, found = way.compile(lambda x, weight: (x * weight).sin()), []
    for _ in range(2):
        sum(function(numbers(requires_grad=False) + k, weight).sum() for k in range(3)).backward()
        found.append(weight.grad.clone())
    return found


@case()
def outputs_that_are_views_with_history(way):
    """Views of an input and of an intermediate that require grad: written in place, then differentiated."""

    def function(x):
        y = x * 2
        return x.view(-1), y.t(), y[0]

    x = numbers()
    base = x * 1
    flat, turned, row = way.compile(function)(base)
    flat.mul_(2)
    turned.mul_(3)
    (flat.sum() + turned.sum() + row.sum()).backward()
    return {"flat": flat.detach(), "turned": turned.detach(), "row": row.detach(), "grad": x.grad.clone()}


@case()
def gradients_left_on_parameters(way):
    """A layer's gradients, zeroed and set to None between steps."""
    layer, found = torch.nn.Linear(4, 2), []
    step = way.compile(lambda x: layer(x).square().sum())
    for forget in (True, False, True):
        layer.zero_grad(set_to_none=forget)
        step(numbers(requires_grad=False)).backward()
        found.append({"weight": layer.weight.grad.clone(), "bias": layer.bias.grad.clone()})
    return found
