"""An FX graph to lines of text: every node, every argument edge, every constant. No node names."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from msgspec import Struct, field
from torch.fx import GraphModule, Node

from ..encoding.encode import Uncacheable, encode, qualified_name
from ..encoding.targets import identify, is_higher_order, is_operator
from ..origin import foreign
from ..source_code.digest import source_digest
from .allowed import allowed_call, is_allowed_call
from .autograd_nodes import autograd_call
from .groups import Named, group_text, marked
from .nonstrict import is_nonstrict_call, nonstrict_attribute, nonstrict_call
from .opaque import opaque_text
from .symbols import SymbolTable
from .tensors import constant, held_tensor, sizes_of, users_type
from .wrapped import wrapped_call

# Arguments of a node that are indices into a table of this process, and what they stand for.
Resolve = Callable[[Node], Mapping[str, Any] | None]


def expression_of(value: Any) -> Any:
    """The sympy expression of a SymInt, SymFloat or SymBool."""
    return value.node.expr


def is_symbolic(value: Any) -> bool:
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def meta_value(node: Node) -> Any:
    """The node's fake value: Dynamo's `example_value`, or AOTAutograd's `val`."""
    meta = node.meta
    return meta["example_value"] if "example_value" in meta else meta.get("val")


def graph_modules(gm: GraphModule) -> Iterator[GraphModule]:
    """`gm` and every GraphModule below it."""
    for module in gm.modules():
        if isinstance(module, GraphModule):
            yield module


# Where Dynamo hangs the saved-tensors hooks that it found; no node calls them, and their part is `hooks.py`.
HOOKS = ("saved_tensors_hooks_pack_0", "saved_tensors_hooks_unpack_0")


def _called_modules(gm: GraphModule) -> Iterator[GraphModule]:
    """`graph_modules` without the hooks, which were traced apart: on other symbols, and on some other device."""
    for name, module in gm.named_modules():
        if isinstance(module, GraphModule) and name.partition(".")[0] not in HOOKS:
            yield module


def collect_symbols(gm: GraphModule, table: SymbolTable) -> None:
    """Tell `table` of every symbol in placeholders, constants and values of `gm`, in graph order."""
    for module in _called_modules(gm):
        for node in module.graph.nodes:
            for value in _symbolic_values(node):
                table.use(sorted(expression_of(value).free_symbols, key=str))


def _symbolic_values(node: Node) -> Iterator[Any]:
    value = meta_value(node)
    if isinstance(value, torch.Tensor):
        if node.op in ("placeholder", "get_attr"):
            yield from filter(is_symbolic, sizes_of(value))
    elif is_symbolic(value):
        yield value
    if node.op != "placeholder":
        yield from _symbolic_arguments((node.args, node.kwargs))


# What nearly all arguments are.
_WITHOUT_SYMBOLS = frozenset({Node, int, float, bool, type(None), str, torch.dtype, torch.device})


def _symbolic_arguments(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for item in value:
            if type(item) not in _WITHOUT_SYMBOLS:
                yield from _symbolic_arguments(item)
    elif isinstance(value, dict):
        yield from _symbolic_arguments(tuple(value.values()))
    elif isinstance(value, slice):
        yield from _symbolic_arguments((value.start, value.stop, value.step))
    elif is_symbolic(value):
        yield value


def devices_of(gm: GraphModule) -> set[torch.device]:
    """Every device that a value of the graph lies on."""
    devices: set[torch.device] = set()
    for module in _called_modules(gm):
        for node in module.graph.nodes:
            value = meta_value(node)
            for item in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(item, torch.Tensor):
                    devices.add(item.device)
    return devices


class GraphText(Struct):
    """Renders one graph and the graphs nested in it. `lines` grows; `nodes` counts."""

    table: SymbolTable
    resolve: Resolve
    lifted: Mapping[str, int] = field(default_factory=dict)  # attributes passed as inputs: name -> position
    lines: list[str] = field(default_factory=list)
    nodes: int = 0
    _known: dict[int, int] = field(default_factory=dict)  # id(nested GraphModule) -> its number

    def add(self, gm: GraphModule, indent: str = "") -> None:
        """Append the lines of `gm`. Raises Uncacheable, naming the node."""
        self.lines += [f"{indent}{line}" for line in _context_lines(gm, nested=bool(indent))]
        numbers: dict[Node, int] = {}
        for number, node in enumerate(gm.graph.nodes):
            try:
                self.lines.append(f"{indent}%{number} {self._node(gm, node, numbers, indent)}")
            except Uncacheable as bad:
                raise Uncacheable(f"node {node.name} ({node.op} {_called(node)}): {bad}", bad.cause) from None
            numbers[node] = number
        self.nodes += len(numbers)

    def _node(self, gm: GraphModule, node: Node, numbers: dict[Node, int], indent: str) -> str:
        text = self._call(gm, node, numbers, indent)
        # Annotations that AOTAutograd carries on to the nodes it makes of this one.
        if custom := node.meta.get("custom"):
            text += f" custom {encode(custom)}"
        return text

    def _call(self, gm: GraphModule, node: Node, numbers: dict[Node, int], indent: str) -> str:
        if node.op == "placeholder":
            # At the top its value is in the part `inputs`; inside, it is whatever the caller passes.
            return "placeholder" + (f" default {encode(node.args[0])}" if node.args else "")
        if node.op == "get_attr":
            return f"attribute {self._attribute(gm, str(node.target), indent)}"
        if node.op == "call_module":
            raise Uncacheable("a call of a module instead of its operators")
        args, kwargs = node.args, dict(node.kwargs)
        if node.op == "output":
            return f"output {self.value(args, numbers)}"
        target = self._target(node)
        stands_for = self.resolve(node)
        if stands_for is not None:
            kwargs.update({name: _Stands(value) for name, value in stands_for.items()})
        args, kwargs = marked(node.target, _with_defaults(node, args), kwargs)
        # Code of the user's may go over a dict that it is given.
        users = isinstance(node.target, (types.FunctionType, type)) and is_allowed_call(node.target)
        said = (self.value(one, numbers, in_order=users) for one in (args, kwargs))
        return " ".join((target, *said))

    def _target(self, node: Node) -> str:
        if node.op == "call_function" and node.meta.get("is_wrapped"):
            return wrapped_call(node.target, node.meta.get("user_cache_hash"))
        if node.op == "call_function" and (named := autograd_call(node.target)) is not None:
            return named
        if node.op == "call_function" and is_allowed_call(node.target):
            return allowed_call(node.target)
        if node.op == "call_function" and is_nonstrict_call(node.target):
            return nonstrict_call(node.target)
        if isinstance(node.target, types.FunctionType) and foreign(node.target) is not None:
            # Torch's function by its name, but not by its code; or around a user's.
            return f"{identify(node.target)} code {source_digest(node.target, f'a call of {_called(node)}')}"
        _refuse_added(node)
        return identify(node.target)

    def value(self, value: Any, numbers: dict[Node, int], *, in_order: bool = False) -> str:
        def leaf(item: Any) -> str | None:
            if isinstance(item, Node):
                return f"%{numbers[item]}"
            if is_symbolic(item):
                return f"<sym {self.table.text(expression_of(item))}>"
            if isinstance(item, Named):
                return group_text(item)
            if isinstance(item, _Stands):
                return f"<stands for {encode(item.value)}>"
            if isinstance(item, torch.Tensor):
                return constant(item, "an argument")
            return users_type(item) or opaque_text(item)

        return encode(value, leaf, in_order=in_order)

    def _attribute(self, gm: GraphModule, path: str, indent: str) -> str:
        found: Any = gm
        for part in path.split("."):
            found = getattr(found, part)
        if path in self.lifted:
            return f"lifted b{self.lifted[path]}"  # passed as an input; described in the part `inputs`
        if isinstance(found, GraphModule):
            return self._nested(found, indent)
        if isinstance(found, torch.Tensor):
            return constant(found, f"attribute {path}")
        if (text := nonstrict_attribute(found)) is not None:
            return text
        raise Uncacheable(f"attribute {path} of type {type(found).__module__}.{type(found).__qualname__}")

    def _nested(self, gm: GraphModule, indent: str) -> str:
        number = self._known.get(id(gm))
        if number is not None:
            return f"graph {number}"
        number = self._known[id(gm)] = len(self._known)
        self.lines.append(f"{indent}graph {number}:")
        self.add(gm, indent + "  ")
        return f"graph {number}"


def _refuse_added(node: Node) -> None:
    """Raises Uncacheable for what somebody put on torch's tensors, which is read while the graph is traced."""
    is_read = node.target is getattr and len(node.args) > 1
    name = str(node.args[1]) if is_read else node.target
    if is_read or node.op == "call_method":
        held = next((vars(one)[str(name)] for one in torch.nn.Parameter.__mro__ if str(name) in vars(one)), None)
        if held is not None and not isinstance(held, _OF_TENSORS):
            raise Uncacheable(f"{name}, which was added to torch's tensors")


# Functions and properties are compared with torch's own where all of torch's are.
_OF_TENSORS = (
    types.FunctionType, types.MethodDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType, property,
    types.BuiltinFunctionType, types.ClassMethodDescriptorType, staticmethod, classmethod,
)  # fmt: skip


def _with_defaults(node: Node, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """`args`, with what torch would take from its own state while tracing instead of an argument that is None."""
    if getattr(node.target, "__name__", "") == "_enter_autocast" and len(args) > 1 and args[1] is None:
        return (args[0], torch.get_autocast_dtype(str(args[0])), *args[2:])
    if node.target is torch.ops.aten._assert_scalar.default and len(args) == 2:
        # Dynamo's own message names symbols and nodes; the condition, an argument, says the same without.
        return (args[0], "" if str(args[1]).startswith("Runtime assertion failed for expression ") else args[1])
    return args


# What Dynamo notes on the top graph for others than the compiler, and what an entry is not made with.
_NOTES = frozenset("dynamo_flat_name_to_original_fqn dynamo_compile_id backend_id specialization".split())


def _called(node: Node) -> str:
    """The node's target for a message: without an address, so that one reason is one text in every process."""
    plain = isinstance(node.target, (types.FunctionType, types.BuiltinFunctionType, type))
    return qualified_name(node.target) if plain else str(node.target)


def _context_lines(gm: GraphModule, *, nested: bool) -> list[str]:
    """Annotations that steer the compiler and live on the module instead of its nodes.

    Higher-order operators read what they need from the meta of the graph that they are given; what is not
    known here may be anything, a function of the user's included.
    """
    lines = []
    unknown = set(gm.meta) - _NOTES - {"cudagraph_annotation", "_checkpoint_context_fn"} if nested else ()
    if unknown:
        raise Uncacheable(
            f"a nested graph with annotations that are not known to be safe: {', '.join(sorted(unknown))}"
        )
    annotation = gm.meta.get("cudagraph_annotation")
    if annotation is not None:
        lines.append(f"cudagraphs {encode([annotation.fwd, annotation.bwd])}")
    context = gm.meta.get("_checkpoint_context_fn")
    if context is not None:
        lines.append(f"checkpoint {policy_text(context)}")
    return lines


def policies_in(gm: GraphModule) -> list[Any]:
    """Each `context_fn` of a checkpoint in it, which torch asks what to save."""
    contexts = (inner.meta.get("_checkpoint_context_fn") for inner in graph_modules(gm))
    return [context for context in contexts if context is not None]


def policy_text(context: Any) -> str:
    """What a checkpoint's context_fn says of itself, or else what it does.

    torch calls it while it traces, to ask of each operation whether its result is saved. Raises Uncacheable.
    """
    user_hash = getattr(context, "cache_hash", None)
    if user_hash is not None:
        return encode(user_hash)
    try:
        return f"by code {source_digest(context, 'a checkpoint context_fn', leaf=_held_by_policy, strict=True)}"
    except Uncacheable as bad:
        raise Uncacheable(
            f"{bad}; or set its `cache_hash` attribute to a string that changes whenever its policy does (on the "
            "functools.partial itself, if it is one)",
            bad.cause,
        ) from None


def _held_by_policy(value: Any) -> str | None:
    """Operators by name, the user's too: a policy compares them, and calls none."""
    return identify(value) if is_operator(value) or is_higher_order(value) else held_tensor(value)


class _Stands(Struct, frozen=True):
    """Marks a process-local index that was replaced by what it stands for."""

    value: Any
