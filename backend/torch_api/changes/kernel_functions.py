"""Which functions the Python kernels are that the dispatcher has.

torch hands none of them out, only a way to call each. So it is called with arguments made up by its schema, and Python
is told to stop before the first instruction: what was about to run is the function, and nothing of it ran.
"""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import traceback
import types
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode
from warmgraph.hashing import bound_cells, comes_with_torch

from ..compile import no_dispatch_modes
from ..operators import overload_named
from .kernels import is_python, registered


class _Stop(BaseException):
    """Instead of a kernel's first instruction."""


def python_kernels(kernels: Sequence[tuple[str, str]]) -> list[Any]:
    """The function behind each (operator, dispatch key), or the method of the object that it is bound to, or the class
    of `torch.autograd.Function` whose `apply` it is.

    None for what is no code of Python's, for an operator with arguments that cannot be made up or without a tensor
    among them, and while this thread has a profiler of Python's. And where torch runs another one under a mode: one
    that took this one's place, and is gone.
    """
    found = kernels_with_keys(kernels)
    # With the keys in front only where torch wrote it: nothing else says that it is given them.
    return [one if not keys or comes_with_torch(code_of(one).co_filename) else None for one, keys in found]


def code_of(kernel: Any) -> Any:
    """None for a class."""
    return getattr(getattr(kernel, "__func__", kernel), "__code__", None)


_lock = threading.RLock()  # the collector's switch is the process's


def kernels_with_keys(kernels: Sequence[tuple[str, str]]) -> list[tuple[Any, bool]]:
    """Function or method, and whether it is given the dispatch keys. Asked under a mode as well, with other arguments:
    what was bound by a `functools.partial` may look like an argument once.
    """
    if not kernels or sys.getprofile() is not None:
        return [(None, False)] * len(kernels)
    with _lock, no_dispatch_modes(), torch._C.DisableTorchFunction(), torch.enable_grad():
        calls = [[_call_of(name, key, turn) for name, key in kernels] for turn in (0, 1)]
        collects = gc.isenabled()
        gc.disable()  # a finalizer is code as well
        try:
            plain = [call and _enter(*call) for call in calls[0]]
            _push_mode(TorchDispatchMode())
            try:
                traced = [call and _enter(*call) for call in calls[1]]
            finally:
                _pop_mode()
        finally:
            if collects:
                gc.enable()
        once, again = (list(map(_function, *turn)) for turn in ((calls[0], plain), (calls[1], traced)))
    return [one if _is_one(one, other) else (None, False) for one, other in zip(once, again, strict=True)]


def _is_one(found: tuple[Any, bool], other: tuple[Any, bool]) -> bool:
    (kernel, keys), (again, keys_again) = found, other
    are_methods = type(kernel) is type(again) is types.MethodType  # made anew each time, and equal by what they bind
    return keys == keys_again and (kernel is again or (are_methods and kernel == again))


Call = tuple[Any, str, list[Any], dict[str, Any]]  # an operator, a dispatch key, arguments
# With how many kernels there were: what ran no code of Python's (it did run, so it is not called again), and of what
# the function was searched for in vain.
_no_code: set[tuple[str, str, int]] = set()
_in_vain: set[tuple[str, str, int]] = set()


def _call_of(name: str, key: str, turn: int) -> Call | None:
    """How to call a kernel. A key without a kernel of its own must not be asked: torch reads past its table."""
    is_code = (name, key, len(torch.library._impls)) not in _no_code
    if not is_code or not any(is_python(file) for _, file in registered(name, key)):
        return None
    try:
        overload = overload_named(name)
    except AttributeError:  # a kernel may be given before there is an operator
        return None
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for number, one in enumerate(overload._schema.arguments):
        if one.has_default_value():  # the dispatcher leaves out what is as its default
            continue
        value = _made_up(one.real_type, number, turn)
        if value is NotImplemented:
            return None
        if one.kwarg_only:
            named[one.name] = value
        else:
            positional.append(value)
    # `functools.cache` passes plain arguments on, and answers by itself what it was asked before; of tensors it asks
    # a hash, which is code.
    has_tensor = any(isinstance(one, torch.Tensor) for one in torch.utils._pytree.tree_leaves([positional, named]))
    return (overload, key, positional, named) if has_tensor else None


def _made_up(kind: Any, number: int, turn: int) -> Any:
    """An argument of a type; `number` tells those of one type apart, `turn` those of two calls."""
    name, some = kind.kind(), number + 3 + 100 * turn
    if name == "OptionalType":  # it may be the only tensor that there is
        return _made_up(kind.getElementType(), number, turn) if kind.getElementType().kind() == "TensorType" else None
    if name == "ListType":
        value = _made_up(kind.getElementType(), number, turn)
        return value if value is NotImplemented else [value]
    if name == "TensorType":
        return torch.empty((0, some), device="cpu")
    values = {
        **dict.fromkeys(("IntType", "SymIntType"), some),
        **dict.fromkeys(("FloatType", "SymFloatType", "NumberType"), some + 0.5),
        **dict.fromkeys(("BoolType", "SymBoolType"), turn == 0),
        "ComplexType": complex(some, 1),
        "StringType": f"{some}",
        "DeviceObjType": torch.device("cpu" if turn else "meta"),
        "ScalarTypeType": torch.float64 if turn else torch.float16,
        "LayoutType": torch.strided,
        "MemoryFormatType": torch.contiguous_format,
    }
    return values.get(name, NotImplemented)


Entered = tuple[types.CodeType, dict[str, Any], dict[str, Any], bool]  # code, locals, globals, with gradients


def _enter(overload: Any, key: str, positional: list[Any], named: dict[str, Any]) -> Entered | None:
    """What a call would run, at its start."""
    found: Entered | None = None
    is_called = False
    ask, dispatch_key = overload._op_dk, torch._C._dispatch_key_parse(key)

    def stop(frame: types.FrameType, event: str, value: Any) -> None:
        nonlocal found, is_called
        if event.startswith("c_") and frame.f_code is _ask.__code__:
            is_called = event == "c_call" and value is ask
        elif event == "call" and is_called and frame.f_back is not None and frame.f_back.f_code is _ask.__code__:
            held = dict(frame.f_locals)
            if not _is_given_a_frame(held):
                found = frame.f_code, held, frame.f_globals, torch.is_grad_enabled()
                raise _Stop

    try:
        sys.setprofile(stop)
        _ask(ask, dispatch_key, positional, named)
        _no_code.add((overload.name(), key, len(torch.library._impls)))
    except _Stop:
        return found
    except Exception as bad:
        if [*traceback.walk_tb(bad.__traceback__)][-1][0].f_code is not _ask.__code__:  # of a handler of signals
            raise
    finally:
        sys.setprofile(None)
    return None  # or C++ refuses the arguments


def _is_given_a_frame(held: dict[str, Any]) -> bool:
    """As handlers of signals are, which come at any time, and no kernel is."""
    given = [one for value in held.values() for one in (value if type(value) is tuple else (value,))]
    return any(type(one) is types.FrameType for one in given)


def _ask(ask: Any, dispatch_key: Any, positional: list[Any], named: dict[str, Any]) -> None:
    ask(dispatch_key, *positional, **named)


# By the id of the code. What is found here is compared with what was about to run, as all others are.
_functions: dict[int, weakref.WeakSet[types.FunctionType]] = {}


def _function(call: Call | None, entered: Entered | None) -> tuple[Any, bool]:
    """What was about to run: of all functions with its code one with what it closes over and its defaults. And
    whether it is given the dispatch keys.
    """
    if call is None or entered is None:
        return None, False
    (code, held, space, with_gradients), (overload, key, positional, named) = entered, call
    if code is _BINDS:
        return _applied(held["func"], []), False
    if code.co_filename == torch._tensor.__file__:  # something of C++ that asks a tensor: its hash, its items
        return None, False
    this = overload.name(), key, len(torch.library._impls)
    for one in _candidates(code, held, space, searches=this not in _in_vain):
        if type(one) is not types.FunctionType or one.__code__ is not code or one.__globals__ is not space:
            continue
        for bound in _beginnings(code, held):
            if _begins(one, held, [*bound, *positional], named):
                own = [value for value in bound if type(value) is not torch._C.DispatchKeySet]
                if not with_gradients:
                    return _applied(one, own), False
                return types.MethodType(one, own[0]) if own else one, len(own) < len(bound)
    _in_vain.add(this)
    return None, False


# What `apply` of torch 2.15 calls first, where a class has a `setup_context`.
_BINDS = getattr(getattr(torch.autograd.function, "_bind_default_args", None), "__code__", None)


def _applied(forward: types.FunctionType, own: list[Any]) -> Any:
    """The class whose forward this is. torch 2.15 calls it from C++, in `apply`, where gradients are switched off."""
    kinds = [getattr(type(own[0]), "_forward_cls", None)] if own else _functions_of(torch.autograd.Function)
    fitting = [kind for kind in kinds if kind is not None and kind.forward is forward]
    return fitting[0] if len(fitting) == 1 else None


def _functions_of(kind: Any) -> list[Any]:
    return [one for inner in kind.__subclasses__() for one in (inner, *_functions_of(inner))]


def _candidates(code: types.CodeType, held: dict[str, Any], space: dict[str, Any], *, searches: bool) -> Iterator[Any]:
    """What may be a function with this code. The collector is asked last: it goes through every object there is, but
    for those that `gc.freeze` put aside.
    """
    yield from tuple(_functions.get(id(code), ()))
    named = tuple(space.values())
    yield from named
    first: Any = held.get(code.co_varnames[0]) if code.co_argcount else None
    bases = (first if issubclass(type(first), type) else type(first)).__mro__
    for kind in (*bases, *(one for one in named if issubclass(type(one), type))):
        for one in tuple(vars(kind).values()):
            yield one.__func__ if type(one) in (staticmethod, classmethod) else one
    if searches:
        found = [one for one in gc.get_referrers(code) if type(one) is types.FunctionType]
        _functions[id(code)] = weakref.WeakSet(found)
        yield from found


def _beginnings(code: types.CodeType, held: dict[str, Any]) -> Iterator[list[Any]]:
    """What may stand before the operator's arguments: an object that it is bound to, and (`with_keyset`) the keys."""
    first = [held.get(name) for name in code.co_varnames[: min(code.co_argcount, 2)]]
    yield []
    if first and first[0] is not None:
        yield first[:1]
        if type(first[-1]) is torch._C.DispatchKeySet:
            yield first


def _begins(function: types.FunctionType, held: dict[str, Any], positional: list[Any], named: dict[str, Any]) -> bool:
    """Whether a call of `function` begins with these locals."""
    cells = bound_cells(function)
    if any(name not in held or held[name] is not value for name, value in cells.items()):
        return False
    # Without what it says of itself: a signature, or what it wraps.
    bare = types.FunctionType(
        function.__code__, function.__globals__, "bare", function.__defaults__, function.__closure__
    )
    bare.__kwdefaults__ = function.__kwdefaults__
    defaults = {id(one) for one in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())}
    try:
        given = inspect.getcallargs(bare, *positional, **named)
    except TypeError:
        return False
    return held.keys() == given.keys() | cells.keys() and all(
        held[name] is value or (id(value) not in defaults and _is_alike(value, held[name]))
        for name, value in given.items()
    )


def _is_alike(made_up: Any, value: Any) -> bool:
    """Whether it is this argument, as the dispatcher makes it anew."""
    if value is made_up:
        return True
    kind = type(made_up)
    if kind is torch.Tensor:
        return type(value) is torch.Tensor and value.shape == made_up.shape
    if kind in (torch.dtype, torch.layout, torch.memory_format):  # a number, to the dispatcher
        return type(value) in (kind, int)
    if type(value) is not kind:
        return False
    if kind in (list, tuple):
        return len(value) == len(made_up) and all(map(_is_alike, made_up, value))
    if kind is dict:
        return value.keys() == made_up.keys() and all(_is_alike(made_up[name], value[name]) for name in value)
    return bool(kind in (bool, int, float, complex, str, torch.device) and value == made_up)
