"""`torch._inductor.standalone_compile` with another compiler in it: pieces of a graph, as vLLM compiles them.

Read on 2.13 and 2.15; 2.11 has no such context, and importing this fails there.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

from torch._functorch._aot_autograd import autograd_cache
from torch._inductor.standalone_compile import AOTCompiledArtifact, _standalone_context
from torch.fx import GraphModule

from ..compile import functorch_config, inductor_config

_torch_key = autograd_cache.autograd_cache_key


@contextlib.contextmanager
def standalone(gm: GraphModule, options: Mapping[str, Any], *, written: bool) -> Iterator[GraphModule]:
    """The surroundings in which torch compiles `gm`, and a copy of it: a compile changes the graph that it is given.

    The caller may compile the same graph again for another range. options: of Inductor, unchecked, as `config_patches`
    are (`torch.compile` refuses some that Inductor takes). written: whether the result goes into a file. vLLM listens
    to torch's own key, to compile alike pieces once; here torch's function is back in its place.
    """
    with (
        _standalone_context(gm, "from_graph", written),
        inductor_config.patch(dict(options)),
        functorch_config.patch(force_autograd_cache=True) if written else contextlib.nullcontext(),
        mock.patch.object(autograd_cache, "autograd_cache_key", _torch_key),
    ):
        yield copy.deepcopy(gm)


def writable(run: Callable[..., Any]) -> Any:
    """`run` as the artifact that torch can write into a file."""
    return AOTCompiledArtifact(run)
