"""What a stored graph may call, by name: operators, plain functions on sizes, higher-order operators. A closed list.

Nothing is imported for a name, and none leads to other Python code: torch's registry of operators is asked, and
two tables. What is not there cannot be kept, and is not loaded.
"""

from __future__ import annotations

import builtins
import math
import operator
import re
from collections.abc import Callable
from typing import Any

import torch

from ..torch_api import compile as compat
from ..torch_api import cudagraph_trees as cudagraphs
from ..torch_api.safety import SYMBOLIC

NAME = re.compile(r"[A-Za-z_]\w{0,250}", re.ASCII)

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module, names in {
        operator: (
            "getitem add sub mul floordiv truediv mod pow neg pos abs eq ne lt le gt ge and_ or_ xor not_ invert "
            "lshift rshift index"
        ),
        math: "ceil floor trunc sqrt log log2 exp fabs isinf isnan",
        torch: " ".join(
            ("sym_int sym_float sym_max sym_min sym_ite sym_not sym_sum _sym_sqrt", *map("_sym_{}".format, SYMBOLIC))
        ),
        builtins: "abs bool float int max min pow round",
    }.items()
    for name in names.split()
    if hasattr(module, name)
}
_NAMES = {function: name for name, function in reversed(_FUNCTIONS.items())}

# Those that are given graphs, tensors and plain data, and compute. Not: what names a kernel or an object of this
# process by a number (Triton's, torchbind's), and what has effects.
HIGHER_ORDER = frozenset(
    """
    auto_functionalized auto_functionalized_v2 flex_attention flex_attention_backward invoke_subgraph
    run_and_save_rng_state run_with_rng_state graphsafe_run_with_rng_state cond while_loop scan map_impl
    """.split()
)


class Unknown(ValueError):
    """A target that no stored graph may name."""


def name_of(target: Any) -> list[str]:
    """The target as data. Raises Unknown."""
    if isinstance(target, compat.OpOverload):
        return ["op", target._schema.name, target._overloadname, str(target._schema)]
    if isinstance(target, cudagraphs.HigherOrderOperator) and target.name() in HIGHER_ORDER:
        return ["higher order", target.name()]
    try:
        return ["function", _NAMES[target]]
    except (KeyError, TypeError):
        called = getattr(target, "__name__", target)
        raise Unknown(f"a call of {called!s:.100}, which no stored graph may name") from None


def target_of(name: Any) -> Any:
    """What `name_of` was told of, if this process has the same. Raises Unknown."""
    match name:
        case ["op", str(full), str(overload), str(schema)]:
            found = _operator(full, overload)
            if str(found._schema) != schema:
                raise Unknown(f"{full}.{overload} is {found._schema} here, and was {schema}")
            return found
        case ["higher order", str(plain)] if plain in HIGHER_ORDER:
            found = getattr(torch.ops.higher_order, plain, None)
            if isinstance(found, cudagraphs.HigherOrderOperator):
                return found
        case ["function", str(plain)] if plain in _FUNCTIONS:
            return _FUNCTIONS[plain]
    raise Unknown(f"a target that no stored graph names: {name!r:.200}")


def _operator(full: str, overload: str) -> Any:
    namespace, _, plain = full.partition("::")
    if not all(NAME.fullmatch(part) for part in (namespace, plain, overload)):
        raise Unknown(f"no name of an operator: {full!r:.100}.{overload!r:.100}")
    space = getattr(torch.ops, namespace)
    packet = getattr(space, plain, None) if isinstance(space, cudagraphs._OpNamespace) else None
    found = getattr(packet, overload, None) if isinstance(packet, compat.OpOverloadPacket) else None
    if not isinstance(found, compat.OpOverload):
        raise Unknown(f"operator {full}.{overload}, which is not registered here")
    return found
