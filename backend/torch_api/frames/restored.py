"""Stands where Dynamo asks for the output of a trace: the bytecode, and guards built by torch against live objects.

Follows what `convert_frame._compile` asks of a `DynamoOutput` and its `OutputGraph`. Read on 2.11 to 2.15.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import torch
from msgspec import Struct
from torch._dynamo import eval_frame
from torch._dynamo import guards as dynamo_guards
from torch._dynamo import output_graph as dynamo_graph
from torch._guards import TracingContext

from .devices import modes_around, modes_up
from .plain import Refused
from .quickly import answering_at_once
from .sources import Source
from .state import convert_frame


class Parts(Struct, frozen=True):
    """What a restored frame is made of.

    sizes: source -> (sizes, strides) of inputs, None where dynamic. shape: guards on sizes, as torch evaluates them and
    as it shows them. builtins: the global under which guards find Python's builtins.
    """

    code: types.CodeType
    bytecode: types.CodeType
    guards: Sequence[Any]
    alias_guards: Sequence[Any]
    key_order: Sequence[Source]
    sizes: dict[Source, tuple[Any, Any]]
    shape: tuple[Sequence[str], Sequence[str]]
    builtins: str | None
    error_on_graph_break: bool
    empty: bool
    side_effects: Sequence[str]


class _Graph(dynamo_graph.OutputGraphCommon):  # type: ignore[misc]
    """Of an OutputGraph what is asked for after a trace: guards, cleanups, numbers for torch's metrics."""

    def __init__(self, state: Any, parts: Parts, cleanups: list[Any]) -> None:
        super().__init__(state)
        self.cleanups = cleanups
        self.tracing_context = TracingContext(None)
        self.graph = types.SimpleNamespace(nodes=())
        self.placeholders: list[Any] = []
        self.non_compliant_ops: set[Any] = set()
        self.compliant_custom_ops: set[Any] = set()
        self.root_tx = None
        self.package = None
        self.tracked_fakes: list[Any] = []
        self.traced_code: list[Any] = []
        self._parts = parts

    def is_empty_graph(self) -> bool:
        return self._parts.empty

    def has_outputs(self) -> bool:
        return False

    def count_calls(self) -> int:
        return 0

    def get_graph_sizes_structured(self) -> dict[str, Any]:
        return {}

    def get_replayed_side_effect_source_refs(self, **_: Any) -> list[str]:
        return list(self._parts.side_effects)


class _Checks(dynamo_guards.CheckFunctionManager):  # type: ignore[misc]
    """Builds guards as torch does, but knows what is found through each source: torch evaluates a text for each."""

    def __init__(self, known: dict[Source, Any], *arguments: Any, **named: Any) -> None:
        self._found = known
        try:
            super().__init__(*arguments, **named)
        finally:
            self._found = {}  # torch keeps this for as long as an object that is guarded by identity

    def build_guards(self, sorted_guards: Sequence[Any], *arguments: Any, **named: Any) -> Any:
        if not self._found or not dynamo_guards.config.guard_nn_modules:  # torch builds only some then
            return super().build_guards(sorted_guards, *arguments, **named)
        builder, manager = super().build_guards([], *arguments, **named)
        builder.src_get_value_cache = {**self._found, **builder.src_get_value_cache}
        for guard in sorted_guards:
            guard.create(builder)
        return builder, manager


def _compiled_so_far(code: types.CodeType) -> Any:
    """As torch hands them to its guards: a list; before 2.13 the first of a chain, or None."""
    if find := getattr(eval_frame, "_get_cache_entries_for_region", None):
        return find(code, convert_frame.get_eval_frame_isolate_recompiles_id())
    return next(iter(eval_frame._debug_get_cache_entry_list(code)), None)


class Restored:
    """As a `DynamoOutput`. Making one builds the guards and lets torch check them on this frame.

    Raises Refused where they do not hold.
    """

    last_attempt_start_time = None

    def __init__(self, parts: Parts, frame: Any, cleanups: list[Any], known: dict[Source, Any]) -> None:
        """known: what is found through each source (`Live.known`)."""
        self.bytecode = parts.bytecode
        self.pycode: list[Any] = []
        state = dynamo_graph.OutputGraphGuardsState(
            local_scope=frame.locals,
            global_scope=frame.globals,
            torch_function_mode_stack=modes_around(),
            guard_on_key_order=set(parts.key_order),
            input_source_to_sizes_strides={
                source: {"size": size, "stride": stride} for source, (size, stride) in parts.sizes.items()
            },
            dual_level=torch.autograd.forward_ad._current_level,
            functorch_layers=[],
            current_device=torch.utils._device.CURRENT_DEVICE,
            global_state_guard=convert_frame.initial_global_state,
            _guards=parts.guards,  # in order: torch's own set would hash each
            _aotautograd_guards=list(parts.alias_guards),
            skip_guards_check=True,  # torch would also measure how long they take; they are checked below
            name_of_builtins_dict_key_in_fglobals=parts.builtins,
        )
        graph = _Graph(state, parts, cleanups)
        self.tracer_output = types.SimpleNamespace(
            error_on_graph_break=parts.error_on_graph_break,
            is_tracing_resume_prologue=False,
            output_graph=graph,
            output_graph_for_cleanup=graph,
            closure=frame.closure,
            f_globals=frame.globals,
            _cleanup_output_graph=lambda: None,
        )
        python, verbose = (types.SimpleNamespace(exprs=list(lines)) for lines in parts.shape)
        shape = dynamo_guards.ShapeCodeParts(
            python_code_parts=python,
            verbose_code_parts=verbose,
            cpp_code_parts=None,
            python_fallback=True,
            shape_env_sources=[],
        )
        self._graph, self._shape, self._code = graph, shape, parts.code
        self._entries = _compiled_so_far(parts.code)
        self._checks = self._build(None, None, known)
        guards = self._checks.guard_manager
        with modes_up():
            if guards.check(frame.locals):
                return
            failed = guards.check_verbose(frame.locals).verbose_code_parts
        raise Refused(f"its guards do not hold: {str(failed)[:300]}")

    def _build(self, fail: Any, keep: Any, known: dict[Source, Any]) -> Any:
        with answering_at_once(), modes_up():
            return _Checks(known, self._code, self._graph, self._entries, fail, keep, shape_code_parts=self._shape)

    def build_guards(self, code: Any, hooks: Any = None, **_: Any) -> Any:
        """As `DynamoOutput.build_guards`. A user's filter only takes guards away: what held before holds with fewer."""
        if hooks is not None and (hooks.guard_fail_fn or hooks.guard_filter_fn):
            return self._build(hooks.guard_fail_fn, hooks.guard_filter_fn, {})
        return self._checks

    def undo(self) -> None:
        """Nobody will run it."""
        for hook in self._graph.cleanups:
            hook()
