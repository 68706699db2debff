"""Private names of torch that keys must know, as data: modules and attributes by name. Read on 2.11 to 2.15.

`hashing` imports no other room, so they cannot be in `backend/torch_api/`. What user code may read of torch is in
`source_code/purity.py`, in the same way.
"""

from __future__ import annotations

CORE = "torch._C"
# Of attention's backends the order: as torch starts, and as it sets it on Hopper.
SDPA_ORDER, SDPA_ORDERS = "_get_sdp_priority_order", ([1, 2, 0, 3, 4], [3, 1, 2, 0, 4])
NO_TORCH_FUNCTION = "DisableTorchFunction"
SDPA_OVERRIDEABLE = "_get_overrideable_sdp_enabled"
NNPACK = "_get_nnpack_enabled"
SDPA_FLASH_4 = "_get_fa4_sdp_enabled"  # since 2.15

OPERATORS = "torch._ops"  # the module of operators' classes
FAKE_TENSORS, FAKE_MODE = "torch._subclasses.fake_tensor", "FakeTensorMode"
OPAQUE = "torch._library.opaque_object"
# What that module is asked, by the name since 2.14 (which warns of the older one at each call) and before.
IS_OPAQUE = ("is_custom_class", "is_opaque_type")
IS_OPAQUE_CONSTANT = ("is_opaque_constant_type", "is_opaque_value_type")
PYTREE = "torch.utils._pytree"
TREES_BY_NAME = "treespec_loads"  # what of it finds a class by a text
DISTRIBUTED = ("torch.distributed.", "torch._C._distributed")  # beginnings of modules

OF_DTENSORS = (  # modules that hold how operators of DTensors are traced
    "torch.distributed.tensor._api",
    "torch.distributed.tensor._random",
    "torch.distributed.tensor._utils",
    "torch.distributed.tensor._redistribute",
    "torch.distributed.tensor.experimental._context_parallel._attention",
)
RANDOM_TRACKER = "OffsetBasedRNGTracker"  # what torch begins with
EXPLICIT = "ExplicitRedistributionContext"
# How a tensor is spread anew, and what torch begins with.
HOW_MOVED = {"_FORCE_MIN_COST_REDISTRIBUTION_PLAN": None, "_DISABLE_REDISTRIBUTE_TRANSFORM_OPTIMIZATION": False}
GROUPS = "torch.distributed.distributed_c10d"  # resolves names of process groups
GROUP_ARGUMENT = "group_name"  # of operators in these namespaces
COLLECTIVES = frozenset({"_c10d_functional", "_c10d_functional_autograd", "_dtensor"})

# Where torch keeps its own versions of numpy's functions. Not its random ones: torch caches none of these.
NUMPY = ("torch._numpy", "torch._numpy.fft", "torch._numpy.linalg")
NUMPY_DTYPES = "torch._numpy._dtypes_impl"
DYNAMO_UTILS = "torch._dynamo.utils"
NUMPY_FUNCTION, NUMPY_OPERATOR, NUMPY_METHOD = (  # what Dynamo wraps calls on arrays in
    "numpy_to_tensor_wrapper",
    "numpy_operator_wrapper",
    "numpy_method_wrapper",
)

# What Dynamo calls in a graph for an `autograd.Function` under `allow_in_graph`; it closes over the class.
AUTOGRAD_APPLY = "produce_trampoline_autograd_apply.<locals>.trampoline_autograd_apply"

# Of `nonstrict_trace`: what Dynamo calls in a graph, and what that holds; the function that is an attribute
# of it, within what, and what that holds: the user's function, or the decorator's around it.
NONSTRICT_CALL = "TorchInGraphFunctionVariable._call_nonstrict_traceable_function.<locals>.flat_apply_capture"
NONSTRICT_RESULT = "captured_spec"
NONSTRICT_FUNCTION = "TorchInGraphFunctionVariable._call_nonstrict_traceable_function.<locals>.patched_fn"
NONSTRICT_GIVEN, NONSTRICT_WRAPPED, LEAF_FUNCTION, LEAF_FUNCTION_2_11 = "fn", "traceable_fn", "_fn", "func"
LEAF_MODULE = "LeafModuleState"  # the class of what stands for a module among its arguments

COMPILED_AUTOGRAD = "torch._dynamo.compiled_autograd"
AUTOGRAD_NODE, AUTOGRAD_NODES = "Op", "ops"  # the class of what stands for one in a graph, and where all are found
# What starts a compiled backward, and what that closes over.
BACKWARD_PROLOGUE = "AutogradCompilerInstance.proxy_call_aot_backward.<locals>.call_aot_bwd_prologue"
PROLOGUE_FUNCTION = "bw_prologue_fn"

# Modules, with those below them, whose functions are compared with torch's as installed before each key
# (`backend/torch_api/changes/functions.py`). Some run only while a graph is traced: those of DTensors.
LOOKED_AFTER = frozenset(
    """
    torch._inductor torch._functorch torch._decomp torch._refs torch._prims torch._prims_common torch._utils
    torch._VF torch.autograd torch._dynamo.backends torch.nn._reduction torch._meta_registrations torch._subclasses
    torch._higher_order_ops torch._library torch._ops torch._dispatch torch._guards torch._tensor torch._native
    torch._vmap_internals torch.distributed.tensor torch.distributed.device_mesh
    torch.distributed._functional_collectives torch.fx torch.functional torch.nn.functional torch.special
    torch.linalg torch.fft torch.amp torch.nested torch.utils._sympy torch.utils._python_dispatch
    torch._C._nn torch._C._linalg torch._C._fft torch._C._special torch._C._sparse torch._C._nested torch.masked
    torch._lowrank torch._linalg_utils torch.signal torch.sparse torch.nn.grad torch.nn.modules.utils torch.accelerator
    """.split()
)
