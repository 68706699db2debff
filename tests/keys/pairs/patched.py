"""Functions of torch's, replaced: those that a graph names, those that they call, and kernels that tracing runs."""

from __future__ import annotations

import functools
from operator import mul

import torch
import torch.nn.functional as F
from harness import compiled, gradient, pair, values

aten = torch.ops.aten

# --- functions that a graph names -----------------------------------------------------------------------


@pair()
def an_allowed_function_says_that_it_is_torchs(v):
    """`allow_in_graph` takes any function, and this one has the name and module of a built-in one."""

    @torch.compiler.allow_in_graph
    def gelu(x):
        return x * v

    gelu.__module__, gelu.__qualname__ = "torch.nn.functional", "gelu"
    F.gelu = gelu
    return compiled(lambda x: F.gelu(x))(values())


@pair()
def the_code_of_a_function_that_a_graph_names(v):
    """`__code__` of one function of torch's, put into another: its name, globals and file stay as they were."""
    if v == 2:
        F.softsign.__code__ = F.tanhshrink.__code__
    return compiled(lambda x: F.softsign(x))(values())


@pair()
def the_default_of_a_keyword_of_a_function_that_a_graph_names(v):
    """The graph has a call without `indexing`, and what that is was changed in the function."""
    torch.functional.meshgrid.__kwdefaults__["indexing"] = ("ij", "xy")[v - 1]
    return compiled(lambda x: torch.meshgrid(x, x * 2)[0] + 1)(values(3))


@pair()
def a_compiled_function_that_one_in_a_graph_looks_up(v):
    """`mse_loss` finds it by its name at each call."""
    own = torch._C._nn.mse_loss
    torch._C._nn.mse_loss = lambda *given: own(*given) * v
    return compiled(lambda x: F.mse_loss(x, x * 2))(values())


@pair()
def a_compiled_function_exchanged_for_another_of_torchs(v):
    if v == 2:
        torch._C._nn.mse_loss = torch._C._nn.huber_loss
    return compiled(lambda x: F.mse_loss(x, x * 2, reduction="sum"))(values())


@pair()
def a_helper_of_masked_reductions(v):
    """Dynamo has it in the graph's function, and traces neither."""
    own = torch.masked._ops._combine_input_and_mask
    torch.masked._ops._combine_input_and_mask = lambda *given, **named: own(*given, **named) * v
    return compiled(lambda x: torch.masked.sum(x, mask=x > 0.5))(values())


@pair()
def a_helper_of_decompositions_of_low_rank(v):
    own = torch._lowrank._svd_lowrank
    torch._lowrank._svd_lowrank = lambda *given, **named: [one * v for one in own(*given, **named)]
    return compiled(lambda x: torch.svd_lowrank(x, q=2, niter=1)[1])(torch.eye(3))


@pair(bypass="added to torch's tensors")
def a_number_put_on_tensors(v):
    """The graph has a node that reads it from a tensor made in the graph."""
    torch.Tensor.pairs_scale = float(v)

    def scaled(x):
        y = x + 1
        return torch.mul(y, y.pairs_scale)

    return compiled(scaled)(values())


@pair(bypass="added to torch's tensors")
def a_partial_method_put_on_tensors(v):
    """The graph calls it by name on a tensor made in the graph."""
    torch.Tensor.pairs_top = functools.partialmethod(torch.Tensor.clamp, max=float(v) / 2)
    return compiled(lambda x: (x + 1).pairs_top())(values())


class _Number(float):
    """No number that a key takes by its value."""


@pair(bypass="no stable identity")
def a_default_of_the_users_own_class(v):
    """The graph has `celu` without `alpha`, and what that is was set in the function."""
    F.celu.__defaults__ = (_Number(v), False)
    return compiled(lambda x: F.celu(x))(values() - 1)


@pair()
def a_method_that_a_graph_names(v):
    """The graph calls the method `sum`, which AOTAutograd looks up; there stands another of torch's own."""
    if v == 2:
        torch.Tensor.sum = torch.Tensor.prod
    return compiled(lambda x: x.sum())(values())


@pair(agrees="2.14")
def an_attribute_of_tensors_that_a_graph_names(v):
    """The graph asks for `mT`, a property that the class of tensors inherits. (Since 2.14 it names it no more.)"""
    if v == 2:
        torch.Tensor.mT = torch.Tensor.real
    return compiled(lambda x: x.mT + 1)(values(3, 3))


@pair()
def a_function_in_a_module_of_helpers(v):
    """The graph calls a function of `torch._utils`, whose `__code__` is the user's."""
    code = (lambda tensors: tensors[0] * 1, lambda tensors: tensors[0] * 2)[v - 1].__code__
    torch._utils._flatten_dense_tensors.__code__ = code
    return compiled(lambda x: torch._utils._flatten_dense_tensors([x, x]))(values())


# --- functions that these call --------------------------------------------------------------------------


@pair()
def a_function_of_torchs_that_a_function_in_the_graph_calls(v):
    """The graph has `celu`, which looks up `torch.celu`; there stands another of torch's own functions."""
    if v == 2:
        torch.celu = torch.mul
    return compiled(lambda x: F.celu(x, 2.0))(values() - 1)


@pair()
def a_function_replaced_by_a_partial_of_the_users(v):
    """The graph has `celu`, which looks up `torch.celu`; there stands an object and not a function."""
    torch.celu = functools.update_wrapper(functools.partial(lambda factor, x, alpha: x * factor, v), torch.celu)
    return compiled(lambda x: F.celu(x, 2.0))(values() - 1)


@pair()
def a_function_that_an_einsum_calls(v):
    """The graph has `einsum`, which looks up `torch._VF.einsum`."""
    theirs = torch._VF.einsum
    torch._VF.einsum = lambda *rest, **named: theirs(*rest, **named) * v
    return compiled(lambda x: torch.einsum("ij,jk->ik", x, x))(values(3, 3))


@pair()
def a_helper_of_a_loss(v):
    """`mse_loss` is in the graph and asks another module for the number of a reduction."""
    torch.nn._reduction.get_enum = lambda reduction: v
    return compiled(lambda x: F.mse_loss(x, x * 3))(values())


@pair()
def the_code_of_a_function_that_decompositions_call(v):
    """The table of decompositions holds the same function, which calls one whose `__code__` is another."""
    from torch._decomp import decompositions

    if v == 2:
        decompositions.apply_loss_reduction.__code__ = (lambda loss, reduction: loss * 2).__code__
    return compiled(lambda x: F.mse_loss(x, x * 3))(values())


@pair()
def the_type_that_decompositions_compute_in(v):
    """Decompositions of bfloat16 compute in float32 because a table of torch's says so."""
    import torch._prims_common as common

    if v == 2:
        common._computation_dtype_map[torch.bfloat16] = torch.bfloat16
    return compiled(lambda x: F.gelu(x))(values(64).bfloat16() - 4)


# --- kernels and fakes that tracing runs ------------------------------------------------------------------


@pair()
def a_python_kernel_of_an_operator_for_a_mode(v):
    """`py_impl` of an operator of torch's for the mode that makes a graph of what is traced."""
    from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

    @aten.erfinv.default.py_impl(ProxyTorchDispatchMode)
    def kernel(mode, x):
        with mode:
            return x * v

    return compiled(torch.erfinv)(values() / 2)


@pair()
def a_rule_of_an_operator_of_torchs_for_a_mode(v):
    """`torch.library.register_torch_dispatch`, for functional tensors, on an operator of torch's."""
    from torch._subclasses.functional_tensor import FunctionalTensorMode

    @torch.library.register_torch_dispatch("aten::erfinv", FunctionalTensorMode)
    def rule(mode, func, kinds, args, kwargs):
        with mode:
            return args[0] * v

    return compiled(torch.erfinv)(values() / 2)


@pair()
def the_kernel_of_an_operator_for_meta_tensors(v):
    """A kernel on the key Meta decides the shape that a later operator is compiled for."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("hash_tensor", lambda x, *rest, **named: x.new_empty(4 * v, dtype=torch.uint64), "Meta")
    return compiled(lambda x: torch.ones_like(torch.hash_tensor(x), dtype=torch.float32))(values())


@pair()
def the_kernel_of_an_operator_under_vmap(v):
    """A kernel on the key of batched tensors runs when AOTAutograd traces a mapped function."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("erfinv", lambda x: x * v, "FuncTorchBatched")
    return compiled(torch.func.vmap(torch.erfinv))(values(4, 2) / 8)


@pair()
def the_fake_of_many_operators_of_torchs(v):
    """A check and a rule appended to the list that fake tensors go through."""
    from torch._subclasses.fake_impls import register_op_impl

    @register_op_impl(lambda func: func is aten.erfinv.default)
    def fake(mode, func, x):
        with mode:
            return x.new_empty(4 * v)

    return compiled(lambda x: torch.ones_like(torch.erfinv(x)))(values() / 2)


@pair()
def the_fake_of_a_custom_operator_in_torchs_table(v):
    """Fake tensors ask this table for operators of the user's as well."""
    from torch._subclasses.fake_impls import op_implementations_dict

    library = torch.library.Library("mine", "DEF")
    library.define("op(Tensor x) -> Tensor")
    library.impl("op", lambda x: x.clone(), "CPU")

    def fake(mode, func, x):
        with mode:
            return x.new_empty(4 * v)

    op_implementations_dict[torch.ops.mine.op.default] = fake
    return compiled(lambda x: torch.ones_like(torch.ops.mine.op(x)))(values())


@pair()
def the_quick_fake_of_an_operator_with_symbols(v):
    """Fake tensors with symbolic sizes ask a table of quick rules first."""
    from torch._subclasses import fake_impls

    fake_impls.get_fast_op_impls()[aten.add.Tensor] = lambda mode, x, y: x.new_empty(4 * v)
    return compiled(lambda x: torch.ones_like(torch.add(x, x)), dynamic=True)(values())


@pair()
def the_fake_of_a_primitive(v):
    """A primitive operator carries its own fake, an attribute of the operator."""
    iota = torch.ops.prims.iota.default
    iota.prim_meta_impl = lambda *rest, **named: torch.empty(4 * v, dtype=torch.int64)
    return compiled(lambda x: (x + 1, torch.ones_like(torch.arange(8)) + 0))(values())


@torch.compiler.nested_compile_region
def region(x):
    return x + 1


@pair()
def how_a_higher_order_operator_is_traced(v):
    """A call of a compiled region has a Python kernel for the mode that traces it; another stands there."""
    from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

    def kernel(mode, subgraph, identifier, *operands):
        with mode:
            return subgraph(*(operand * v for operand in operands))

    torch.ops.higher_order.invoke_subgraph.python_key_table[ProxyTorchDispatchMode] = kernel
    return compiled(lambda x: region(region(x)))(values())


@pair()
def the_fake_of_a_higher_order_operator(v):
    """Fake tensors ask `registered_hop_fake_fns` what a call of a compiled region gives."""
    from torch._higher_order_ops.utils import registered_hop_fake_fns

    operator = torch.ops.higher_order.invoke_subgraph
    registered_hop_fake_fns[operator] = lambda subgraph, identifier, x: (x.new_empty(4 * v),)
    return compiled(lambda x: torch.ones_like(region(region(x))))(values())


# --- the compiler's own functions -----------------------------------------------------------------------


@pair()
def how_a_backward_is_asked_for(v):
    """AOTAutograd traces `torch.autograd.grad`."""
    theirs = torch.autograd.grad
    torch.autograd.grad = lambda *rest, **named: tuple(g * v for g in theirs(*rest, **named))
    return gradient(lambda x: x * 3)


@pair()
def how_aotautograd_is_called(v):
    """Dynamo's own wrapper around AOTAutograd, which is given the graph after the key is made."""
    from torch._dynamo.backends.common import AotAutograd

    theirs = AotAutograd.__call__

    def call(self, gm, inputs, **named):
        for node in gm.graph.nodes:
            if node.op == "call_function" and node.target is mul:
                node.update_arg(1, v)
        gm.recompile()
        return theirs(self, gm, inputs, **named)

    AotAutograd.__call__ = call
    return compiled(lambda x: x * 3)(values())


@pair()
def a_class_of_inductors_replaced_by_one_of_the_users(v):
    """The class that lowers graphs, by its name in the module that makes one."""
    from torch._inductor import compile_fx, graph

    class Lowering(graph.GraphLowering):
        def run_node(self, node):
            if node.target is aten.mul.Tensor:
                node.update_arg(1, v)
            return super().run_node(node)

    compile_fx.GraphLowering = Lowering
    return compiled(lambda x: x * 3)(values())
