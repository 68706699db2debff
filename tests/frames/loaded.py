"""What a child of the fork server would otherwise spend its seconds on; settings and stores are the child's own."""

from __future__ import annotations

import tempfile

import torch
import torch._dynamo
import torch._inductor.config
from warmgraph.cache import configure, flush, reset_settings

torch.set_num_threads(1)
with tempfile.TemporaryDirectory() as folder, torch._inductor.config.patch(fallback_by_default=True):
    configure(dir=folder, frames=True)
    for backend in ("inductor", "warmgraph"):
        torch.compile(lambda x: x.relu() + 1, backend=backend)(torch.ones(4))
        torch._dynamo.reset()
    flush()
reset_settings()
