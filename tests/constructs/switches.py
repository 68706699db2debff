"""Group 12, second part: settings of torch's that change how graphs are made, kept or run. Cases only.

PyTorch's own: dynamo/test_aot_autograd_cache.py (`test_compiled_autograd_bypass`,
`test_inference_graph_cache_hit_with_compiled_autograd_enabled`, `test_cache_lazy_backward_for_compiled_autograd`,
`test_multi_graph_specialization`, `test_unsafe_mark_cacheable`, `test_private_namespace`, `test_safe_torchfunction`,
`test_custom_autograd_function*`), inductor/test_codecache.py (`test_auto_functionalized_caching`, `test_freezing`,
`test_cache_hot_load_caching_precompile`), inductor/test_compiled_autograd.py (`test_basic`, `test_inputs_aliasing_*`).
"""

import contextlib
import math
import operator

import torch
import torch._dynamo.compiled_autograd
import torch._functorch.config
import torch._inductor.config
from harness import case, outcome
from torch._inductor.custom_graph_pass import CustomGraphPass, CustomRuntimeEstimator
from torch.nn.attention import SDPBackend, sdpa_kernel

WITHOUT_KERNELS = True


def numbers(rows=3, requires_grad=False):
    return (torch.arange(rows * 4.0).reshape(rows, 4) / 7).requires_grad_(requires_grad)


@case()
def compiled_autograd_inside(way):
    """`compiled_autograd`: the backward that a compiled function asks for is traced as well, with lists of inputs."""

    def function(x, y):
        loss = (x.cos() + y).sum()
        return torch.autograd.grad(loss, [x, y])

    with torch._dynamo.config.patch(compiled_autograd=True):
        return way.compile(function)(numbers(requires_grad=True), numbers(requires_grad=True))


@case()
def compiled_autograd_without_a_backward(way):
    """With the setting on, a graph that needs no backward is one like any other."""
    with torch._dynamo.config.patch(compiled_autograd=True):
        return way.compile(lambda x: (x.cos() * 2).sum())(numbers())


@case()
def compiled_autograd_around_a_backward(way):
    """A compiled forward that is found again, under a backward that compiled autograd traces anew."""
    compiled, found = way.compile(lambda x, y: x.sin() @ y, dynamic=True), []
    for rows in (3, 5):
        x, y = numbers(rows, requires_grad=True), numbers(4, requires_grad=True)
        out = compiled(x, y)
        with contextlib.ExitStack() as around:
            if way.backend is not None:
                tracing = torch.compile(backend=way.backend, dynamic=True)
                around.enter_context(torch._dynamo.compiled_autograd._enable(tracing))
            out.sum().backward()
        found.append((out, x, y))
    return found


def traced_backward(way, dynamic=None):
    """Around a backward, so that compiled autograd makes one graph of it; nothing for plain torch."""
    if way.backend is None:
        return contextlib.nullcontext()
    return torch._dynamo.compiled_autograd._enable(torch.compile(backend=way.backend, dynamic=dynamic))


@case(torch_wrong="what a hook clones inside compiled autograd is the gradient itself, which later steps add to")
def compiled_autograd_adds_to_gradients(way):
    """Three steps of two layers: the first makes the gradients, the others add to them, with hooks on the way."""
    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    with torch.no_grad():
        for number, parameter in enumerate(layers.parameters()):
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape) * (number + 1))
    compiled, seen = way.compile(layers), []
    layers[0].weight.register_hook(lambda grad: grad * 2)
    layers[2].bias.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.grad.clone()))
    for rows in (3, 3, 5):
        x = numbers(rows, requires_grad=True)
        with traced_backward(way):
            compiled(x).pow(2).sum().backward()
    return [*(parameter.grad.clone() for parameter in layers.parameters()), *seen]


@case()
def compiled_autograd_over_two_forwards(way):
    """One backward through two compiled functions, one of which mutates its input and changes the layout."""
    first = way.compile(lambda x: x.t().contiguous().sin())
    second = way.compile(lambda x, y: (x.mul_(2) @ y, x + 1))
    x, y = numbers(4, requires_grad=True), numbers(4, requires_grad=True)
    product, other = second(first(x), y)
    with traced_backward(way):
        (product.sum() + other.prod()).backward()
    return x, y


@case()
def compiled_autograd_asks_for_gradients(way):
    """`torch.autograd.grad` with weights, twice over one forward, in bfloat16 under autocast."""
    compiled = way.compile(lambda x, y: torch.nn.functional.gelu(x @ y))
    x, y = numbers(4, requires_grad=True), numbers(4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = compiled(x, y)
    found = []
    for weight in (1.0, 3.0):
        with traced_backward(way):
            grads = torch.autograd.grad(out, [x, y], torch.full_like(out, weight), retain_graph=True)
        found += [grad.clone() for grad in grads]
    return found


@case()
def specialised_by_the_user(way):
    """`mark_dynamic(specialize_on=...)` makes Dynamo call the backend once more for each size, while it runs."""
    compiled = way.compile(lambda x: x * 5)
    x = torch.arange(5.0)
    torch._dynamo.mark_dynamic(x, 0, specialize_on=[lambda size: size == 8, lambda size: size == 16])
    return [compiled(x), compiled(torch.arange(8.0)), compiled(torch.arange(16.0)), compiled(torch.arange(7.0))]


@case()
def specialised_with_a_backward(way):
    """For a size that the user named and for another one; gradients of each."""
    compiled, found = way.compile(lambda x, w: (x @ w).relu()), []
    w = torch.linspace(-1, 1, 8).reshape(4, 2).requires_grad_()
    for rows in (5, 8, 6):
        x = (torch.arange(rows * 4.0).reshape(rows, 4) / 7).requires_grad_()
        torch._dynamo.mark_dynamic(x, 0, specialize_on=[lambda size: size == 8])
        out = compiled(x, w)
        out.sum().backward()
        found.append([out, x.grad, w.grad.clone()])
    return found


@case()
def specialised_in_two_inputs(way):
    """Each has sizes of its own that the user named."""
    compiled, found = way.compile(lambda x, y: (x.sum() * y, x + 1)), []
    for rows, columns in ((5, 6), (8, 6), (5, 4), (8, 4)):
        x, y = torch.arange(float(rows)), torch.arange(float(columns))
        torch._dynamo.mark_dynamic(x, 0, specialize_on=[lambda size: size == 8])
        torch._dynamo.mark_dynamic(y, 0, specialize_on=[lambda size: size == 4])
        found.append(compiled(x, y))
    return found


def tripled(x):
    return x * 3


@case()
def a_function_that_is_allowed_in_the_graph(way):
    """`allow_in_graph` puts a user's function into the graph as it is: its code is part of the key."""
    allowed = torch._dynamo.allow_in_graph(tripled)
    return way.compile(lambda x: allowed(x + 1))(numbers())


@case()
def a_library_that_allows_its_functions_in_the_graph(way):
    """einops before 0.8.2: its tables of frameworks cannot be followed, and all of its code is part of the key."""
    from einops import einsum, pack, rearrange, reduce, repeat

    def function(x):
        heads = rearrange(x, "b (h d) -> b h d", h=2)
        scores = einsum(heads, heads, "b h i, b h j -> b i j")
        whole, _ = pack([reduce(scores, "b i j -> b i", "mean"), repeat(x[:, 0], "b -> b n", n=2)], "b *")
        return whole

    x = numbers(requires_grad=True)
    out = way.compile(function)(x)
    out.sum().backward()
    return out, x


@case()
def backends_of_attention_chosen_in_the_graph(way):
    """`sdpa_kernel` within the compiled function, with an order: the choice is in the graph."""

    def function(x):
        q = x.reshape(1, 1, *x.shape)
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
            first = torch.nn.functional.scaled_dot_product_attention(q, q, q)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return first + torch.nn.functional.scaled_dot_product_attention(q, q, q)

    return way.compile(function)(numbers())


class Holder:
    by = 3


HOLDER = Holder()


def scaled(x):
    return x * HOLDER.by


@case()
def a_function_that_is_allowed_in_the_graph_and_reads_an_object(way):
    """What its code reads is followed: an object is its class and its attributes."""
    allowed = torch._dynamo.allow_in_graph(scaled)
    return way.compile(lambda x: allowed(x + 1))(numbers())


class Allowed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


@case()
def an_autograd_function_that_is_allowed_in_the_graph(way):
    """The same of an autograd.Function: its `apply` is called in the graph. (torchao's float8 training.)"""
    allowed = torch._dynamo.allow_in_graph(Allowed)
    x = numbers(requires_grad=True)
    out = way.compile(lambda x: allowed.apply(x) + 1)(x)
    out.sum().backward()
    return out, x


@case()
def a_users_function_in_torchs_namespace(way):
    """A function that someone hangs into `torch` has torch's address; its code is part of the key."""
    torch._dynamo.allow_in_graph(tripled)
    torch._tripled_by_a_user = tripled
    try:
        return way.compile(lambda x: torch._tripled_by_a_user(x) + 1)(numbers())
    finally:
        del torch._tripled_by_a_user


@case()
def functions_of_sizes(way):
    """`sym_int`, `sym_float`, `sym_sum`, `sym_max` and comparisons of sizes are part of the graph, or of no graph."""

    def function(x):
        rows, columns = x.shape
        total = torch.sym_sum([rows, columns, torch.sym_int(torch.sym_float(rows) / 2)])
        return x * total, torch.sym_max(rows, columns), x.size() == torch.Size([3, 4]), torch.sym_not(rows == 3)

    compiled = way.compile(function, dynamic=True)
    return [compiled(numbers(rows)) for rows in (3, 5, 7)]


@case()
def pythons_math_of_sizes(way):
    """`math.cos` and its kin of a size or a number that varies, as in a schedule written by hand."""

    def function(x, step):
        rows = x.shape[0]
        waves = math.sin(rows) + math.tan(rows) + math.asin(1 / rows) + math.acos(1 / rows) + math.atan(rows)
        curves = math.sinh(rows / 8) + math.cosh(rows / 8) + math.tanh(rows / 4) + math.log2(rows) + math.sqrt(rows)
        return x * waves + curves - 0.1 * (1 + math.cos(math.pi * step / 10)) * x.sign()

    compiled = way.compile(function)
    return [compiled(numbers(rows), step) for step, rows in enumerate((3, 5, 7, 8))]


@torch.library.custom_op("constructs_switches::fill_sin", mutates_args=["x"])
def fill_sin(x: torch.Tensor, y: torch.Tensor) -> None:
    x.copy_(y.sin())


@torch.library.custom_op("constructs_switches::fill_cos", mutates_args=["x"])
def fill_cos(x: torch.Tensor, y: torch.Tensor) -> None:
    x.copy_(y.cos())


@case()
def operators_that_mutate_in_both_ways(way):
    """Functionalised the first way and the second, two operators with one schema: each keeps its code."""

    def function(x, operator):
        made = torch.empty_like(x)
        operator(made, x)
        return made + 1

    found = []
    for second in (False, True):
        with torch._inductor.config.patch(enable_auto_functionalized_v2=second):
            torch._dynamo.reset()
            compiled = way.compile(function, fullgraph=True)
            found += [compiled(numbers(), operator) for operator in (fill_sin, fill_cos)]
    return found


class Frozen(torch.nn.Module):
    """Weights that are folded, packed, written to, given back and read by more than one."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.BatchNorm2d(4)
        self.last = torch.nn.Linear(4, 4, bias=False)
        self.scale = torch.nn.Parameter(torch.tensor([0.5, 2.0, 1.0, 3.0]))
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x):
        self.calls.add_(1)
        y = self.norm(self.first(x * 2.5)).relu().mean((2, 3))
        y = self.last(y * self.scale.exp() + self.scale.sum()) @ self.last.weight.t()
        y = y + torch.tensor([1.0, 2.0, 3.0, 4.0])
        return y * self.calls[0], self.scale, self.scale.view(2, 2)


@case()
def frozen_weights(way):
    """Inductor's freezing bakes the weights in: modules that differ in theirs alone, each with its own."""
    found = []
    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        for scale in (1.0, 2.0):
            layer = torch.nn.Linear(4, 2)
            layer.weight.fill_(scale)
            torch._dynamo.reset()
            found.append(way.compile(layer)(numbers()) - layer.bias)
    return found


@case()
def frozen_weights_of_every_kind(way):
    """Folded, packed for oneDNN, written into the code, shared; a buffer that is written to, a weight given back."""
    torch.manual_seed(0)
    module = Frozen().eval()
    module.norm.running_mean.normal_()
    module.norm.running_var.uniform_(1, 2)
    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        run, x = way.compile(module), torch.rand(2, 1, 5, 5)
        found = [run(x), run(x)]
    return (
        [one[0].clone() for one in found],
        module.calls,
        found[0][1] is module.scale,
        module.scale.data_ptr() == found[0][2].data_ptr(),
    )


@case()
def frozen_weights_of_dynamic_sizes(way):
    """Under autocast: the code has the weights in its type."""
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))
    with torch.no_grad(), torch._inductor.config.patch(freezing=True), torch.autocast("cpu", torch.bfloat16):
        run = way.compile(module, dynamic=True)
        return [run(torch.ones(size, 4)) for size in (2, 5)]


@case()
def frozen_weights_folded_under_autocast(way):
    """A compile folds without it: a product of weights stays what it is."""
    weight = torch.nn.Parameter((torch.arange(1024.0).reshape(32, 32) / 1000).sin())

    class Product(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = weight

        def forward(self, x):
            with torch.autocast("cpu", enabled=False):
                return self.weight @ self.weight.t() + x

    with torch.no_grad(), torch._inductor.config.patch(freezing=True), torch.autocast("cpu", torch.bfloat16):
        return way.compile(Product())(torch.ones(32, 32))


@case(bypass="freezing")
def frozen_weights_that_are_taken_away(way):
    """`freezing_discard_parameters`: the module has none afterwards."""
    settings = {"freezing": True, "freezing_discard_parameters": True}
    with torch.no_grad(), torch._inductor.config.patch(settings):
        return way.compile(torch.nn.Linear(4, 4))(numbers()[:4])


@case(bypass="force_disable_caches")
def all_caches_switched_off(way):
    """`force_disable_caches` means this one, too."""
    with torch.compiler.config.patch(force_disable_caches=True):
        return way.compile(lambda x: x.sin() * 9)(numbers())


@case()
def precompiled_frames(way):
    """`caching_precompile`: torch keeps Dynamo's own work as well."""
    with torch._dynamo.config.patch(caching_precompile=True):
        return outcome(way.compile(lambda x: x.sin() * 11), numbers())


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.sin())
        return x.cos()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0] / 2


class Thirded(Halved):
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0] / 3


@case()
def autograd_functions_where_torch_caches_them(way):
    """With `autograd_cache_allow_custom_autograd_functions`; of two that differ in the backward each keeps its own."""
    found = []
    with torch._functorch.config.patch(autograd_cache_allow_custom_autograd_functions=True):
        for function in (Halved, Thirded):
            x = numbers(requires_grad=True)
            out = way.compile(lambda x, function=function: function.apply(x) * 2)(x)
            out.sum().backward()
            found.append((out, x))
    return found


@case()
def without_donated_buffers(way):
    """With `donated_buffer` off nothing that was saved is overwritten; it is another key, and the same gradient."""
    found = []
    for donated in (True, False):
        torch._dynamo.reset()
        x = numbers(requires_grad=True)
        kernels = torch._inductor.config.patch(fallback_by_default=False)
        with kernels, torch._functorch.config.patch(donated_buffer=donated):
            out = way.compile(lambda x: ((x @ x.t()).sin() @ x).exp().sum())(x)
            out.backward()
        found.append((out, x))
    return found


class Tidy(CustomGraphPass):
    """Takes multiplications by one out of a graph."""

    def __init__(self, identity):
        self.identity = identity

    def __call__(self, graph):
        for node in list(graph.nodes):
            if node.target is operator.mul and node.args[0] == 1:
                node.replace_all_uses_with(node.args[1])
                graph.erase_node(node)

    def uuid(self):
        return self.identity


def tidied(way, *passes):
    found = []
    for each in passes:
        torch._dynamo.reset()
        with torch._inductor.config.patch(pre_grad_custom_pass=each):
            found.append(way.compile(lambda x: 1 * x + 13)(numbers()))
    return found


@case()
def passes_with_an_identity(way):
    """A pass of the user's over the graph is known by its `uuid()`: each has code of its own, found again."""
    return tidied(way, Tidy("first"), Tidy("second"), Tidy("first"))


@case(bypass="pre_grad_custom_pass")
def a_pass_without_an_identity(way):
    """Nothing says what it does, whenever torch would run it."""
    return tidied(way, Tidy(None))


class Estimator(CustomRuntimeEstimator):
    def __init__(self, identity):
        self.identity = identity

    def __call__(self, node):
        return 1.0

    def uuid(self):
        return self.identity


def budgeted(way, *estimators):
    found = []
    for estimator in estimators:
        torch._dynamo.reset()
        x = numbers(requires_grad=True)
        settings = {"activation_memory_budget": 0.5, "activation_memory_budget_runtime_estimator": estimator}
        with torch._functorch.config.patch(settings):
            out = way.compile(lambda x: (x @ x.t()).sin() @ x)(x)
        out.sum().backward()
        found.append((out, x))
    return found


@case()
def estimators_with_an_identity(way):
    """What says how long a node takes, for the partitioner, is known by its `uuid()`."""
    return budgeted(way, Estimator("first"), Estimator("second"))


@case(bypass="activation_memory_budget_runtime_estimator")
def an_estimator_without_an_identity(way):
    """One whose `uuid()` is None."""
    return budgeted(way, Estimator(None))
