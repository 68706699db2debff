"""Activations kept as float8 until the backward, with hooks that torch.compile inlines: and how they stay cached.

python examples/saved_tensors_hooks.py        # twice: the second run compiles only what has no hash

A hook with Python in it (here: which tensors are worth it) is wrapped, so that the trace does not go into it. Then
nothing in the graph says what it does. Without a hash such a graph is compiled anew in every process; the hash that
`warmgraph.cache_hash` computes from the function changes whenever the function does.
"""

import torch
import torch._functorch.config as functorch_config
from torch import nn

import warmgraph


@torch.fx.wrap
def pack(x: torch.Tensor) -> tuple[torch.dtype, torch.Tensor]:
    if x.dtype.is_floating_point and x.numel() >= 64:
        return x.dtype, x.to(torch.float8_e5m2)
    return x.dtype, x


@torch.fx.wrap
def unpack(packed: tuple[torch.dtype, torch.Tensor]) -> torch.Tensor:
    dtype, x = packed
    return x.to(dtype)


def hooks(with_hash: bool) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """The pair as torch wants it: two GraphModules, with a hash on each wrapped call."""
    pair = torch.fx.symbolic_trace(lambda x: pack(x)), torch.fx.symbolic_trace(lambda x: unpack(x))
    for gm in pair:
        for node in gm.graph.nodes:
            if with_hash and node.meta.get("is_wrapped"):
                node.meta["user_cache_hash"] = warmgraph.cache_hash(node.target)
    return pair


def step(model: nn.Module, with_hash: bool) -> str:
    """One training step under the hooks, and what became of its graph."""
    torch._dynamo.reset()
    before = warmgraph.stats()
    with torch.autograd.graph.saved_tensors_hooks(*hooks(with_hash)):
        loss = torch.compile(model, backend="warmgraph")(torch.ones(16, 32)).square().mean()
    loss.backward()
    after = warmgraph.stats()
    return ", ".join(f"{after[name] - before[name]} {name}" for name in ("hits", "misses", "bypasses"))


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8))
    # torch packs intermediates alone unless told otherwise: inputs and parameters are held by somebody anyway.
    with functorch_config.patch(saved_tensors_hooks_filtering_mode="donated"):
        print("without a hash:", step(model, with_hash=False), flush=True)
        print("with a hash:", step(model, with_hash=True), flush=True)


if __name__ == "__main__":
    main()
