"""Where Dynamo hands over a frame to be traced: asks its backend first whether it is restored. Decides nothing."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import torch
from msgspec import Struct
from torch._dynamo import output_graph, source, trace_rules
from torch._dynamo.exc import SkipFrame, Unsupported
from torch._dynamo.utils import maybe_disable_inference_mode
from torch.fx.experimental.symbolic_shapes import uninteresting_files

from .. import patches
from ..ranks.ddp import within_buckets
from . import watch
from .devices import modes_down
from .dynamic_sizes import innermost_backend
from .state import convert_frame


class Frame(Struct, frozen=True):
    """One frame of a compiled function. backend: as Dynamo holds it, with its wrappers."""

    code: types.CodeType
    globals: dict[str, Any]
    locals: dict[str, Any]
    closure: Any
    backend: Any
    one_graph: bool


class Frames(Protocol):
    """What a backend gives as `frames()`."""

    def compile(self, frame: Frame, trace: Callable[[], Any]) -> Any:
        """What stands for the output of `trace`. Raises what `trace` raises, and nothing else."""


def install(*, listening: bool) -> None:
    """Ask backends that have `frames()` from now on. listening: whether any of them may record one. Raises
    patches.Moved.
    """
    if listening:
        watch.install()
    patches.install("frames", _asking)


def as_traced() -> contextlib.AbstractContextManager[Any]:
    """While open, modes are what Dynamo makes them while it traces: no inference mode, and gradients as before."""
    return maybe_disable_inference_mode()  # type: ignore[no-any-return]


def _asking(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile_frame(
        code: Any,
        globals: Any,
        locals: Any,
        builtins: Any,
        closure: Any,
        compiler_fn: Any,
        one_graph: bool,
        restart_reasons: Any,
        **more: Any,
    ) -> Any:
        backend = innermost_backend(within_buckets(compiler_fn)[0])
        once = functools.partial(
            original, code, globals, locals, builtins, closure, compiler_fn, one_graph, restart_reasons, **more
        )
        trace = _also_without_profile(once, backend)
        find = getattr(backend, "frames", None)
        if find is None or any(more.get(name) for name in ("export", "package", "distributed_state")):
            return trace()
        found: Frames | None = find()
        if found is None:
            return trace()
        _meet_libraries()
        _settle_settings()
        return found.compile(Frame(code, globals, locals, closure, compiler_fn, one_graph), trace)

    return compile_frame


def _also_without_profile(trace: Callable[[], Any], backend: Any) -> Callable[[], Any]:
    """What compiles for the sizes and numbers of one call may not compile for such that vary (the step of torch's SGD
    and its schedule, over which torch itself fails). Where another process told of that, it is traced for this call's.
    """
    find = getattr(backend, "frame_profiles", None)

    def go() -> Any:
        profiles = None if find is None else find()
        if profiles is None:
            return trace()
        profiles.begin()
        try:
            return trace()
        except SkipFrame:
            raise
        except Exception:
            if not profiles.withdraw():
                raise
        return trace()

    return go


def _meet_libraries() -> None:
    """Do what Dynamo does when it first meets a library, which is to call it once (einops). That is no part of a frame.

    What it leaves behind is there before a frame is compared, and its code does not run while one is watched.
    """
    waiting: dict[str, list[Callable[[], object]]] = getattr(trace_rules, "_lazy_module_init", {})
    for name in [name for name in waiting if name in sys.modules]:
        for meet in waiting.pop(name, ()):
            with contextlib.suppress(Exception):
                meet()


def _settle_settings() -> None:
    """Set `compile_on_one_rank` to what it is in this context, as Inductor does when it first compiles.

    From torch 2.15 on Dynamo reads settings as any object, so that a frame that asks for this one (functional
    collectives) has guards on whether it was set at all: a process that compiled and one that did not would not agree.
    """
    with contextlib.suppress(Exception):  # a frame is traced once more, then
        if _READS_VARIABLES and type(_settings._config["compile_on_one_rank"].user_override.get()) is not bool:
            _settings.compile_on_one_rank = bool(_settings.compile_on_one_rank)


_settings: Any = torch.compiler.config
_READS_VARIABLES = hasattr(source, "ContextVarGetSource")


def when_guarded(output: Any, then: Callable[[dict[str, list[str]]], None]) -> None:
    """Call `then` with the guards on sizes as text, by language, once torch has built the guards of a trace.

    torch writes them as it builds, and freezes the shapes; nothing is asked of them afterwards.
    """
    env = output.tracer_output.output_graph.shape_env
    produce, build = env.produce_guards_verbose, output.build_guards
    shape: dict[str, list[str]] = {}

    def produce_guards_verbose(*args: Any, **options: Any) -> Any:
        made = produce(*args, **options)
        for language, part in zip(options.get("langs", ()), made, strict=False):
            shape[language] = list(part.exprs)
        return made

    def build_guards(*args: Any, **options: Any) -> Any:
        del output.build_guards  # no cycle: it would keep the frame's values alive
        env.produce_guards_verbose = produce_guards_verbose
        try:
            made = build(*args, **options)
        finally:
            del env.produce_guards_verbose
        with modes_down():
            then(shape)
        return made

    output.build_guards = build_guards


def why_given_up(error: Exception, frame: Frame) -> str | None:
    """Of a trace after which Dynamo runs the frame as it is from now on (a graph break in a loop).

    None where the program is told of the error, and (since 2.15) where it is for this call only.
    """
    if getattr(error, "frame_exec_strategy", None) is not None or not getattr(error, "apply_to_code", True):
        return None
    traced = getattr(error, "_torch_dynamo_tracer_output", None)
    if type(error) is not Unsupported or frame.one_graph or getattr(traced, "error_on_graph_break", True):
        return None
    return str(getattr(error, "gb_type", None) or error).partition("\n")[0]


def output_so_far(error: Any) -> Any:
    """What there was of the output of such a trace; its guards are built by `build_guards` as those of others."""
    traced = copy.copy(error._torch_dynamo_tracer_output)
    traced.output_graph = traced.output_graph_for_cleanup
    values = {"tracer_output": traced, "bytecode": _NOTHING, "pycode": []}
    names = [one.name for one in dataclasses.fields(convert_frame.DynamoOutput)]
    return convert_frame.DynamoOutput(**{name: values.get(name) for name in names})


_NOTHING = (lambda: None).__code__  # no bytecode was made


def give_up(restored: Any, why: str) -> NoReturn:
    """Have Dynamo run the frame as it is from now on."""
    uninteresting_files()  # see `make_resume`
    restored.undo()
    raise _skipping(why, restored.tracer_output)


def _skipping(why: str, tracer_output: Any) -> SkipFrame:
    error = SkipFrame(why)
    error._torch_dynamo_tracer_output = tracer_output
    return error


def inlines_torch_function(graph: Any) -> bool:
    """Whether a `__torch_function__` of a class was traced. On 2.11 Dynamo wraps no graph for that."""
    return bool(getattr(graph, "torch_function_subclass_inlined", False))


def without_torch_function(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """As Dynamo wraps a graph whose inputs' `__torch_function__` is in it: torch would call it again."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return compiled(*args, **kwargs)

    return torch.compiler.disable(call, reason="do not trace Dynamo-compiled graph")  # type: ignore[no-any-return]


def calls_nothing(compiled: Callable[..., Any]) -> bool:
    """Whether it stands for a graph of which nothing was left, which Dynamo gives to no backend since 2.15. compiled:
    as Dynamo installed it.
    """
    return getattr(compiled, "_torchdynamo_orig_callable", compiled) is getattr(output_graph, "noop_graph_call", None)


def nothing() -> Callable[..., Any]:
    """What stands for such a graph."""
    return torch.compiler.disable(lambda *args: (), reason="do not trace Dynamo-compiled graph")  # type: ignore[no-any-return]


def side_effects_of(graph: Any) -> list[str]:
    """What the bytecode changes, for torch's metrics. 2.11 does not ask."""
    told = getattr(graph, "get_replayed_side_effect_source_refs", tuple)
    return list(told())


def initial_global_state() -> Any:
    return convert_frame.initial_global_state
