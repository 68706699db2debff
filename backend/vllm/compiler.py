"""A `CompilerInterface` of vLLM's: pieces of a model come to warmgraph's backend. Keeps nothing in vLLM's own folder.

vLLM splits the model at attention and compiles each piece for a range of sizes, or for one size. A piece for a range is
a graph as Dynamo makes it; alike pieces (a model's layers) have one key, so that only the first of them is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vllm import envs
from vllm.compilation.compiler_interface import (
    InductorStandaloneAdaptor,
    set_functorch_config,
    set_inductor_config,
)
from vllm.env_override import _apply_constrain_to_fx_strides_patch
from warmgraph.cache import Reason

from ..backend import prepare, warmgraph
from ..torch_api.entrances.redirect import begin
from ..torch_api.entrances.standalone import standalone, writable

_ONE_SIZE = "vLLM's compile_sizes: a piece whose nodes speak of sizes that its inputs no longer have; leave them out"


class PieceCompiler(InductorStandaloneAdaptor):  # type: ignore[misc]
    """Inductor's adaptor, with warmgraph between the two."""

    name = "warmgraph"

    def __init__(self, config: Any) -> None:
        super().__init__(config.compile_cache_save_format)
        begin()
        prepare()

    def compile(
        self,
        graph: Any,
        example_inputs: list[Any],
        compiler_config: dict[str, Any],
        compile_range: Any,
        key: str | None = None,
    ) -> tuple[Callable[..., Any] | None, Any | None]:
        """The piece as a callable; no handle, since what vLLM would look up by it is asked of warmgraph each time."""
        if compile_range.is_single_size():
            warmgraph.note_bypass(graph, Reason.UNSUPPORTED_MODE, _ONE_SIZE)
            return super().compile(graph, example_inputs, compiler_config, compile_range, key)  # type: ignore[no-any-return]
        _apply_constrain_to_fx_strides_patch()
        options = dict(compiler_config or {})
        set_inductor_config(options, compile_range)
        set_functorch_config()
        written = bool(envs.VLLM_USE_MEGA_AOT_ARTIFACT)
        with standalone(graph, options, written=written) as own:
            run = warmgraph(own, example_inputs)
        return (writable(run) if written else run), None
