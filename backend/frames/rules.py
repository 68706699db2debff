"""What of a value each kind of guard is about: kind -> fingerprint. A kind that is not here is refused, never dropped.

A fingerprint says at least what the guard checks, and beside it what a trace may have folded in under this guard.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import pathlib
import types
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ..key.triton_kernels import is_constexpr
from ..torch_api.frames import guards as dynamo
from ..torch_api.frames.acting import left_by_dynamo
from ..torch_api.frames.guards import is_dtensor
from ..torch_api.frames.optimizers import is_held, is_optimizer
from ..torch_api.frames.orders import SAME, order_of
from ..torch_api.frames.plain import Refused
from ..torch_api.frames.sources import Live, Source, method_of
from ..torch_api.frames.state import PYTREE_TYPES, is_namespace_of_operators, is_pytree_registry, marks_of, ranks_text
from .classes import is_known, is_librarys, name_of
from .codes import function_name
from .held import copied_classes, is_environment, keys_of, short
from .tensors import asks_for_storages, spec_text, tensor_text
from .values import Values

Arguments = dict[str, Any]


@dataclass(slots=True)
class Looking:
    """One look at a live frame. sizes: of each input that is a tensor, (sizes, strides, marked by the trace itself).
    asked: names that the traced code asks for. closure: the frame's own cells. untraced: what is said of code that
    runs and is not traced, by the ids of what it runs for. copied: sources of which only `copy` asks which object they
    are; None for all. ordered: whether the order of a set of texts counts: the trace, or what ran in it, may have gone
    over one."""

    live: Live
    sizes: dict[Source, tuple[Any, Any, bool]]
    asked: set[str]
    closure: tuple[types.CellType, ...] = ()
    values: Values = field(default_factory=Values)
    untraced: dict[int, str] = field(default_factory=dict)
    copied: Collection[Source] | None = None
    ordered: bool = True
    beneath: bool = field(init=False)

    def __post_init__(self) -> None:
        self.beneath = asks_for_storages(self.asked)

    def text(self, source: Source, kind: str, arguments: Arguments) -> str:
        """Raises Refused, naming the guard."""
        rule = _RULES.get(kind)
        if rule is None:
            why = _REFUSED.get(kind, "a kind of guard that is not known here")
            raise Refused(f"{kind} on {source.name}: {why}")
        try:
            return rule(self, source, arguments)
        except Refused as why:
            raise Refused(f"{kind} on {source.name}: {why}") from None


Rule = Callable[[Looking, Source, Arguments], str]
_RULES: dict[str, Rule] = {}

_REFUSED = {
    "NN_MODULE": "a module by its identity: all that it holds is folded in",
}


def _rule(*kinds: str) -> Callable[[Rule], Rule]:
    def put(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return put


@_rule(
    *"GRAD_MODE DETERMINISTIC_ALGORITHMS FSDP_TRAINING_STATE GLOBAL_STATE TORCH_FUNCTION_STATE DEFAULT_DEVICE".split(),
    *"SHAPE_ENV AUTOGRAD_SAVED_TENSORS_HOOKS DUAL_LEVEL FUNCTORCH_STACK_MATCH".split(),
)
def _world(look: Looking, source: Source, arguments: Arguments) -> str:
    return ""  # compared once for the frame (`world`); sizes by the text of their guards


@_rule("TYPE_MATCH", "FAKE_SCRIPT_TYPE_MATCH")
def _type(look: Looking, source: Source, arguments: Arguments) -> str:
    value = look.live(source)
    # Whether some containers are empty Dynamo asks under no guard but this one.
    more = f" {bool(value)}" if type(value) in _CONTAINERS else ""
    if isinstance(value, COMPARED):  # by the library's own text: a class of the user's may say anything
        library: Any = next(base for base in type(value).__mro__ if is_librarys(base))
        more = f" {library.__repr__(value)}"
    if (ranks := ranks_text(value)) is not None:
        return ranks
    if is_constexpr(value):
        more = f" {look.values.constant(value.value)}"
    return look.values.classes.text(type(value)) + more


_CONTAINERS = (
    dict, list, set, tuple, frozenset, collections.OrderedDict, collections.deque, collections.defaultdict,
)  # fmt: skip


# Dynamo compares and hashes these at once, under the guard on their type alone.
COMPARED = (
    decimal.Decimal, fractions.Fraction, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, bytes,
    bytearray, complex, uuid.UUID, pathlib.PurePath,
)  # fmt: skip


@_rule("ID_MATCH", "FUNCTION_MATCH", "BUILTIN_MATCH", "CLASS_MATCH", "MODULE_MATCH")
def _identity(look: Looking, source: Source, arguments: Arguments) -> str:
    value = look.live(source)
    if is_held(value):  # by the graph: it is bound anew, whatever its numbers are
        size, stride = tuple(value.shape), value.stride()
        return tensor_text(value, size, stride, False, look.values, beneath=look.beneath)
    if is_optimizer(value):  # all that it holds is reached, and the guard says that it is this one
        return f"optimizer:{look.values.classes.text(type(value))}"
    try:
        return look.values.identity(value)
    except Refused:
        if look.copied is not None and source not in look.copied:
            raise
        return f"copied:{look.values.classes.text(type(value))}"


@_rule("WEAKREF_ALIVE")
def _alive(look: Looking, source: Source, arguments: Arguments) -> str:
    if not is_optimizer(look.live(source)):
        raise Refused("an object that only this process refers to (an optimizer's tensors)")
    return "optimizer"


@_rule("OPAQUE_OBJ_GUARD_FN_MATCH")
def _opaque(look: Looking, source: Source, arguments: Arguments) -> str:
    if (ranks := ranks_text(look.live(source))) is None:
        raise Refused("values that an opaque object gives")
    return ranks


@_rule("CLOSURE_MATCH")
def _closure(look: Looking, source: Source, arguments: Arguments) -> str:
    value = look.live(source)
    if not hasattr(value, "__code__"):
        return look.values.identity(value)
    # Its defaults and its closure have guards of their own.
    return f"{function_name(value)} {look.values.code(value.__code__)} {marks_of(value)}"


@_rule("EQUALS_MATCH", "CONSTANT_MATCH", "BOOL_MATCH", "NONE_MATCH")
def _equals(look: Looking, source: Source, arguments: Arguments) -> str:
    value = look.live(source)
    if value is PYTREE_TYPES:
        return f"types:{sorted(map(look.values.identity, value))}"
    is_shuffled = type(value) in (set, frozenset) and order_of(value) != SAME
    if is_shuffled and (not look.ordered or _is_only_asked_for_items(look, source)):
        return f"{type(value).__name__}:{sorted(map(look.values.constant, value))}"
    return look.values.constant(value)


def _is_only_asked_for_items(look: Looking, source: Source) -> bool:
    """Whether Dynamo alone reaches this set, through its bound `__contains__` (Python's `keyword.iskeyword`).

    Its order is another one in each process, and no code that was traced can have looked at it.
    """
    found = method_of(source)
    if found is None or "__self__" in look.asked:
        return False
    method = look.live(found)
    return isinstance(method, types.BuiltinMethodType) and method.__name__ == "__contains__"


@_rule("CONSTANT_SUBCLASS_MATCH")
def _constant_subclass(look: Looking, source: Source, arguments: Arguments) -> str:
    value = look.live(source)
    assert dynamo.constant_of_subclass is not None
    return f"{look.values.classes.text(type(value))} {look.values.constant(dynamo.constant_of_subclass(value))}"


@_rule("SEQUENCE_LENGTH")
def _length(look: Looking, source: Source, arguments: Arguments) -> str:
    value = look.live(source)
    if not hasattr(type(value), "__len__"):
        raise Refused(f"{source.name} has no length")
    # Who goes over the environment sees all of its names, and there is no other guard.
    names = f" {short(repr([*value]))}" if is_environment(value) else ""
    return f"{look.values.classes.text(type(value))} {len(value)}{names}"


@_rule("EMPTY_NN_MODULE_HOOKS_DICT")
def _no_hooks(look: Looking, source: Source, arguments: Arguments) -> str:
    # torch makes no guard of this by default (skip_nnmodule_hook_guards); a restore asks all the same.
    if len(look.live(source)):
        raise Refused("there are hooks")
    return "empty"


@_rule("DICT_KEYS_MATCH", "MAPPING_KEYS_CHECK")
def _keys(look: Looking, source: Source, arguments: Arguments) -> str:
    value = look.live(source)
    if (names := copied_classes(value)) is not None:
        return f"{sorted(names)}"
    return f"{look.values.classes.text(type(value))} {[look.values.key_of_dict(key) for key in keys_of(value)]}"


@_rule("DICT_VERSION")
def _version(look: Looking, source: Source, arguments: Arguments) -> str:
    value = look.live(source)
    if not is_pytree_registry(value):
        raise Refused("the version of a dict")
    return short("\n".join(sorted(f"{key.__module__}.{key.__qualname__}" for key in value)))


@_rule("DICT_CONTAINS", "SET_CONTAINS", "DICT_NOT_CONTAINS", "SET_NOT_CONTAINS")
def _contains(look: Looking, source: Source, arguments: Arguments) -> str:
    key = arguments["key"]
    return f"{look.values.key(key)} {key in look.live(source)}"


@_rule("HASATTR")
def _hasattr(look: Looking, source: Source, arguments: Arguments) -> str:
    return f"{arguments['attr']} {hasattr(look.live(source), arguments['attr'])}"


@_rule("NOT_PRESENT_IN_GENERIC_DICT")
def _not_present(look: Looking, source: Source, arguments: Arguments) -> str:
    return f"{arguments['attr']} {arguments['attr'] in getattr(look.live(source), '__dict__', ())}"


@_rule("TUPLE_ITERATOR_LEN")
def _tuple_iterator(look: Looking, source: Source, arguments: Arguments) -> str:
    value = look.live(source)
    return f"{look.values.classes.text(type(value))} {dynamo.tuple_iterator_length(value)}"


@_rule("RANGE_ITERATOR_MATCH")
def _range_iterator(look: Looking, source: Source, arguments: Arguments) -> str:
    assert dynamo.range_iterator is not None
    return str(dynamo.range_iterator(look.live(source)))


@_rule("COUNT_ITERATOR_MATCH")
def _count_iterator(look: Looking, source: Source, arguments: Arguments) -> str:
    assert dynamo.count_iterator is not None
    return str(dynamo.count_iterator(look.live(source)))


@_rule("DISPATCH_KEY_SET_MATCH")
def _dispatch_keys(look: Looking, source: Source, arguments: Arguments) -> str:
    return str(look.live(source).raw_repr())


@_rule("NOT_NONE_MATCH")
def _not_none(look: Looking, source: Source, arguments: Arguments) -> str:
    return str(look.live(source) is not None)


@_rule("TENSOR_MATCH")
def _tensor(look: Looking, source: Source, arguments: Arguments) -> str:
    if source not in look.sizes:
        raise Refused("a tensor that is no input of the graph")
    size, stride, marked = look.sizes[source]
    value = look.live(source)
    runs = look.untraced.get(id(value), "")
    return f"{tensor_text(value, size, stride, marked, look.values, beneath=look.beneath)}{runs}"


@_rule("DTENSOR_SPEC_MATCH")
def _spec(look: Looking, source: Source, arguments: Arguments) -> str:
    """A DTensor's mesh and placements, and beside them the tensor itself, on which torch puts no guard."""
    owner = getattr(source, "base", None)
    if owner is None or not is_dtensor(look.live(owner)):
        raise Refused("a DTensor's specification alone")
    return f"{spec_text(look.live(source))} {_tensor(look, owner, arguments)}"


@_rule(dynamo.ON_SUBCLASS)
def _subclass(look: Looking, source: Source, arguments: Arguments) -> str:
    value = look.live(source)
    return f"{name_of(type(value))}, what it is, holds and runs: {look.untraced[id(value)]}"


@_rule("DUPLICATE_INPUT")
def _duplicate(look: Looking, source: Source, arguments: Arguments) -> str:
    return str(look.live(source) is look.live(arguments["source_b"]))


def surface_text(look: Looking, source: Source) -> str:
    """What a guarded value has by names and keys: see `Values.surface`."""
    value = look.live(source)
    if value is None or isinstance(value, (bool, int, float, str, bytes, torch.dtype, torch.device)):
        return ""
    if dynamo.is_globals(source):  # which names are there is said of all of them alike (`space_text`)
        return ""
    return "" if copied_classes(value) is not None else look.values.surface(value, look.asked)


def space_text(space: Mapping[str, Any], asked: Collection[str], looked_for: Collection[str]) -> str:
    """A digest. looked_for: names of which traced code asks whether they are there. Others do not count where they are
    modules in torch or in the standard library: those come and go as they are imported. Nor do namespaces of operators:
    torch makes one of any name that is asked for.
    """
    left = left_by_dynamo(space)
    names = sorted(name for name in asked if name in space and name not in left)
    module = str(space.get("__name__", ""))
    if is_known(module):
        names = [name for name in names if name in looked_for or not isinstance(space[name], types.ModuleType)]
    if space is vars(torch.ops):
        names = [name for name in names if not is_namespace_of_operators(space[name])]
    if "__getattr__" in space and "__getattr__" not in asked:
        names.append("__getattr__")
    return short("\n".join(names))
