"""Probes of what only a fingerprint beside a guard says: a reader found each when such fingerprints were left out."""

from __future__ import annotations

import contextlib

from probe import put, set_

SOURCE = """
import argparse, contextlib, torch
from torch import nn
SHARED = [1.0]
HELD = {"x": [1.0]}
ARGS = argparse.Namespace(lr=2.0)
NAMES = ["lr", "wd"]
CONTEXT = contextlib.nullcontext()
FILLED = float("nan")
def named(x): return x * 1
def noted(x, n: int = 1): return x * n
class Layer(nn.Module):
    def __init__(self):
        super().__init__(); self.linear = nn.Linear(4, 4)
    def forward(self, x): return self.linear(x)
torch.manual_seed(3)
LAYER = Layer().requires_grad_(False)
def one_list(x):
    for v in HELD.values(): v.append(3.0)
    return x * len(SHARED)
def names(x):
    for n in NAMES:
        if n in ARGS: x = x * getattr(ARGS, n)
    return x
def signed(x): return named(x) * (3 if hasattr(named, "__signature__") else 2)
def context(x):
    with CONTEXT as k: return x * 2 if k is None else x * k
def annotated(x): return x * (2 if "_torchdynamo_x" in noted.__annotations__ else 3)
def hooked(x): return LAYER(x)
def filled(x): return x + torch.signbit(torch.full((4,), FILLED)).float()
"""


def beside(entry, what, change, **more):
    put(f"beside: {entry}, {what}", SOURCE, entry, change=change, **{"after": False, **more})


beside("one_list", "it is another's", lambda s: s.m.HELD.update(x=s.m.SHARED), as_is=True)
beside("names", "one more", set_("m.ARGS.wd", 3.0))
beside("signed", "it is there", set_("m.named.__signature__", 1))
beside("context", "it gives something", set_("m.CONTEXT", contextlib.nullcontext(5.0)))
beside("annotated", "a mark", lambda s: s.m.noted.__annotations__.update(_torchdynamo_x=object))
beside(
    "hooked",
    "under a key like a mark",
    lambda s: s.m.LAYER.linear._forward_hooks.update(_torchdynamo_h=lambda m, i, o: o * 2),
)
beside("filled", "the sign of nan", set_("m.FILLED", -float("nan")))
