"""What torch itself would not cache, less what our keys describe and torch's do not. Read on 2.11 to 2.13."""

from __future__ import annotations

import contextlib
import inspect
import operator
import re
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch._inductor.config as inductor_config
from torch._dynamo import utils as dynamo_utils
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache, check_cacheable, check_node_safe
from torch._inductor.codecache import BypassFxGraphCache, FxGraphCache
from torch.fx import GraphModule, Node
from warmgraph.hashing import is_allowed_call, is_nonstrict_call, target_made_by_torch

from .ranks.ddp import as_a_whole
from .settings import let_patches_win

# Higher-order operators that torch's key does not describe. In ours their operands are arguments like any other, and
# the graphs that they are given are written out node by node; anything else among the arguments has no text: a bypass.
_OPERATORS = """
    associative_scan autograd_function_apply cond foreach_map hints_wrapper local_map_hop map_impl out_dtype scan
    strict_mode switch while_loop while_loop_stack_output wrap wrap_with_autocast wrap_with_set_grad_enabled
"""
# What Dynamo makes of `math.cos` and its kin of a number that varies (torch lets pass `_sym_sqrt` alone).
SYMBOLIC = "acos asin atan cos cosh log2 sin sinh tan tanh".split()
# Functions likewise: the state that they read instead of an argument that is None is in our keys. What a context of
# `autograd.Function` keeps is in the graphs.
_FUNCTIONS = (
    "torch.amp.autocast_mode._enter_autocast",
    "torch.amp.autocast_mode._exit_autocast",
    "torch.autograd.function.FunctionCtx",
    "torch.autograd.grad_mode._enter_inference_mode",
    "torch.autograd.grad_mode._exit_inference_mode",
    "torch.nn.parameter.Buffer",  # its argument, detached; Dynamo keeps nothing of what else it notes
    "torch.nn.attention._backend_from_string",
    "torch.nn.attention._sdpa_kernel",
    "torch._dynamo.utils.numpy_attr_wrapper",
    "torch._check",  # stays in the graph before 2.13
    *(f"torch._sym_{name}" for name in SYMBOLIC),  # `math.cos(step / 10)`, where the step varies
    "torch._refs.tensor",  # what Dynamo makes of `torch.tensor(x.shape[0])`, where the size varies
    # `torch.LongTensor([2, 3])`: as `torch.Tensor`, which torch lets pass
    *(f"torch.{kind}Tensor" for kind in "BFloat16 Bool Byte Char Double Float Half Int Long Short".split()),
    *(
        f"torch._functorch.predispatch.{name}"
        for name in """
        _add_batch_dim _remove_batch_dim _vmap_increment_nesting _vmap_decrement_nesting _make_dual _unpack_dual
        _jvp_increment_nesting _jvp_decrement_nesting _unwrap_for_grad _enter_dual_level _exit_dual_level
        """.split()
    ),
)
# Operators and methods of arrays, each in an object of Dynamo's that torch's key does not look into.
_NUMPY = (dynamo_utils.numpy_operator_wrapper, dynamo_utils.numpy_method_wrapper)
_AUTOGRAD = "torch._dynamo.compiled_autograd"  # autograd's nodes, and what starts a compiled backward
DESCRIBED = frozenset((*_FUNCTIONS, *(f"torch.ops.higher_order.{name}" for name in _OPERATORS.split())))


def unsafe_reason(gm: GraphModule, inputs: Sequence[Any]) -> str | None:
    """Why torch would not keep a result of this graph, in its words, for what our key does not describe either."""
    takes_inputs = len(inspect.signature(FxGraphCache._check_can_cache).parameters) > 1
    try:
        with _described(gm.graph.nodes), _methods_described(gm.graph.nodes), as_a_whole():
            check_cacheable(gm)
            FxGraphCache._check_can_cache(gm, inputs) if takes_inputs else FxGraphCache._check_can_cache(gm)
    except (BypassAOTAutogradCache, BypassFxGraphCache) as refusal:
        return re.sub(r" at 0x[0-9a-f]+", "", " ".join(str(refusal).split()))  # one reason, one text
    return None


@contextlib.contextmanager
def _methods_described(nodes: Iterable[Node]) -> Iterator[None]:
    """torch asks what is called for its module, which a tensor's method that is called as a function does not have:
    `set_`, of `x.data = y` before 2.14. Our key names it by its class; torch is shown a public function meanwhile. And
    what a method is called on for its value.
    """
    nodes = list(nodes)
    methods = [(node, node.target) for node in nodes if node.op == "call_function" and _is_method(node.target)]
    items = [node for node in nodes if _is_item(node)]
    try:
        for node, _ in methods:
            node.target = torch.clone
        for node in items:
            node.meta["example_value"] = None
        yield
    finally:
        for node, method in methods:
            node.target = method
        for node in items:
            del node.meta["example_value"]


def _is_method(target: Any) -> bool:
    if isinstance(target, types.FunctionType):  # `torch.Tensor.split(x, 2)`
        return target.__globals__ is vars(torch._tensor) and vars(torch.Tensor).get(target.__name__) is target
    return isinstance(target, types.MethodDescriptorType) and issubclass(torch.Tensor, target.__objclass__)


def _is_item(node: Any) -> bool:
    """An item of a tensor, of which Dynamo notes no value: `x.tolist()` asks each for its `item()`."""
    if not isinstance(node, Node) or node.target is not operator.getitem or "example_value" in node.meta:
        return False
    held = node.args[0]
    return isinstance(held, Node) and (isinstance(held.meta.get("example_value"), torch.Tensor) or _is_item(held))


def unsafe_node(nodes: Iterable[Node]) -> str | None:
    """The same of single nodes."""
    nodes = list(nodes)
    try:
        with _described(nodes), _methods_described(nodes):
            for node in nodes:
                check_node_safe(node)
    except BypassAOTAutogradCache as refusal:
        return " ".join(str(refusal).split())
    return None


def _is_described(target: Any) -> bool:
    """Whether it is an object or function of Dynamo's, or a function of the user's, that our key looks into."""
    kind = type(target)
    return (
        is_allowed_call(target)
        or is_nonstrict_call(target)
        or kind in _NUMPY
        or target_made_by_torch(target) is not None
        or getattr(target if inspect.isfunction(target) else kind, "__module__", "") == _AUTOGRAD
    )


def _described(nodes: Iterable[Node]) -> contextlib.AbstractContextManager[Any]:
    """torch's own way for users to vouch for a function is how we vouch for ours, while it is asked."""
    wrapped = {f"{t.__module__}.{t.__name__}" for t in (node.target for node in nodes) if _is_described(t)}
    vouched = dict.fromkeys(DESCRIBED | wrapped, "described by warmgraph's key")
    known = inductor_config.unsafe_marked_cacheable_functions
    let_patches_win()
    functions = {**vouched, **known}
    # What frozen weights hold is in our keys (`lifted_lines`).
    return inductor_config.patch(fx_graph_cache=True, freezing=False, unsafe_marked_cacheable_functions=functions)  # type: ignore[no-any-return]
