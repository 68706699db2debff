"""Which custom operators a frame may call: those of which all that runs while Dynamo traces is plain.

On every start Dynamo runs an operator's fake, and its `setup_context` where there are gradients; where a frame is
restored nobody runs them. So what they do must follow from what a record compares: from sizes, dtypes, devices and
strides of their arguments, constants, and code. A list says what that code may be made of. While an operator runs,
any other code of the user's is seen (`acting`), and the frame is refused.
"""

from __future__ import annotations

import builtins
import dis
import math
import sys
import types
from typing import Any

import torch
from warmgraph.hashing import comes_with_torch

from ..changes.backwards import generated_backward
from ..changes.kernel_functions import python_kernels
from ..changes.kernels import library_kernels
from ..operators import (
    DEVICE_KEYS,
    OPDEFS,
    fake_of,
    has_plain_schema,
    runs_more,
    unwrapped,
)
from .plain import nested
from .ran import paused

# Instructions, by how their names begin: loads and stores of locals, arithmetic, containers, calls, jumps. Not:
# imports, stores to globals, handlers of exceptions, `with`, sets (whose order is by chance).
_DONE = tuple(
    """
    RESUME NOP POP_TOP COPY SWAP DUP_TOP ROT_ PUSH_NULL PRECALL CALL KW_NAMES RETURN_ EXTENDED_ARG CACHE
    LOAD_CONST LOAD_SMALL_INT LOAD_FAST STORE_FAST DELETE_FAST LOAD_DEREF STORE_DEREF LOAD_CLOSURE MAKE_CELL
    COPY_FREE_VARS BINARY_ COMPARE_OP IS_OP CONTAINS_OP UNARY_ TO_BOOL NOT_TAKEN MAKE_FUNCTION SET_FUNCTION_ATTRIBUTE
    BUILD_TUPLE BUILD_LIST BUILD_MAP BUILD_CONST_KEY_MAP BUILD_SLICE BUILD_STRING LIST_ DICT_MERGE MAP_ADD UNPACK_
    GET_ITER FOR_ITER END_FOR POP_ITER JUMP_ POP_JUMP_ GET_LEN STORE_SUBSCR STORE_SLICE FORMAT_ CONVERT_VALUE
    LOAD_ASSERTION_ERROR LOAD_COMMON_CONSTANT RAISE_VARARGS RERAISE
    """.split()
)
_OF_GENERATORS = ("YIELD_VALUE", "GEN_START", "GET_YIELD_FROM_ITER")
_CALLED = {
    getattr(builtins, name)
    for name in """
    len range tuple list int float bool max min sum zip enumerate abs all any divmod isinstance reversed sorted round
    ValueError RuntimeError TypeError AssertionError NotImplementedError
    """.split()
} | {torch.Tensor, torch.Size}
# Attributes, of whatever they are asked: nothing that depends on a tensor's content.
_ASKED = frozenset(
    """
    shape size dtype device layout type index ndim dim numel nelement stride element_size itemsize is_contiguous
    is_cuda is_floating_point is_complex Tensor Size float half bfloat16 double int long bool
    new_empty new_zeros new_ones new_full new_empty_strided empty empty_like empty_strided zeros zeros_like
    ones ones_like full full_like contiguous transpose permute view view_as reshape unsqueeze squeeze expand flatten
    chunk split unbind sum cat stack matmul broadcast_shapes sym_max sym_min finfo iinfo eps max min bits
    clone detach to cpu narrow select movedim t T mT H mH append extend insert copy
    ceil floor prod sqrt log2 gcd lcm inf
    _check _check_value _check_index _check_type _check_is_size
    library _custom_ops get_ctx new_dynamic_size create_unbacked_symint
    """.split()
)
_OF_CTX = frozenset("save_for_backward mark_non_differentiable set_materialize_grads needs_input_grad".split())
CONSTANTS = (
    bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.layout, torch.device, torch.memory_format,
)  # fmt: skip


def plain_codes(overload: Any) -> set[types.CodeType] | None:
    """The code of the user's that runs when Dynamo meets this operator; None where it may be any."""
    name = overload.name()
    definition, functions = OPDEFS.get(name.partition(".")[0]), _Functions()
    if not has_plain_schema(overload) or runs_more(overload) or (definition is not None and "." in name):
        return None
    if definition is None:  # of C++, or of a Library, whose kernels for devices are called by name
        fake, given = fake_of(name), None
        # What runs under autocast alone is seen to run, where it does.
        keys = {key for key in library_kernels(name) - DEVICE_KEYS if not key.startswith("Autocast")}
        if fake is not None:  # it runs, and not what serves all devices
            keys.discard("CompositeExplicitAutograd")
        if fake is None or "Autograd" in keys:
            with paused():  # it is asked of Python what would run
                given = generated_backward(overload)
                keys -= {"Autograd"} if given is not None else set()
                fake = fake or _traced_kernel(name, keys)
        setup = given[1] if given is not None else None
        # "Meta" is made of a registered fake; where there are both, the fake runs.
        if fake is None or not keys <= {"Meta", "CompositeImplicitAutograd"}:
            return None
    else:
        fake, setup = unwrapped(definition._abstract_fn), definition._setup_context_fn
    if fake is not None and not functions.add(fake):
        return None
    if setup is not None and not functions.add(setup, has_ctx=True):
        return None
    return functions.codes()


def _traced_kernel(name: str, keys: set[str]) -> Any:
    """The Python kernel that runs on fake tensors where there is no fake: the only one of these keys."""
    return python_kernels([(name, key) for key in keys])[0] if len(keys) == 1 else None


class _Functions:
    """Functions that were found to be plain, or are being looked at."""

    def __init__(self) -> None:
        self._known: dict[types.FunctionType, bool] = {}

    def codes(self) -> set[types.CodeType]:
        return {code for function in self._known for code in _codes_of(function)}

    def add(self, function: Any, *, has_ctx: bool = False) -> bool:
        """Whether it is plain. has_ctx: its first argument is one on which it may set attributes."""
        if type(function) is not types.FunctionType or function.__closure__:
            return False
        if function in self._known:
            return self._known[function] is has_ctx
        self._known[function] = has_ctx
        held = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        if getattr(function, "__builtins__", None) is not vars(builtins) or not all(map(is_constant, held)):
            return False
        return all(self._is_plain(code, function, has_ctx) for code in _codes_of(function))

    def _is_plain(self, code: types.CodeType, function: types.FunctionType, has_ctx: bool) -> bool:
        ctx = code.co_varnames[0] if has_ctx and code is function.__code__ and code.co_argcount else None
        done = (*_DONE, *_OF_GENERATORS) if code.co_name == "<genexpr>" else _DONE
        before: Any = None
        for one in dis.get_instructions(code):
            if not self._may_be(one, before, function, ctx, done):
                return False
            before = one
        return True

    def _may_be(
        self, one: dis.Instruction, before: Any, function: types.FunctionType, ctx: str | None, done: tuple[str, ...]
    ) -> bool:
        name, at = one.opname, one.argval
        if name == "LOAD_GLOBAL":
            return self._may_be_global(at, function)
        if name in ("LOAD_ATTR", "LOAD_METHOD"):
            return _may_be_asked(at, before, function, ctx)
        if name == "STORE_ATTR":  # of `ctx`, which the instruction before it loads
            loads = before is not None and before.opname.startswith("LOAD_FAST") and not one.is_jump_target
            return ctx is not None and loads and _last(before.argval) == ctx
        if ctx is not None and name.startswith(("STORE_", "DELETE_")) and ctx in _all(at):
            return False
        return name.startswith(done)

    def _may_be_global(self, name: str, function: types.FunctionType) -> bool:
        value = _global(name, function)
        if any(value is one for one in (torch, math, torch.library.get_ctx)) or is_constant(value):
            return True
        if isinstance(value, (type, types.BuiltinFunctionType)):
            return value in _CALLED
        return self.add(value)


def _may_be_asked(name: str, before: Any, function: types.FunctionType, ctx: str | None) -> bool:
    """An attribute: of what a call or a local gives by its name, of torch and `math` by what it is."""
    if before is not None and before.opname == "LOAD_GLOBAL":
        held = _global(before.argval, function)
        if held is not torch and held is not math:
            return is_constant(held) and name in _ASKED
        found = getattr(held, name, None)
        if type(found) in CONSTANTS:
            return held is math or name not in vars(torch).get("__annotations__", ())
        of_torch = isinstance(found, types.FunctionType) and comes_with_torch(found.__code__.co_filename)
        module = any(found is one for one in (torch.library, sys.modules.get("torch._custom_ops")))
        return name in _ASKED and (of_torch or module or isinstance(found, (types.BuiltinFunctionType, type)))
    return name in _ASKED or (ctx is not None and name in _OF_CTX)


def _global(name: str, function: types.FunctionType) -> Any:
    return function.__globals__.get(name, vars(builtins).get(name, ...))


def _last(value: Any) -> Any:
    return value[-1] if isinstance(value, tuple) else value


def _all(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _codes_of(function: types.FunctionType) -> tuple[types.CodeType, ...]:
    return (function.__code__, *nested(function.__code__))


def is_constant(value: Any) -> bool:
    return type(value) in CONSTANTS or (type(value) is tuple and all(map(is_constant, value)))
