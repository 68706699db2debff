"""What is known of one graph's CUDA graphs, and told once. Not how it is heard (`listening`), nor its words (`skips`).

torch decides while it compiles (and keeps the verdict in the result), after each compile and each load, and at run
time, in the CUDA-graph trees, where nothing says any more which graph it is about. So the placeholders that torch
carries along with each graph, for its messages, carry a `Watch` here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec.structs import astuple
from torch.fx import GraphModule
from warmgraph.cache import Reason
from warmgraph.hashing import lifted_tensors

from ..reporting.fail_open import attempt
from ..torch_api import compile as compat
from ..torch_api import cudagraph_trees as cudagraphs
from .skips import Skip, Unrecorded, in_words, on_cpu, unrecorded

_NOTES = "_warmgraph_unrecorded"  # on a compiled graph, and kept with it: (why, operation, stack), ...


@dataclass(frozen=True, slots=True)
class Placeholder(cudagraphs.PlaceholderInfo):  # type: ignore[misc]  # torch's class is untyped
    """torch's, and whose it is. position: among the inputs of the compiled graph, not of a piece of it."""

    position: int = field(compare=False)
    watch: CudagraphTracker = field(compare=False, repr=False)


OnSkip = Callable[[Reason, str], None]


class Choices(Protocol):
    """What is known of the configurations of a graph's Triton kernels."""

    def tuned(self, kernel: str, choice: str, late: Any = None) -> None:
        """A Triton kernel's configuration was chosen, at its first launch. late: where its entry does not have it."""

    def known(self) -> Mapping[str, str]:
        """What was chosen elsewhere, by kernel."""

    def late(self, kernel: str, choice: str) -> Any:
        """A chosen configuration that its entry does not have; None where nobody kept it."""


class CudagraphTracker:
    """What is told of one graph of Dynamo's, forward and backward. Each reason is told once per side.

    told: takes a reason and a line. inputs: of the forward, how many, once it is compiled or loaded. names: of its
    inputs in the user's program, where `gm` does not say.
    """

    def __init__(
        self,
        gm: GraphModule,
        told: OnSkip,
        choices: Choices | None = None,
        *,
        strict: bool = False,
        names: Sequence[str | None] | None = None,
    ) -> None:
        self._annotation = gm.meta.get("cudagraph_annotation")
        self._setting = bool(compat.inductor_config.triton.cudagraphs)
        forced = None if self._annotation is None else self._annotation.fwd
        self._wanted = self._setting if forced is None else bool(forced)
        self._names = names_of(gm) if names is None else names
        self._told = told
        self.choices = choices
        self._strict = strict
        self._said: set[tuple[bool, Reason]] = set()
        self.notes: list[Unrecorded] = []
        self.inputs: int | None = None

    def skipped(self, skip: Skip, *, backward: bool = False) -> None:
        """Tell it, unless this side was told of this reason before."""
        if (backward, skip.reason) not in self._said:
            self._said.add((backward, skip.reason))
            self._told(skip.reason, f"the backward: {skip.detail}" if backward else skip.detail)

    def follow(self, post_compile: Callable[..., None], graph: Any, inputs: Any, constants: Any, kwargs: Any) -> None:
        """`post_compile` of a graph that was just compiled or loaded."""
        if self.notes:
            setattr(graph, _NOTES, tuple(astuple(note) for note in self.notes))
            self.notes = []
        info, before = graph.cudagraph_info, bool(kwargs["cudagraphs"])
        if info is not None:
            graph.cudagraph_info = dataclasses.replace(info, placeholders=self.carried(info.placeholders))
        try:
            post_compile(graph, inputs, constants, kwargs)
        finally:
            graph.cudagraph_info = info  # what is stored is torch's own
        turned_off = before and not kwargs["cudagraphs"]
        if not graph.fx_kwargs.get("is_backward"):
            self.inputs = len(inputs)
        attempt("skip", self._strict, self._judge, graph, turned_off)

    def carried(self, placeholders: Sequence[Any]) -> tuple[Placeholder, ...]:
        """torch's placeholders, so that a verdict at run time finds its way back here."""
        fields = [item.name for item in dataclasses.fields(cudagraphs.PlaceholderInfo)]
        return tuple(
            Placeholder(*(getattr(one, name) for name in fields), position=position, watch=self)
            for position, one in enumerate(placeholders)
        )

    def names(self) -> Sequence[str | None]:
        """Of the forward's inputs, in the user's program; none where AOTAutograd added or took some."""
        return self._names if len(self._names) == self.inputs else ()

    def _judge(self, graph: Any, turned_off: bool) -> None:
        backward = bool(graph.fx_kwargs.get("is_backward"))
        for skip in self._verdicts(graph, backward, turned_off):
            self.skipped(skip, backward=backward)

    def _verdicts(self, graph: Any, backward: bool, turned_off: bool) -> list[Skip]:
        """From what is stored and from the settings alone, so that they are the same after a compile and a load."""
        annotation, forward_skipped = self._annotation, any(not side for side, _ in self._said)
        if not self._wanted:
            off = self._setting and not backward
            return [Skip(Reason.SKIP_DISABLED, "override_cudagraphs(fwd=False) is around it")] if off else []
        if backward and annotation is not None and annotation.bwd is False:
            return [Skip(Reason.SKIP_DISABLED, "override_cudagraphs(bwd=False) is around it")]
        notes = [Unrecorded(*note) for note in getattr(graph, _NOTES, ())]
        if graph.disabled_cudagraphs_reason:
            if "multiple devices" in graph.disabled_cudagraphs_reason and set(graph.device_types) == {"cpu"}:
                return [on_cpu(notes)]
            return [in_words(graph.disabled_cudagraphs_reason, self.names())]
        if graph.cudagraph_info is None:
            return [] if forward_skipped else [_compiled_without()]
        if graph.cudagraph_info.cudagraph_fail_reasons:
            return [in_words(why, self.names()) for why in graph.cudagraph_info.cudagraph_fail_reasons]
        policy = cudagraphs.policy()
        if policy is not None:
            refused = f"{type(policy).__qualname__}.should_wrap() of cudagraph_policy says no"
            return [Skip(Reason.SKIP_DISABLED, refused)] if turned_off else []
        nothing = compat.inductor_config.graph_partition and not graph.partition_maps
        if nothing and not notes:
            return [] if forward_skipped else [Skip(Reason.SKIP_OTHER, "no piece of it is large enough to be recorded")]
        return unrecorded(notes, partly=not nothing)


def names_of(gm: GraphModule) -> list[str | None]:
    """Of a graph's inputs, in the user's program."""
    sources = [None if source is None else compat.source_name(source) for source in compat.input_sources(gm)]
    return [*lifted_tensors(gm), *sources]


def _compiled_without() -> Skip:
    if compat.inductor_config.cpp_wrapper and compat.inductor_config.graph_partition:
        return Skip(Reason.SKIP_DISABLED, "cpp-wrapper does not support graph_partition; set one of them to False")
    return Skip(Reason.SKIP_OTHER, "Inductor compiled it without, and does not say why")
