"""State of the process that a compile reads: what constants are folded with, settings, texts of code, the compiler."""

from __future__ import annotations

import dataclasses
import functools
import importlib

import torch
import torch.nn.functional as F
from harness import compiled, operator, pair, values

aten = torch.ops.aten

# --- what constants are folded with ---------------------------------------------------------------------


@pair()
def whether_denormals_are_zero_when_constants_are_folded(v):
    """`torch.set_flush_denormal` while Inductor folds; it is off again when the code runs."""
    torch.set_flush_denormal(v == 2)
    run = compiled(lambda x: (torch.full((4,), 1e-30) * 1e-12, x + 1))
    run(values())
    torch.set_flush_denormal(False)
    return run(values())


@pair()
def a_python_kernel_of_the_cpu_that_folds_constants(v):
    """Code calls kernels of the CPU by name, but constants are folded with them: this one is not in the code."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("erfinv", lambda x: x * v, "CPU")
    return compiled(lambda x: (torch.full((4,), 0.5).erfinv(), x + 1))(values())


@pair()
def whether_nnpack_may_run(v):
    """Where oneDNN does not run, a convolution's result is laid out as the library that runs it wants."""
    torch.backends.mkldnn.enabled = False
    torch.backends.nnpack.set_flags(v == 1)
    last = {"memory_format": torch.channels_last}
    x, weight = values(16, 3, 8, 8).contiguous(**last), values(4, 3, 3, 3).contiguous(**last)
    found = compiled(lambda x, weight: F.conv2d(x, weight) * 2)(x, weight)
    return torch.tensor(found.stride())


# --- what weights hold that are frozen ------------------------------------------------------------------


def frozen(layer, *inputs):
    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        return compiled(layer)(*inputs)


@pair(kernels=True)
def a_number_in_a_frozen_weight(v):
    """Small ones stand in the code."""
    layer = torch.nn.Linear(8, 8)
    layer.bias.data.fill_(v)
    layer.weight.data.fill_(0.5)
    layer.scale = torch.nn.Parameter(torch.tensor(float(v)))
    layer.forward = functools.partial(lambda self, x: F.linear(x, self.weight, self.bias) * self.scale.exp(), layer)
    return frozen(layer, values(8, 8))


@pair(kernels=True)
def a_frozen_buffer(v):
    norm = torch.nn.BatchNorm2d(3).eval()
    norm.running_var.fill_(v)
    return frozen(torch.nn.Sequential(norm), values(1, 3, 8, 8))


@pair(kernels=True)
def a_pattern_for_frozen_weights(v):
    """As torchao registers them."""
    from torch._inductor.fx_passes.freezing_patterns import register_freezing_graph_pattern
    from torch._inductor.pattern_matcher import Arg, CallFunction

    @register_freezing_graph_pattern(CallFunction(aten.sin, Arg()))
    def replace(match, x):
        match.replace_by_example(lambda x: x * v, [x])

    layer = torch.nn.Linear(8, 8)
    layer.forward = functools.partial(lambda self, x: F.linear(x, self.weight).sin(), layer)
    return frozen(layer, values(8, 8))


# --- settings -------------------------------------------------------------------------------------------


@pair()
def the_default_type_of_numbers(v):
    """The graph has a factory without a dtype."""
    torch.set_default_dtype((torch.float32, torch.float64)[v - 1])
    return compiled(lambda x: (x * 0.1 + torch.full((8,), 0.1)).double())(values())


@pair()
def which_attention_is_allowed(v):
    """AOTAutograd takes attention apart as the settings have it; the last bits of the two ways differ."""
    torch.backends.cuda.enable_flash_sdp(v == 1)
    q = values(1, 2, 16, 8).sin()
    return compiled(lambda q: F.scaled_dot_product_attention(q, q, q))(q)


@pair()
def the_order_of_fusions_in_a_setting(v):
    """The setting is a dictionary, and fusions are tried in its order: both fuse these products, each its own way."""
    options = {"batch_linear_lhs": {"min_fuse_set_size": 2}, "batch_linear": {"min_fuse_set_size": 2}}
    if v == 2:
        options = dict(reversed(options.items()))
    found, chance = [], torch.Generator().manual_seed(0)
    run = compiled(
        lambda x, w: [F.linear(x, k) for k in w], options={"pre_grad_fusion_options": options}, dynamic=False
    )
    # Whether bits differ depends on the processor.
    for rows, columns, inner, dtype in (
        (7, 3, 1000, torch.float64),
        (1, 3, 777, torch.float),
        (7, 3, 100, torch.float),
    ):
        weights = [torch.randn(columns, inner, generator=chance, dtype=dtype) for _ in range(3)]
        found += run(torch.randn(rows, inner, generator=chance, dtype=dtype), weights)
    return found


@pair()
def a_setting_as_it_was_when_a_module_was_imported(v):
    """Limits of a pass are read once, at its import, and not when a graph is compiled under other settings."""
    options = {"post_grad_fusion_options": {"decompose_mm_pass": {"cpu_max_other_dimension_decomposition": 64}}}
    other = {"post_grad_fusion_options": {"decompose_mm_pass": {"cpu_max_other_dimension_decomposition": 4}}}
    with torch._inductor.config.patch(options if v == 1 else other):
        importlib.import_module("torch._inductor.fx_passes.decompose_mem_bound_mm")
    return compiled(lambda x, y: x @ y, options=options)(values(1, 64).sin(), values(64, 64).cos())


@pair(bypass="post_grad_custom_post_pass")
def a_pass_of_the_users_that_says_it_is_torchs(v):
    """A function as a setting, with the name and module of a pass of torch's."""
    from torch._inductor.fx_passes import post_grad

    def scale(graph):
        for node in graph.find_nodes(op="call_function", target=aten.mul.Tensor):
            node.update_arg(1, v)

    passed = functools.wraps(post_grad.remove_noop_ops)(scale)
    with torch._inductor.config.patch(post_grad_custom_post_pass=passed):
        return compiled(lambda x: x * 3)(values())


@pair(bypass="custom_backend_passes")
def a_pass_of_a_device(v):
    """A pass registered for the CPU with Inductor's generators of code."""
    from torch._inductor.codegen import common
    from torch._inductor.custom_graph_pass import CustomGraphModulePass

    class Pass(CustomGraphModulePass):
        def __call__(self, gm):
            for node in gm.graph.find_nodes(op="call_function", target=aten.mul.Tensor):
                node.update_arg(1, v)

        def uuid(self):
            return None

    common.init_backend_registration()
    common.custom_backend_passes["cpu"] = Pass()
    return compiled(lambda x: x * 3)(values())


# --- how code is written ----------------------------------------------------------------------------------


@pair(kernels=True)
def the_lowering_of_sin_is_that_of_cos(v):
    """Both entries are functions of torch's own."""
    from torch._inductor.lowering import lowerings

    if v == 2:
        lowerings[aten.sin.default] = lowerings[aten.cos.default]
    return compiled(torch.sin)(values())


@pair(kernels=True)
def an_operator_is_lowered_as_the_call_of_another(v):
    """Entries that Inductor makes itself when it meets an operator without a lowering; here made by the user."""
    from torch._inductor import lowering

    importlib.import_module("torch._inductor.fx_passes.reinplace")
    op = (aten.erfinv.default, aten.erf.default)[v - 1]
    lowering.lowerings[aten.erfinv.default] = lowering.fallback_handler(op, add_to_fallback_set=False)
    return compiled(torch.erfinv)(values() / 9)


@pair(kernels=True)
def a_lowering_of_a_custom_operator(v):
    """The operator is the user's, as is what Inductor makes of it."""
    from torch._inductor.lowering import lowerings, register_lowering

    importlib.import_module("torch._inductor.fx_passes.reinplace")
    op = operator("op")
    register_lowering(torch.ops.pairs.op.default, type_promotion_kind=None)(lambda x: lowerings[aten.mul.Tensor](x, v))
    return compiled(lambda x: op(x))(values())


@pair()
def how_a_kernel_of_torchs_is_called_in_code(v):
    """A table of functions that write the call of an operator that has no lowering."""
    from torch._inductor.codegen import custom_extern_kernel_codegen as codegen

    def write(node, writeline):
        writeline(f"{node.get_name()} = {node.codegen_args()[0]} * {v}")

    made = codegen.CustomCodegen(python=write)
    codegen.CUSTOM_EXTERN_KERNEL_CODEGEN["torch.ops.aten.sin.default"] = made
    return compiled(torch.sin)(values())


@pair(kernels=True)
def the_type_in_c_that_a_type_becomes(v):
    """Generated code reads 16-bit numbers without their sign, because a table says so."""
    from torch._inductor.codegen import cpp_utils

    if v == 2:
        cpp_utils.DTYPE_TO_CPP[torch.int16] = "uint16_t"
    return compiled(lambda x: x.float() * 3)(values().short() - 5)


@pair(kernels=True)
def how_unrolled_reductions_combine(v):
    """A sum over few elements is written out by what stands under "sum"."""
    from torch._inductor import ir

    if v == 2:
        ir.REDUCTION_COMBINE_FN["sum"] = ir.REDUCTION_COMBINE_FN["prod"]
    return compiled(lambda x: (x + 1).sum(1))(values(8, 2))


@pair(kernels=True)
def the_text_that_an_operator_becomes(v):
    """Operators of `torch.special` are written by a table of texts, read when a generator of code is imported."""
    from torch._inductor.codegen.common import pointwise_overrides_data as table

    if v == 2:
        table["bessel_j0"] = dataclasses.replace(table["bessel_j0"], cpp=table["bessel_j1"].cpp)
    return compiled(torch.special.bessel_j0)(values())


@pair(bypass="is generated by", kernels=True)
def a_generator_of_code_given_as_a_partial(v):
    """Code for the CPU is generated by whatever was registered first: here torch's class with the user's argument."""
    from torch._inductor.codegen import common, cpp, cpp_wrapper_cpu, wrapper

    def schedule(factor, scheduler):
        if factor == 2:
            cpp.CppOverrides.sin = staticmethod(cpp.CppOverrides.cos)
        return cpp.CppScheduling(scheduler)

    common.register_backend_for_device(
        "cpu", functools.partial(schedule, v), wrapper.PythonWrapperCodegen, cpp_wrapper_cpu.CppWrapperCpu
    )
    return compiled(torch.sin)(values())


# --- bodies that are graphs of their own ----------------------------------------------------------------


def opaque(v):
    """A function of the user's that Dynamo does not look into, with a name of torch's (pytorch#194658)."""

    def inner(x):
        return x * v

    inner.__module__, inner.__qualname__, inner.__name__ = "torch.nn.functional", "opaque", "opaque"
    F.opaque = inner
    return torch.compiler.allow_in_graph(inner)


@pair()
def an_opaque_function_in_the_body_of_a_checkpoint(v):
    """The call lies in a graph of its own, which torch does not look into when it decides what to cache."""
    function = opaque(v)

    def body(x):
        return torch.utils.checkpoint.checkpoint(lambda x: function(x.sin()), x, use_reentrant=False)

    return compiled(body)(values().requires_grad_())


@pair()
def an_opaque_function_in_a_compiled_region(v):
    """As before, in a region that is called twice."""
    function = opaque(v)
    region = torch.compiler.nested_compile_region(lambda x: function(x.sin()))
    return compiled(lambda x: region(region(x)))(values())
