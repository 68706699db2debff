"""Which functions the Python kernels are that the dispatcher has.

torch hands none of them out, only a way to call each. So it is called with arguments made up by its schema, and Python
is told to stop before the first instruction: what was about to run is the function, and nothing of it ran.
"""

from __future__ import annotations

import gc
import inspect
import sys
import types
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._library import autograd as library_autograd
from torch.utils._python_dispatch import TorchDispatchMode
from warmgraph.hashing import bound_cells

from ..compile import no_dispatch_modes
from ..operators import overload_named
from .kernels import is_python, registered


class _Stop(BaseException):
    """Instead of a kernel's first instruction."""


def python_kernels(kernels: Sequence[tuple[str, str]]) -> list[Any]:
    """The function behind each (operator, dispatch key), or the method of the object that it is bound to.

    None for a kernel of C++, for an operator with arguments that cannot be made up, and while this thread has a
    profiler of Python's. And where torch runs another one under a mode: one that took this one's place, and is gone.
    """
    with no_dispatch_modes(), torch._C.DisableTorchFunction():
        calls = [_call_of(name, key) for name, key in kernels]
        plain = _entered(calls)
        with TorchDispatchMode():
            traced = _entered(calls)
        return [one if _is_one(one, other) else None for one, other in zip(plain, traced, strict=True)]


def _is_one(kernel: Any, other: Any) -> bool:
    if isinstance(kernel, types.MethodType) and isinstance(other, types.MethodType):
        return kernel.__func__ is other.__func__ and kernel.__self__ is other.__self__
    return kernel is other


def generated_backward(overload: Any) -> tuple[Any, Any] | None:
    """Backward and `setup_context` that `torch.library.register_autograd` was given for an operator of a Library's or
    of C++. None where the kernel for Autograd is another.

    torch keeps them only within the class of `torch.autograd.Function` that it generates. Read on 2.11 to 2.15.
    """
    if f"{overload.name().replace('::', '/')}/Autograd" not in torch.library._impls:  # asked for each node of a trace
        return None
    (kernel,) = python_kernels([(overload.name(), "Autograd")])
    if not isinstance(kernel, types.FunctionType) or kernel.__code__.co_filename != library_autograd.__file__:
        return None
    info = _held_by_backward(bound_cells(kernel)["Generated"])["info"]
    return info._backward_fn, info._setup_context_fn


def _held_by_backward(kind: Any) -> dict[str, Any]:
    """What the generated `backward` reads; around it lies another one where there are lists of tensors."""
    function = vars(kind)["backward"]
    while True:
        function = getattr(function, "__func__", function)
        held = bound_cells(function)
        if "orig_backward" not in held:
            return held
        function = held["orig_backward"]


Call = tuple[Any, str, list[Any], dict[str, Any]]  # an operator, a dispatch key, arguments


def _call_of(name: str, key: str) -> Call | None:
    """How to call a kernel. A key without a kernel of its own must not be asked: torch reads past its table."""
    if not any(is_python(file) for _, file in registered(name, key)):
        return None
    overload = overload_named(name)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for number, one in enumerate(overload._schema.arguments):
        if one.has_default_value():  # the dispatcher leaves out what is as its default
            continue
        value = _made_up(one.real_type, number)
        if value is NotImplemented:
            return None
        if one.kwarg_only:
            named[one.name] = value
        else:
            positional.append(value)
    return overload, key, positional, named


def _made_up(kind: Any, number: int) -> Any:
    """An argument of a type; `number` tells those of one type apart."""
    name = kind.kind()
    if name == "OptionalType":
        return None
    if name == "ListType":
        value = _made_up(kind.getElementType(), number)
        return value if value is NotImplemented else [value]
    if name == "TensorType":
        return torch.empty((0, number), device="cpu")
    plain = {"IntType": number + 3, "SymIntType": number + 3, "FloatType": number + 0.5, "NumberType": number + 0.5}
    return {**plain, "BoolType": True, "StringType": f"{number}", "DeviceObjType": torch.device("meta")}.get(
        name, NotImplemented
    )


def _entered(calls: Sequence[Call | None]) -> list[Any]:
    """For each call the function that it would run."""
    if sys.getprofile() is not None:
        return [None] * len(calls)
    collects = gc.isenabled()
    gc.disable()  # a finalizer is code as well
    try:
        return [_function(*call[2:], *_enter(*call)) if call is not None else None for call in calls]
    finally:
        if collects:
            gc.enable()


def _enter(overload: Any, key: str, positional: list[Any], named: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The code that a call would run, its locals at the start, and its globals. None thrice: no code of Python's."""
    found: tuple[Any, Any, Any] = (None, None, None)

    def stop(frame: types.FrameType, event: str, _: Any) -> None:
        nonlocal found
        if event == "call" and frame.f_back is not None and frame.f_back.f_code is _enter.__code__:
            found = frame.f_code, dict(frame.f_locals), frame.f_globals
            raise _Stop

    dispatch_key = torch._C._dispatch_key_parse(key)
    sys.setprofile(stop)
    try:
        overload._op_dk(dispatch_key, *positional, **named)
    except (_Stop, RuntimeError, TypeError, ValueError, IndexError):  # or C++ refuses the arguments
        return found
    finally:
        sys.setprofile(None)
    return None, None, None


# By the id of its code. What is found here is compared with what was about to run, as all others are.
_functions: weakref.WeakValueDictionary[int, types.FunctionType] = weakref.WeakValueDictionary()
_in_vain: weakref.WeakValueDictionary[int, types.CodeType] = weakref.WeakValueDictionary()  # not searched for again


def _function(positional: list[Any], named: dict[str, Any], code: Any, held: Any, space: Any) -> Any:
    """What was about to run: of all functions with its code one with what it closes over and its defaults."""
    if code is None:
        return None
    for one in _candidates(code, held, space):
        if type(one) is not types.FunctionType or one.__code__ is not code or one.__globals__ is not space:
            continue
        for bound in _beginnings(code, held):
            if _begins(one, held, [*bound, *positional], named):
                _functions[id(code)] = one
                own = [value for value in bound if not isinstance(value, torch._C.DispatchKeySet)]
                return types.MethodType(one, own[0]) if own else one
    _in_vain[id(code)] = code
    return None


def _candidates(code: types.CodeType, held: dict[str, Any], space: dict[str, Any]) -> Iterator[Any]:
    """What may be a function with this code. The collector is asked last: it goes through every object there is, but
    for those that `gc.freeze` put aside.
    """
    yield _functions.get(id(code))
    named = tuple(space.values())
    yield from named
    first = held.get(code.co_varnames[0]) if code.co_argcount else None
    bases = (first if isinstance(first, type) else type(first)).__mro__
    for kind in (*bases, *(one for one in named if isinstance(one, type))):
        for one in tuple(vars(kind).values()):
            yield one.__func__ if isinstance(one, (staticmethod, classmethod)) else one
    if id(code) not in _in_vain:
        yield from gc.get_referrers(code)


def _beginnings(code: types.CodeType, held: dict[str, Any]) -> Iterator[list[Any]]:
    """What may stand before the operator's arguments: an object that it is bound to, and (`with_keyset`) the keys."""
    first = [held.get(name) for name in code.co_varnames[: min(code.co_argcount, 2)]]
    yield []
    yield first[:1]
    if len(first) == 2 and isinstance(first[1], torch._C.DispatchKeySet):
        yield first


def _begins(function: types.FunctionType, held: dict[str, Any], positional: list[Any], named: dict[str, Any]) -> bool:
    """Whether a call of `function` begins with these locals."""
    # Without what it says of itself: a signature, or what it wraps.
    bare = types.FunctionType(
        function.__code__, function.__globals__, "bare", function.__defaults__, function.__closure__
    )
    bare.__kwdefaults__ = function.__kwdefaults__
    defaults = {id(one) for one in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())}
    cells = bound_cells(function)
    try:
        given = inspect.getcallargs(bare, *positional, **named)
    except TypeError:
        return False
    return (
        held.keys() == given.keys() | cells.keys()
        and all(held[name] is value for name, value in cells.items())
        and all(
            held[name] is value or (id(value) not in defaults and _is_alike(value, held[name]))
            for name, value in given.items()
        )
    )


def _is_alike(made_up: Any, value: Any) -> bool:
    """Whether it is this argument, as the dispatcher makes it anew."""
    if isinstance(made_up, torch.Tensor):
        return isinstance(value, torch.Tensor) and value.shape == made_up.shape
    if type(value) is not type(made_up):
        return False
    if isinstance(made_up, (list, tuple)):
        return len(value) == len(made_up) and all(map(_is_alike, made_up, value))
    if isinstance(made_up, dict):
        return value.keys() == made_up.keys() and all(_is_alike(made_up[name], value[name]) for name in value)
    return (isinstance(made_up, (int, float, str, torch.device)) and bool(value == made_up)) or value is made_up
