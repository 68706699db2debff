"""What torch knows and the graph does not say: settings, symbols, custom code. Feeds the key; keys nothing."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from torch.fx import GraphModule, Node
from warmgraph.hashing import KeyContext

from ..artifact.guards import overlapping
from ..torch_api import compile as compat
from ..torch_api.entrances.compiled_autograd import gradients, in_region
from ..torch_api.entrances.specialized import assumed, is_specialized, shown
from ..torch_api.generated_code import wrapper_module
from ..torch_api.ranks import places
from .compiler_settings import seen_by_passes, settings_in_force
from .custom_code import custom_code
from .saved_tensors_hooks import inlined_hooks
from .triton_kernels import triton_kernel


def key_context(
    gm: GraphModule,
    inputs: Sequence[Any],
    backend: str,
    settings: Mapping[str, Any] | None = None,
    code: Mapping[str, Any] | None = None,
) -> KeyContext:
    """Everything for `hashing.key_of` beside the graph and its inputs. Settings must be patched already.

    settings: what reaches this backend's code beside the settings that reach all. code: what `custom_code` said of a
    graph with the same operators, to be taken as it was then.
    """
    env = compat.shape_env(inputs)
    again, in_force = is_specialized(gm, env), settings_in_force()
    return KeyContext(
        compiler={
            "backend": backend,
            "format": wrapper_module.FORMAT,
            **in_force,
            **seen_by_passes(gm, in_force),
            **(settings or {}),
            **places.rank_in_code(),
            **({"compiled autograd": True} if in_region() else {}),
        },
        code=custom_code(gm) if code is None else code,
        symbol=functools.partial(compat.symbol_facts, env),
        resolve=_resolve,
        fresh=compat.fresh_fake,
        overlapping=overlapping,
        cpu_code=bool(compat.inductor_config.cpp_wrapper),
        hooks=inlined_hooks(gm, inputs),
        assumed=assumed(env) if again else {},
        shown=[*(shown(inputs) if again else ()), *(gradients(inputs) if in_region() else ())],
        frozen=backend == "warmgraph" and compat.freezing(),
        shares_ranks=backend == "warmgraph" and places.can_tell(),
    )


def _resolve(node: Node) -> Mapping[str, Any] | None:
    """Triton kernels are called by their index in a table of this process."""
    if "kernel_idx" not in node.kwargs:
        return None
    return triton_kernel(node)
