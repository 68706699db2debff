"""What Dynamo knows of sizes, frames and backends (its pgo.py), in the words of `profiles`. Learns nothing itself.

Works with what `torch_compat` hands out. Read on 2.13; before, Dynamo told code apart without its closure.
"""

from __future__ import annotations

import contextlib
import inspect
import weakref
from typing import Any

import torch

from .. import compile as compat

InferStride = compat.pgo.InferStride
auto_dynamic = compat.pgo.auto_dynamic


def innermost_backend(compiler_fn: Any) -> Any:
    """The backend that the user named, within the wrappers of Dynamo and `torch.compile`."""
    for attribute in ("_torchdynamo_orig_backend", "compiler_fn"):
        while hasattr(compiler_fn, attribute):
            compiler_fn = getattr(compiler_fn, attribute)
    return compiler_fn


def learns_sizes(tx: Any) -> bool:
    """Whether Dynamo makes dynamic what varies, by itself and for each process alone, and may be told of it.

    With compiler collectives the ranks agree on what varies, and one that knew more would break that.
    """
    return may_be_told() and getattr(tx, "distributed_state", None) is None


def may_be_told() -> bool:
    """Whether the settings let Dynamo know what varied in other processes."""
    config = torch._dynamo.config
    wanted = config.automatic_dynamic_local_pgo and config.automatic_dynamic_remote_pgo is not False
    return bool(config.automatic_dynamic_shapes and wanted and not compat.caches_disabled())


_takes_closure = "closure" in inspect.signature(compat.pgo.CodeId.make).parameters


_code_ids: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # by translator: asked for each input


def code_id(tx: Any) -> Any:
    """What Dynamo in this process calls the same code."""
    found = _code_ids.get(tx)
    if found is None:
        make = compat.pgo.CodeId.make
        found = _code_ids[tx] = make(tx.f_code, tx.closure) if _takes_closure else make(tx.f_code)
    return found


def frame_values(tx: Any) -> dict[str, Any]:
    """A frame's locals and the content of its closure."""
    values = dict(tx.f_locals)
    for name, cell in zip(tx.f_code.co_freevars, getattr(tx, "closure", None) or (), strict=False):
        with contextlib.suppress(ValueError):  # not bound yet
            values[name] = cell.cell_contents
    return values


def known_sizes(tx: Any) -> dict[str, Any]:
    """By source name, what Dynamo knows of the inputs of this code."""
    return compat.pgo.get_code_state()[code_id(tx)].automatic_dynamic  # type: ignore[no-any-return]


def size_entry(sizes: Any, strides: Any) -> Any:
    """What Dynamo knows of a tensor once some sizes or strides have varied; auto_dynamic for both: of a number."""
    return compat.pgo.FrameStateSizeEntry(scalar=auto_dynamic, size=sizes, stride=strides)


def profile_scope() -> list[str | None]:
    """The user's own words on which runs belong together."""
    return [torch.compiler.config.job_id, torch.compiler.config.cache_key_tag]
