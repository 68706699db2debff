"""Code of the user's that runs while a frame is traced, instead of being traced: a `__repr__`, a metaclass's `__eq__`.

Dynamo reads most code and executes none of it, but at some places it asks live objects (`str(obj)`, `hasattr`, `==`),
and what code answers there is folded in under no guard. Python says which code ran: `sys.monitoring` since 3.12, which
costs next to nothing; its profiler in C before, with which a trace takes nearly twice as long.
"""

from __future__ import annotations

import builtins
import contextlib
import cProfile
import functools
import gc
import importlib
import inspect
import logging
import sys
import threading
import types
import typing
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from warmgraph.hashing import comes_with_torch

_thread = threading.local()
_OURS = tuple(f"{Path(__file__).resolve().parents[3] / room}/" for room in ("backend", "cache", "hashing", "scripts"))
# What torch runs by itself while it traces, and who watches a program.
_NAMES = """
    sympy mpmath numpy networkx opt_einsum tabulate wcwidth tqdm typing_extensions triton torchgen redis msgpack
    _distutils_hack _pytest pluggy coverage pydevd debugpy
"""
_COMPARE = frozenset("__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __bool__ __len__ __contains__".split())
# Names of what is generated for data classes and the like; of other code without a file each counts.
_GENERATED = frozenset("__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __repr__ __init__ <module>".split())
_OF_DATACLASSES = (("__class__",), ("hash",))  # what the code that `dataclasses` generates asks for first
_OF_RANKS = tuple(f"{Path(torch.__file__).parent / folder}/" for folder in ("distributed", "nn/parallel"))
_WHETHER = ("is_available", "_is_spmd_types_available")  # which tell what is installed
RANKS_IN_CPP = "torch._C._distributed"  # the beginning of modules' names
_TOOL = 4  # of sys.monitoring's: one that Python leaves to anyone
BUSY = "another profiler"  # nobody knows what ran
# What these call writes a log line or a warning, and nothing of it comes back: whose handler or standard output it is
# (wandb, rich) does not matter. The last asks all modules for their files, lazy ones too, where torch notes the place
# at which an operator is registered.
_REPORTING = (
    logging.Logger._log.__code__,
    logging.Logger.handle.__code__,
    warnings._showwarnmsg.__code__,  # type: ignore[attr-defined]
    inspect.getmodule.__code__,
)
_REPORTS = frozenset(map(id, _REPORTING))


@contextlib.contextmanager
def noting(
    into: list[Any],
    apart: frozenset[types.CodeType] = frozenset(),
    counts: Callable[[types.CodeType], bool] | None = None,
) -> Iterator[None]:
    """Puts code that ran meanwhile, in this thread, into `into`; or BUSY.

    apart: code that may run. counts: which other code is put there (`is_users`).
    """
    _import_what_torch_would()
    try:
        start, stop, codes = (_monitored if sys.version_info >= (3, 12) else _profiled)()
    except ValueError:
        into.append(BUSY)
        yield
        return
    before, _thread.pause = getattr(_thread, "pause", None), (stop, start)
    start()
    try:
        yield
    finally:
        stop()
        _thread.pause = before
        ran = codes()
        told = {code for code in ran or () if code not in apart and (counts or is_users)(code)}
        into += [BUSY] if ran is None else sorted(told, key=name_of)


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """A compile within a trace, say: what that runs is in the graph's key. Within another pause it is nothing."""
    around, _thread.pause = getattr(_thread, "pause", None), None
    stop, start = around or (lambda: None, lambda: None)
    stop()
    try:
        yield
    finally:
        start()
        _thread.pause = around


@functools.cache
def _import_what_torch_would() -> None:
    """Dynamo imports pytest at the first context manager that it meets (`is_forbidden_context_manager`)."""
    for name in ("_pytest.raises", "_pytest.python_api", "_pytest.recwarn"):
        with contextlib.suppress(Exception):
            importlib.import_module(name)


# Start, stop, and what ran: None where somebody else came between.
Watching = tuple[Callable[[], Any], Callable[[], Any], Callable[[], "list[types.CodeType] | None"]]


def _profiled() -> Watching:
    if sys.getprofile() is not None:
        raise ValueError
    profiler = cProfile.Profile(builtins=False)

    def codes() -> list[types.CodeType]:
        stats = profiler.getstats()
        apart = _only_reports(stats) | _only_hashed(stats)
        ran = (entry.code for entry in stats if id(entry.code) not in apart)
        return [code for code in ran if isinstance(code, types.CodeType)]

    return profiler.enable, profiler.disable, codes


def _only_reports(stats: Sequence[Any]) -> set[int]:
    """Ids of code that was only called to write a log line or a warning. stats: of the profiler, who called whom."""
    called = {id(entry.code): entry for entry in stats}
    first = set(_REPORTS & called.keys())
    found, waiting = set[int](), [*first]
    while waiting:
        inner = {id(one.code) for one in called[waiting.pop()].calls or ()} & called.keys()
        waiting += inner - found - first
        found |= inner - first
    while True:  # without those that others call as well
        calls: Counter[int] = Counter()
        for caller in found | first:
            calls.update({id(one.code): one.callcount for one in called[caller].calls or ()})
        others = {code for code in found if calls[code] < called[code].callcount}
        if not others:
            return found
        found -= others


def _walks_modules(code: Any) -> bool:
    """Whether it is torch's `named_modules`, which Dynamo asks for each module's tensors. It hashes modules to come to
    each once, and nothing else comes of what a `__hash__` of the user's says (torchmetrics has one).
    """
    return getattr(code, "co_name", "") == "named_modules" and comes_with_torch(code.co_filename)


def _only_hashed(stats: Sequence[Any]) -> set[int]:
    """Ids of code with that name which only that called."""
    calls: Counter[int] = Counter()
    for entry in stats:
        if _walks_modules(entry.code):
            calls.update({id(one.code): one.callcount for one in entry.calls or ()})
    return {
        id(one.code)
        for one in stats
        if getattr(one.code, "co_name", "") == "__hash__" and calls[id(one.code)] == one.callcount
    }


def _reports_around(frame: types.FrameType | None) -> int:
    """How many log lines and warnings are being written by what called this."""
    count = 0
    while frame is not None:  # some hundred; by ids, code is slow to hash
        count += id(frame.f_code) in _REPORTS
        frame = frame.f_back
    return count


def _counts_nowhere(code: types.CodeType) -> bool:
    """Of code that runs often while a frame is traced, which is not to be asked for who called it."""
    file = code.co_filename
    if file == "<string>":
        return code.co_name not in _COMPARE and _is_of_a_library(code)
    return comes_with_torch(file) or file.startswith(_OURS) or _is_of_what_torch_runs(file)


def _monitored() -> Watching:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    thread, found, is_whole = threading.get_ident(), set(), True
    around = _reports_around(sys._getframe())

    def note(code: types.CodeType, offset: int) -> Any:
        if threading.get_ident() != thread:
            return None
        if code.co_name == "__hash__" and _walks_modules(sys._getframe(2).f_code):
            return None
        if not _counts_nowhere(code) and _reports_around(sys._getframe(1)) > around:
            return None  # elsewhere it counts
        found.add(code)
        return monitoring.DISABLE

    def start() -> None:
        nonlocal is_whole
        try:
            monitoring.use_tool_id(_TOOL, "warmgraph")
        except ValueError:
            is_whole = False
            return
        monitoring.register_callback(_TOOL, monitoring.events.PY_START, note)
        monitoring.set_events(_TOOL, monitoring.events.PY_START)
        monitoring.restart_events()

    def stop() -> None:
        if monitoring.get_tool(_TOOL) != "warmgraph":
            return
        monitoring.set_events(_TOOL, 0)
        monitoring.register_callback(_TOOL, monitoring.events.PY_START, None)
        monitoring.free_tool_id(_TOOL)

    if monitoring.get_tool(_TOOL) is not None:
        raise ValueError
    return start, stop, lambda: list(found) if is_whole else None


def is_users(code: types.CodeType) -> bool:
    """By its file. What was generated has none: of that what compares, what attrs makes, and what `exec` made under a
    name that generators do not use; texts of objects are looked at elsewhere (`watch`). Not what makes annotations when
    they are asked for (since Python 3.14): those that are asked for are compared.

    Not how an object finds attributes: what is found there is read through a source, and guarded. Not `__del__`, which
    comes at any time. Not how modules are found: names of what was found are compared.
    """
    file, name = code.co_filename, code.co_name
    if file.startswith("<frozen "):  # the standard library's: `_collections_abc`, which asks the user's class in turn
        return False
    if file.startswith("<"):
        compares = name in _COMPARE and code.co_names[:1] not in _OF_DATACLASSES
        return compares or file.startswith("<attrs generated") or (is_foreign(code) and name not in _GENERATED)
    if name in ("__getattr__", "__getattribute__") and code.co_argcount > 1 and code not in _of_metaclasses():
        return False
    if name in ("__del__", "__annotate__") or file.startswith(_OURS) or comes_with_torch(file):
        return False
    return not _is_of_what_torch_runs(file) and code not in _finders()  # last: few come so far


def asks_ranks(code: types.CodeType) -> bool:
    """Whether a function of torch's may have told who this process is among the ranks of its job."""
    known = code.co_filename.startswith(_OF_RANKS) and code.co_flags & inspect.CO_OPTIMIZED  # no module, no class
    return bool(known and code.co_name not in _WHETHER)


def is_foreign(code: types.CodeType) -> bool:
    """Whether it does not come with torch, generated or not."""
    file = code.co_filename
    # Graphs, which are torch's; imports; what named tuples and dataclasses are given.
    generated = file.startswith(("<eval_with_key", "<frozen ")) or (file == "<string>" and _is_of_a_library(code))
    return not (generated or file.startswith(_OURS) or comes_with_torch(file) or _is_of_what_torch_runs(file))


def _is_of_a_library(code: types.CodeType) -> bool:
    """Whether Python, FX or sympy generated it: of named tuples and data classes, what calls a graph, polynomials."""
    if code.co_name in ("<module>", "__create_fn__"):  # of `exec`, which somebody calls: that is seen
        return True
    if code.co_name == "<lambda>":
        return code.co_names == ("_tuple_new",) or code == _called_with(code.co_argcount)
    if code.co_name.startswith("monomial_"):
        return _is_of_polynomials(code)
    where = getattr(code, "co_qualname", "__create_fn__")  # since 3.11
    return where.startswith("__create_fn__") and code.co_name in ("__init__", "__hash__", "__eq__", "__repr__")


@functools.cache
def _called_with(count: int) -> types.CodeType:
    """What FX makes around a graph of `cond` and its kin where that is traced again, for gradients: it calls it."""
    from torch.fx.experimental.proxy_tensor import fake_signature

    code: types.CodeType = fake_signature(print, count).__code__
    return code


def _is_of_polynomials(code: types.CodeType) -> bool:
    """Whether sympy made it, for polynomials of so many variables: where torch simplifies what it knows of sizes."""
    of_sympy: Any = sys.modules.get("sympy.polys.monomials")
    operation = code.co_name.removeprefix("monomial_")
    if of_sympy is None or operation[:1] == "_" or not hasattr(of_sympy.MonomialOps, operation):
        return False
    counts = range(1, min(len(code.co_varnames), 100))  # it has a variable for each at least
    return any(getattr(of_sympy.MonomialOps(count), operation)().__code__ == code for count in counts)


def _is_of_what_torch_runs(file: str) -> bool:
    """By where these packages are, and not by a name that a folder of the user's may have as well."""
    for name in _NAMES.split():
        at = getattr(sys.modules.get(name), "__file__", None)
        if at and file.startswith(at if not at.endswith("__init__.py") else at.removesuffix("__init__.py")):
            return True
    return False


def _of_metaclasses() -> list[types.CodeType]:
    """How classes are asked for their attributes, where a metaclass says so: what it finds has no source."""
    found, kinds = [], [type]
    while kinds:
        kinds += type.__subclasses__(kind := kinds.pop())
        found.append(getattr(vars(kind).get("__getattribute__"), "__code__", None))
    return [code for code in found if code is not None]


def _finders() -> list[Any]:
    """Of each finder its methods, and the functions that it was given (transformers hands its own one); what stands in
    the place of Python's `__import__` (ClearML) and of what makes `Held[int]` of a class (beartype's, to which torch's
    modules come where one is imported while it traces); and of who listens to the garbage collector.
    """
    found: list[Any] = [*gc.callbacks, builtins.__import__, getattr(typing, "_generic_class_getitem", None)]
    for finder in list(sys.meta_path):
        with contextlib.suppress(Exception):  # a finder of the user's, which may raise anything
            given = [] if isinstance(finder, type) else list(vars(finder).values())
            kinds = (finder if isinstance(finder, type) else type(finder)).__mro__
            methods = [one for kind in kinds for one in vars(kind).values()]
            found += [finder.find_spec, *(getattr(one, "__func__", one) for one in methods), *given]
    functions = (one for one in found if isinstance(one, (types.FunctionType, types.MethodType)))
    return [getattr(one, "__code__", None) for one in functions]


def name_of(code: types.CodeType) -> str:
    return f"{getattr(code, 'co_qualname', code.co_name)} ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})"
