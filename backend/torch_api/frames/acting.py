"""What acts, or looks at the process, where Dynamo traces a call of it: a restored frame would leave it undone."""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any

import torch
from torch._dynamo.decorators import DynamoConfigPatchProxy, ErrorOnGraphBreakDecoratorContextManager
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable
from torch.utils._pytree import tree_leaves
from warmgraph.hashing import (
    called_as_it_is,
    is_allowed_call,
    is_nonstrict_call,
    looking_once,
    nonstrict_function,
    nonstrict_results,
    untraced_text,
)

from ..compile import no_dispatch_modes
from ..operators import OpOverload, OpOverloadPacket, called, is_one
from .devices import told_of_devices
from .fakes import CONSTANTS, plain_codes
from .plain import Plain, to_plain
from .ran import is_foreign, noting, paused
from .seen import Seen, note_chance, seen
from .state import convert_frame

# How torch's own `mark_static` (of which `flex_attention` asks) makes a size fixed: it is so in the record.
_BY_TORCH = ("G['__import_torch_dot__dynamo_dot_decorators'].comptime", "G['__import_torch_dot__dynamo_dot_comptime']")


def acts_while_traced(value: Any, name: str) -> str | None:
    """In words; None for what is traced. name: of its source."""
    module = sys.modules.get("torch._dynamo.comptime")
    if module is not None and (value is module or value is module.comptime) and not name.startswith(_BY_TORCH):
        return "comptime"
    if isinstance(value, (DynamoConfigPatchProxy, ErrorOnGraphBreakDecoratorContextManager)):
        # The first is in exported modules: what is traced more for it is compared, as all that is traced.
        return None if getattr(value, "changes", None) == {"dont_skip_tracing": True} else "a setting of Dynamo"
    if value is torch.seed or value is torch.initial_seed:
        return "a random seed"
    return None


def running(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of Dynamo's `run_node`, where it finds out what a node of its graph gives.

    A custom operator's fake runs, and is not traced: what it depends on is said with the operator, of which the graph's
    key speaks. A function of torch's that is given no tensor and gives none is really called.
    """

    def run(tracer: Any, node: Any, args: Any, kwargs: Any, *more: Any) -> Any:
        current = seen()
        if current is None:
            return original(tracer, node, args, kwargs, *more)
        if node.op == "call_function" and is_allowed_call(node.target):
            note_untraced(current, called_as_it_is(node.target))
        if node.op == "call_function" and is_nonstrict_call(node.target):
            note_untraced(current, nonstrict_function(args[0]))
        with _watching_operators(current, node.target, args, kwargs):
            found = original(tracer, node, args, kwargs, *more)
        if node.op == "call_function" and is_nonstrict_call(node.target):
            current.nested |= {id(spec): spec for spec in nonstrict_results(node.target)}
        if node.op == "call_function" and _is_constant((found, args, kwargs)) and not _is_told(node.target):
            note_chance(f"{getattr(node.target, '__qualname__', node.target)}(), which acts on the process, or asks it")
        return found

    return run


def note_untraced(current: Seen, value: Any) -> None:
    """What is said of code that is about to run: it may change what it reads."""
    if id(value) not in current.untraced:
        try:
            with no_dispatch_modes(), looking_once(current.known):  # it may read a tensor that such code holds
                text = untraced_text(value)
        except Exception as why:  # noqa: BLE001 - of whatever a user's `__tensor_flatten__` raises; no record comes of it
            text = str(why)
        current.untraced[id(value)] = value, text


def assuming(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of `assume_constant_result`: what Dynamo calls at once and folds in. A restore calls it again, and compares.

    Dynamo leaves the result among the globals of the frame as well, under the function's name or one like it.
    """

    def store(tx: Any, function: Any, called: str, args: Any, kwargs: Any) -> Any:
        current, space = seen(), tx.output.global_scope
        before = set(space)

        def call(*given: Any, **named: Any) -> Any:
            arguments = _fixed([given, named])
            found = ask(function, given, named, arguments)
            if current is not None:
                state = convert_frame.initial_global_state
                result = _fixed([(found,)]) if state is not None and state.check() else None
                said = None if arguments is None or result is None else [*arguments, *result]
                current.assumed.append((function, said))
            return found

        try:
            return original(tx, call, called, args, kwargs)
        finally:
            fresh = (space.keys() - before) & tx.output.nn_modules.keys()
            _left.setdefault(id(space), (space, {}))[1].update({name: space[name] for name in fresh})

    return store


def _fixed(values: list[Any]) -> Plain | None:
    """As plain data, where nobody can change them and all that they are is in it (a nan has a sign besides)."""
    if not all(all(map(_is_fixed, one.values())) if type(one) is dict else _is_fixed(one) for one in values):
        return None
    return [{k: to_plain(v) for k, v in one.items()} if type(one) is dict else to_plain(one) for one in values]


def _is_fixed(value: Any) -> bool:
    return all(map(_is_fixed, value)) if type(value) is tuple else type(value) in CONSTANTS and value == value


@contextlib.contextmanager
def asking_once() -> Iterator[None]:
    """While one frame is compiled: what a restore has asked in vain, the trace is not to ask again."""
    before, _thread.answers = getattr(_thread, "answers", None), []
    try:
        yield
    finally:
        _thread.answers = before


def ask(function: Any, given: Any, named: Any, arguments: Plain | None, used: set[int] | None = None) -> Any:
    """What an assumed constant is. arguments: as plain data. used: numbers of answers that a restore has taken, which
    others may take after it; a trace takes them for good.
    """
    answers = getattr(_thread, "answers", None) or []
    for number, (one, said, found) in enumerate(answers):
        if one is function and said == arguments is not None and number not in (used or ()):
            if used is None:
                del answers[number]
            else:
                used.add(number)
            return found
    with paused():
        found = function(*given, **named)
    if used is not None and getattr(_thread, "answers", None) is not None:
        used.add(len(_thread.answers))
        _thread.answers.append((function, arguments, found))
    return found


_thread = threading.local()
_left: dict[int, tuple[Any, dict[str, Any]]] = {}  # by the id of a module's globals, which are kept alive


def left_by_dynamo(space: Mapping[str, Any]) -> set[str]:
    """Names of globals that `assume_constant_result` left there: they are none of the program's."""
    _, names = _left.get(id(space), (None, {}))
    return {name for name, value in names.items() if space.get(name) is value}


def leaving_out() -> Callable[[Any], list[str]]:
    """Gives which methods of a logger Dynamo was told to leave out, or the name of a function that it was told to. It
    knows them by identity.
    """
    config: Any = torch._dynamo.config
    told = {*getattr(config, "ignore_logging_functions", ()), *config.ignore_logger_methods}  # two names of one set

    def left_out(value: Any) -> list[str]:
        return sorted(one.__name__ for one in told if one is value or getattr(one, "__self__", one) is value)

    return left_out


def asking_super(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of `super().__getattribute__(name)` before torch 2.13, for which Dynamo really asks the object.

    A property's getter may run: what it gives is read through a source, which runs it again at each call, and guarded.
    """

    def call_method(self: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
        current, getter = seen(), _getter(self, name, args)
        if current is None or getter is None:
            return original(self, tx, name, args, kwargs)
        ran: list[Any] = []
        with paused(), noting(ran, frozenset({getter})):
            found = original(self, tx, name, args, kwargs)
        current.ran += ran
        return found

    return call_method


def _getter(variable: Any, name: str, args: Any) -> CodeType | None:
    """The code of the property that is asked for, of an object with a source."""
    holder = variable.objvar
    if name != "__getattribute__" or not isinstance(holder, UserDefinedObjectVariable) or holder.source is None:
        return None
    asked = args[0].as_python_constant() if len(args) == 1 and args[0].is_python_constant() else None
    found = inspect.getattr_static(type(holder.value), asked, None) if isinstance(asked, str) else None
    return getattr(found.fget, "__code__", None) if type(found) is property else None


@contextlib.contextmanager
def _watching_operators(current: Seen, target: Any, args: Any, kwargs: Any) -> Iterator[None]:
    """Custom operators that `target` runs: of theirs plain code may run, and none beside it."""
    try:
        plain = _plain(current, target, args, kwargs)
    except Exception:  # noqa: BLE001 - of whatever a user put there; then it is seen to run
        plain = {}
    if not plain:
        yield
        return
    ran: list[Any] = []
    try:
        with paused(), noting(ran, frozenset().union(*plain.values()), is_foreign):
            yield
    finally:  # a size that depends on data is an exception to Dynamo, and ends the graph there
        current.operators.update(plain)
        current.ran += ran


def _plain(current: Seen, target: Any, args: Any, kwargs: Any) -> dict[str, set[CodeType]]:
    """By name the code of each; empty where any may be more than plain, or does more than its fake does."""
    operators = called(target, args)
    if any(getattr(leaf, "constant", None) is not None for leaf in tree_leaves((args, kwargs))):
        return {}  # torch runs the implementation of an operator whose arguments are all constants
    if not isinstance(target, OpOverload | OpOverloadPacket) and not operators.keys() <= current.operators:
        return {}  # within a graph: each of them ran by itself when that was traced
    codes = {name: plain_codes(one) if is_one(name) else None for name, one in operators.items()}
    return {} if None in codes.values() else codes  # type: ignore[return-value]


def _is_constant(value: Any) -> bool:
    return all(type(leaf) in CONSTANTS for leaf in tree_leaves(value))


# What such a function may be: it computes with what it is given alone, says what a record compares (`state.words`), or
# loads what torch needs.
_PURE = ("_operator", "operator", "math", "builtins")
_TOLD = frozenset(
    """
    torch.get_float32_matmul_precision torch.get_default_dtype torch.get_default_device torch.is_grad_enabled
    torch.is_inference_mode_enabled torch.backends.cudnn.is_available torch.backends.cuda.is_built
    torch.backends.mps.is_available torch.backends.mps.is_built
    torch.get_num_threads torch.cuda.device_count torch.cuda.get_device_capability torch.cuda.get_device_name
    torch.backends.cuda.is_flash_attention_available torch.backends.cuda.flash_sdp_enabled
    torch.backends.cuda.mem_efficient_sdp_enabled torch.backends.cuda.math_sdp_enabled
    torch.backends.cuda.cudnn_sdp_enabled torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed
    torch._C._get_flash_sdp_enabled torch._C._get_mem_efficient_sdp_enabled torch._C._get_math_sdp_enabled
    torch._C._get_cudnn_sdp_enabled torch._C._get_overrideable_sdp_enabled torch._C._is_autocast_available
    torch._C._are_functorch_transforms_active torch._C._log_api_usage_once torch.functional.broadcast_shapes
    torch.sym_int torch.sym_float torch.sym_max torch.sym_min torch.sym_sum torch.sym_not torch.sym_sqrt
    torch._VariableFunctionsClass.can_cast torch.is_anomaly_enabled torch.is_anomaly_check_nan_enabled
    torch.is_deterministic_algorithms_warn_only_enabled torch.get_deterministic_debug_mode
    torch.backends.mkl.is_available torch.backends.openmp.is_available torch.cpu.is_available
    torch._functorch.predispatch.lazy_load_decompositions torch.autograd.forward_ad._maybe_load_decompositions
    """.split()
)


def _is_told(target: Any) -> bool:
    if is_allowed_call(target):
        return True  # by its code
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", "")
    if name.startswith("pybind11_"):  # in some builds of torch it begins with a class of pybind11's
        name = target.__name__
    full = f"{module}.{name}"
    return module in _PURE or full in _TOLD or full in told_of_devices()
