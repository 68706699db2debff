"""vLLM's mode 2, a whole model to one backend: vLLM does not try to read a file that it could not use.

vLLM writes what `aot_compile` gives for any backend into a file, and reads that back for its own backend alone: it
loads the whole file, asks what is in it for `finalize_loading`, and where there is none it warns and compiles the model
again. That took two seconds of each start. Read and run on vLLM 0.32.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

_OURS = ("warmgraph", "warmgraph_cudagraphs")
_DYNAMO_TRACE_ONCE = 2


def skip_unusable_files() -> None:
    """Called when our backend is named, as vLLM does for each model. Imports nothing.

    A vLLM that reads otherwise is left alone. So is one that is imported after something else named the backend.
    """
    decorators: Any = sys.modules.get("vllm.compilation.decorators")
    read: Any = getattr(decorators, "_try_load_aot_compiled_fn", None)
    if "finalize_loading" not in getattr(getattr(read, "__code__", None), "co_names", ()):
        return  # not loaded, or it reads any backend's, or this was done before

    @functools.wraps(read)
    def read_if_usable(model: Any, *arguments: Any, **named: Any) -> Any:
        if _is_compiled_by_us(model) and os.environ.get("VLLM_FORCE_AOT_LOAD") != "1":
            return None  # as if there were no such file
        return read(model, *arguments, **named)

    decorators._try_load_aot_compiled_fn = read_if_usable


def _is_compiled_by_us(model: Any) -> bool:
    configuration = getattr(model, "compilation_config", None)
    mode, backend = getattr(configuration, "mode", None), getattr(configuration, "backend", None)
    return mode == _DYNAMO_TRACE_ONCE and backend in _OURS
