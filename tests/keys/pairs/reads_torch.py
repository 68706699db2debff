"""What code that a graph reaches asks torch for while it is traced: ranks, settings, tables, replaced functions."""

from __future__ import annotations

import functools
import os

import torch
import torch.distributed as dist
from harness import compiled, gradient, gradient_of_backward, operator, pair, values
from torch.distributed import get_world_size as size_of_the_job
from torch.testing._internal.two_tensor import TwoTensor


def scaled_by(read):
    """The gradient through an operator whose backward multiplies by `read()`."""
    return gradient_of_backward(lambda ctx, g: g * read())


def job(rank=0, size=2):
    """This process as one of a job, whose collectives do nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)


# --- ranks ----------------------------------------------------------------------------------------------


@pair()
def the_rank_that_a_backward_slices_by(v):
    """Sequence parallelism: a rank's own part of the gradient is scaled."""
    job(rank=v - 1)

    def backward(ctx, g):
        part = torch.ones_like(g)
        part.chunk(dist.get_world_size())[dist.get_rank()].mul_(3)
        return g * part

    return gradient_of_backward(backward)


@pair()
def the_size_of_the_job_by_another_name(v):
    """The mean over ranks, with a function of torch's that was imported under a name of the user's."""
    job(size=v + 1)
    return scaled_by(lambda: 1 / size_of_the_job())


@pair()
def a_rank_that_a_default_argument_asks_for(v):
    """A function of torch's as a default."""
    job(rank=v - 1)

    def backward(ctx, g, rank=dist.get_rank):
        return g * (rank() + 2)

    return gradient_of_backward(backward)


class Plan:
    rank = staticmethod(functools.partial(dist.get_rank))


@pair()
def a_rank_that_a_partial_in_a_class_asks_for(v):
    """A function of torch's in a partial, which is an attribute of a class."""
    job(rank=v - 1)
    return scaled_by(lambda: Plan.rank() + 2)


@pair()
def a_rank_that_setup_context_saves(v):
    """The rank is read when the forward is traced, and used when the backward is."""
    job(rank=v - 1)

    def setup_context(ctx, inputs, output):
        ctx.rank = dist.get_rank()

    op = operator("op")
    op.register_autograd(lambda ctx, g: g * (ctx.rank + 2), setup_context=setup_context)
    return gradient(op)


@pair()
def the_size_of_the_job_that_a_fake_asks_for(v):
    """An operator that gathers: its result is as large as the job."""
    job(size=v + 1)

    def repeat(x: torch.Tensor) -> torch.Tensor:
        return x.repeat(dist.get_world_size())

    op = operator("op", forward=repeat, fake=lambda x: x.new_empty(x.shape[0] * dist.get_world_size()))
    return compiled(lambda x: op(x).cumsum(0))(values())


@pair()
def the_rank_on_this_node(v):
    """torchrun says it in the environment, and torch has a function for it."""
    os.environ["LOCAL_RANK"] = str(v)
    return scaled_by(lambda: dist.get_node_local_rank())


@pair()
def the_rank_in_a_mesh_that_a_block_chose(v):
    """The mesh of a `with` block, which torch keeps on a stack."""
    job(rank=v - 1)
    mesh = dist.init_device_mesh("cpu", (2,))
    with mesh:
        return scaled_by(lambda: dist.device_mesh._mesh_resources.get_current_mesh().get_local_rank() + 2)


@pair()
def an_attribute_hung_on_a_mesh(v):
    """A user's note on an object of torch's."""
    job()
    mesh = dist.init_device_mesh("cpu", (2,))
    mesh.scale = v
    return scaled_by(lambda: mesh.scale)


# --- settings -------------------------------------------------------------------------------------------


@pair(agrees="<2.13")
def the_dtype_of_an_autocast_that_is_off(v):
    """A backward rounds as autocast would; no autocast is on. (Before 2.13 torch takes one of the two always.)"""
    torch.set_autocast_dtype("cpu", torch.float16 if v == 1 else torch.bfloat16)
    return gradient_of_backward(lambda ctx, g: (g / 3).to(torch.get_autocast_dtype("cpu")).float())


@pair()
def the_engine_of_quantised_operators(v):
    """torch keeps this setting behind a property of a module."""
    torch.backends.quantized.engine = "onednn" if v == 1 else "qnnpack"
    return scaled_by(lambda: 2 if torch.backends.quantized.engine == "onednn" else 3)


@pair()
def a_setting_of_the_users_on_a_module_of_torch(v):
    """A setting that all parts of a program find."""
    torch.backends.pairs_scale = v
    return scaled_by(lambda: torch.backends.pairs_scale)


@pair()
def a_setting_hung_on_a_function_of_torch(v):
    """An attribute of a function."""
    torch.nn.functional.relu.scale = v
    return scaled_by(lambda: torch.nn.functional.relu.scale)


# --- functions that are not what their names say --------------------------------------------------------


@pair()
def a_function_of_torch_that_is_another_one(v):
    """The name leads to another of torch's own functions."""
    torch.erf = torch.sin if v == 1 else torch.cos
    return gradient_of_backward(lambda ctx, g: torch.erf(g))


@pair()
def the_code_of_a_function_of_torch(v):
    """The function is torch's, and its body the user's."""
    other = (lambda x, inplace=False: x * 2) if v == 1 else (lambda x, inplace=False: x * 3)
    torch.nn.functional.relu6.__code__ = other.__code__
    return gradient_of_backward(lambda ctx, g: torch.nn.functional.relu6(g))


@pair()
def a_function_that_one_of_torchs_calls(v):
    """`softmax` asks another function which dimension is meant, and no name in the user's code says so."""
    torch.nn.functional._get_softmax_dim = (lambda *rest: 0) if v == 1 else (lambda *rest: 1)
    return gradient_of_backward(lambda ctx, g: torch.nn.functional.softmax(values(2, 4), _stacklevel=5).view(8))


@pair()
def a_method_of_tensors(v):
    """A method of all tensors is the user's."""
    torch.Tensor.sinc = (lambda self: self * 2) if v == 1 else (lambda self: self * 3)
    return gradient_of_backward(lambda ctx, g: g.sinc())


@pair()
def a_backward_that_says_it_is_torchs(v):
    """What is registered has the name and the module of a function of torch's."""
    scale = v

    @functools.wraps(torch.nn.functional.relu)
    def backward(ctx, g):
        return g * scale

    return gradient_of_backward(backward)


@pair(bypass="no stable identity")
def a_backward_that_is_a_traced_graph(v):
    """What is registered is an object of torch's that holds a user's function."""
    scale = v
    return gradient_of_backward(torch.fx.symbolic_trace(lambda ctx, g: g * scale))


@pair()
def the_dispatch_of_a_subclass_of_torchs_own(v):
    """The rule of the class was replaced."""
    theirs, scale = TwoTensor.__torch_dispatch__, v

    def dispatch(cls, func, types, args=(), kwargs=None):
        out = theirs(func, types, args, kwargs)
        return TwoTensor(out.a * scale, out.b) if func is torch.ops.aten.sin.default else out

    TwoTensor.__torch_dispatch__ = classmethod(dispatch)
    return compiled(lambda x: x.sin())(TwoTensor(values(), values())).a


# --- torch's tables of operators ------------------------------------------------------------------------


@pair()
def an_operator_that_inductor_runs_on_constants(v):
    """Inductor calls what is pointwise on uniform constants while it compiles."""
    scale = v

    @torch.library.custom_op("pairs::op", mutates_args=(), tags=(torch.Tag.pointwise,))
    def op(x: torch.Tensor) -> torch.Tensor:
        return x * scale

    op.register_fake(lambda x: torch.empty_like(x))
    return compiled(lambda x: x + op(torch.full((8,), 3.0)))(values())


@pair()
def an_autocast_kernel_of_an_operator(v):
    """What happens under autocast is a function of the user's."""
    op, lib, scale = operator("op"), torch.library.Library("pairs", "FRAGMENT"), v

    def kernel(x):
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)):
            return op(x) * scale

    lib.impl("op", kernel, "AutocastCPU")
    with torch.autocast("cpu"):
        return compiled(lambda x: op(x))(values())


@pair()
def a_batching_rule_that_asks_for_the_rank(v):
    """The rule by which an operator is batched."""
    job(rank=v - 1)
    op = operator("op")
    op.register_vmap(lambda info, dims, x: (op(x) * (dist.get_rank() + 2), dims[0]))
    return compiled(lambda x: torch.vmap(op)(x))(values(2, 4))


@pair()
def an_autograd_kernel_in_the_place_of_an_operators_own(v):
    """A library registers over what the operator has."""
    op, lib, scale = operator("op", backward=lambda ctx, g: g), torch.library.Library("pairs", "FRAGMENT"), v

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch._C._AutoDispatchBelowAutograd():
                return op(x)

        @staticmethod
        def backward(ctx, g):
            return g * scale

    lib.impl("op", Scaled.apply, "Autograd", allow_override=True)
    return gradient(op)


@pair()
def a_kernel_of_torchs_that_inductor_runs_on_constants(v):
    """The user's kernel for the processor, which Inductor calls while it compiles."""
    lib, kernel = torch.library.Library("aten", "IMPL"), torch.cos if v == 1 else torch.tan
    lib.impl("sin", lambda x: kernel(x), "CPU", allow_override=True)
    return compiled(lambda x: x + torch.sin(torch.full((8,), 3.0)))(values())


class Doubled(torch._ops.HigherOrderOperator):
    def __init__(self):
        super().__init__("pairs_doubled")

    def __call__(self, x):
        return super().__call__(x)


@pair()
def a_higher_order_operator_of_the_users(v):
    """A backward calls it; its implementation is the user's."""
    doubled, scale = Doubled(), v
    doubled.py_impl(torch._C.DispatchKey.AutogradCPU)(lambda x: x * scale)
    return gradient_of_backward(lambda ctx, g: doubled(g))


@pair()
def how_an_operator_is_sharded(v):
    """A strategy of the user's says which part of a tensor an operator works on."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.experimental import register_sharding

    job()
    op = operator("op")
    kept = Shard(0) if v == 1 else Replicate()
    register_sharding(torch.ops.pairs.op.default)(lambda x: [([kept], [kept])])
    x = distribute_tensor(values(), dist.init_device_mesh("cpu", (2,)), [Shard(0)], src_data_rank=None)
    return list(compiled(lambda x: op(x))(x).to_local().shape)
