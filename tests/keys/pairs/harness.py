"""What a pair is made of: `@pair`, and ways to compile in one. Runs one version of one pair in its own process.

A pair is a function of a version, 1 or 2, that compiles something small and returns what it computed (tensors or
numbers, in lists). The two versions trace to the same graph, and differ in one thing that a compile reads beside it:

    @pair()
    def the_rank_that_a_backward_slices_by(v):
        \"\"\"One sentence on what differs.\"\"\"
        ...
        return gradient

So their results differ, and neither may be served what was compiled for the other.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class Pair:
    """One pair. The keywords are those of `pair`."""

    run: Callable[[int], Any]
    bypass: str | None
    kernels: bool
    agrees: bool | str


PAIRS: dict[str, Pair] = {}


def pair(*, bypass: str | None = None, kernels: bool = False, agrees: bool | str = False) -> Callable[[Any], Any]:
    """Registers a pair under `file/function`.

    bypass: text that the reason of its bypass contains, in both versions; without it each version has a key, which
        hits when the same version comes again. kernels: Inductor generates code; without it graphs call operators
        one by one, which spares g++ its time. agrees: both versions compute the same here (what differs shows on
        other hardware only), from this version of torch on if it is a text, before it with a `<`; all other
        claims hold.
    """

    def register(run: Callable[[int], Any]) -> Callable[[int], Any]:
        file = Path(run.__code__.co_filename).stem
        PAIRS[f"{file}/{run.__name__}"] = Pair(run, bypass, kernels, agrees)
        return run

    return register


class Wrapped(torch.Tensor):
    """A tensor around another one, for subclasses that say what their operations do."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self, **options):  # torch 2.11 asks for it while it compiles, and its own calls operators
        return "a subclass"

    def __tensor_flatten__(self):
        return ["inner"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["inner"])


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`function` through warmgraph, always as one graph."""
    return torch.compile(function, backend="warmgraph", fullgraph=True, **options)


def values(*shape: int) -> torch.Tensor:
    """The same distinct numbers every time: 1/8, 2/8, ... (8 values by default)."""
    shape = shape or (8,)
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float32) / 8 + 0.125).reshape(shape)


def operator(
    name: str,
    *,
    forward: Callable[..., Any] | None = None,
    fake: Callable[..., Any] | None = None,
    backward: Callable[..., Any] | None = None,
) -> Any:
    """A custom operator `pairs::name` of one tensor; by default it copies."""

    def copy(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    made = torch.library.custom_op(f"pairs::{name}", forward or copy, mutates_args=())
    made.register_fake(fake or (lambda x: torch.empty_like(x)))
    if backward is not None:
        made.register_autograd(backward)
    return made


def gradient(op: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """The gradient of a compiled call of `op`, on leaves of eight values."""
    x = values().requires_grad_()
    compiled(lambda x: op(x).sum())(x).backward()
    assert x.grad is not None
    return x.grad


def gradient_of_backward(backward: Callable[..., Any]) -> torch.Tensor:
    """The gradient through an operator with this backward, `backward(ctx, g)`."""
    return gradient(operator("op", backward=backward))


def plain(value: Any) -> Any:
    """What a pair returned, as JSON: every number exact."""
    if isinstance(value, torch.Tensor):
        return [list(value.shape), [float(x).hex() for x in value.detach().double().flatten().tolist()]]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (int, float)):
        return float(value).hex()
    raise TypeError(f"a pair returned a {type(value).__name__}")


def main(task: dict[str, Any]) -> dict[str, Any]:
    """Run one version in this process. task: pair, version, and the folder that this process works in."""
    # A pair's own modules are imported by its file's name, as a user's would be.
    sys.path.insert(0, str(Path(__file__).parent))
    sys.modules.setdefault("harness", sys.modules[__name__])
    os.chdir(task["folder"])
    __import__(task["pair"].partition("/")[0])
    found: dict[str, Any] = {}
    chosen = PAIRS[task["pair"]]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if not chosen.kernels:
        torch._inductor.config.fallback_by_default = True
    else:
        torch._inductor.config.cpp.simdlen = 1  # scalar code takes g++ half the time
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["result"] = plain(chosen.run(task["version"]))
    except Exception:
        found["broken"] = traceback.format_exc()[-4000:]
    from warmgraph.cache import journal_dir, read, settings

    import warmgraph

    warmgraph.flush()
    events = [event for event in read(journal_dir(settings())) if event["pid"] == os.getpid()]
    found["events"] = [{name: event.get(name) for name in ("outcome", "reason", "detail")} for event in events]
    return found


if __name__ == "__main__":  # by hand: harness.py PAIR VERSION, with WARMGRAPH_DIR set
    sys.stdout.write(
        json.dumps(main({"pair": sys.argv[1], "version": int(sys.argv[2]), "folder": str(Path.cwd())}), indent=1) + "\n"
    )
