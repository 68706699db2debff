"""The words of the backend: a graph to be compiled, a bypass, and what a compiler must do. No torch internals here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct
from torch.fx import GraphModule
from warmgraph.cache import Hit, Reason, Role
from warmgraph.hashing import Key

from .reporting.report import Report
from .torch_api.generated_code.wrapper_module import Payload

Run = Callable[..., Any]
OnSkip = Callable[[Reason, str], None]  # of a graph that runs without CUDA graphs: why, and what or where it is


class NotSerialisable(Exception):
    """The compile worked and its result cannot be kept. `str()` says what is in the way."""


class Bypass(Struct, frozen=True):
    """The cache is not used for this graph; `detail` says why and what the user can do."""

    reason: Reason
    detail: str


class Request(Struct, frozen=True):
    """This graph of this call, under its key: what Dynamo handed over, and where it is told what became of it.

    code: what the key says of code outside torch (`key/custom_code.py`).
    """

    key: Key
    gm: GraphModule
    inputs: Sequence[Any]
    patches: Mapping[str, Any]
    report: Report
    code: Mapping[str, Any] = {}


class Compiled(Struct, frozen=True):
    """A fresh compile: the callable to run now, and what is needed to keep it.

    alias_guards: those that AOTAutograd added, on `sources` (one per input). lost_guards: those that an entry cannot
    hold. more_guards: those that an entry holds beside torch's own. unguarded: that torch guards on nothing that the
    compile assumed of sizes. problem: why there is no result, if it is known. inputs: of the graph, lifted ones
    first. notes: on its nodes, for pictures; empty when they could not be taken. placed: whether the code holds this
    rank's place in a mesh or group.
    """

    run: Callable[..., Any]
    result: Any | None
    kernels: Mapping[str, Callable[[], Any]]
    alias_guards: Sequence[Any]
    sources: Sequence[Any]
    lost_guards: Sequence[str]
    more_guards: str | None
    problem: str | None
    inputs: Sequence[Any]
    notes: str = ""
    placed: bool = False
    unguarded: bool = False


class Packed(Struct, frozen=True):
    """Code apart from AOTAutograd's result. result: without it. bytecode: of generated modules. blobs: the code."""

    result: Any
    texts: Mapping[str, str]
    bytecode: Mapping[str, bytes]
    blobs: tuple[tuple[Role, str, bytes], ...]


class Compiler(Protocol):
    """What differs between the backends: how a graph becomes code, and how code becomes bytes and code again."""

    name: str
    """What users give to `torch.compile`; part of every key."""

    def options(self, mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
        """What `torch.compile(mode=..., options=...)` sets. Raises torch's errors for unknown ones."""

    def settings(self) -> Mapping[str, Any]:
        """Settings of torch that reach this compiler's code, beside those that are in every key."""

    def refusal(self) -> Bypass | None:
        """Why this compiler's code cannot be kept under the settings in force."""

    def compile(self, gm: GraphModule, inputs: Sequence[Any], patches: Mapping[str, Any], told: OnSkip) -> Run:
        """As torch's own backend of this kind does, its caches included. Raises what that raises."""

    def pack(self, compiled: Compiled, key: Key) -> Packed:
        """The code in `compiled.result` (which is not None) as bytes. Raises NotSerialisable."""

    def unpack(self, payload: Payload, hit: Hit, request: Request) -> tuple[Any, Any]:
        """Forward and backward (or None) for torch, which calls `load` and then `post_compile` on each."""

    def without_cudagraphs(self) -> contextlib.AbstractContextManager[Any]:
        """While open, what is compiled and loaded here makes no CUDA graphs, and says nothing of it."""
