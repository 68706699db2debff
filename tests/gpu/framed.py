"""One fresh process on a GPU: frames traced or restored, and what each call computed, beside Inductor and eager code.

    framed.py CASE... [--mode M] [--change NAME]

The change is made to the process before anything is compiled. Prints what happened; judges nothing.
"""

import argparse
import contextlib
import hashlib
import json
import sys
import traceback
from pathlib import Path

import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

import warmgraph

sys.path.append(str(Path(__file__).parents[1] / "backend" / "pretended"))

import framed_cases

COUNTED = ("hits", "misses", "bypasses", "failures", "restored", "traced")
CALLS = 3
CASES = dict(framed_cases.CASES)
CHANGES = dict(framed_cases.CHANGES)


def case(function):
    CASES[function.__name__] = function
    return function


def numbers(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(3), device="cpu").to("cuda", dtype)


@case
def dropped():
    """Random numbers of the device."""
    return lambda x: nn.functional.dropout(x, 0.5) + torch.rand_like(x), (numbers(64, 64),)


@case
def attends():
    def f(q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).float()

    return f, tuple(numbers(2, 2, 64, 64, dtype=torch.bfloat16).requires_grad_() for _ in range(3))


@case
def flexible():
    def distance(score, batch, head, query, key):
        return score + (query - key)

    return lambda q, k, v: flex_attention(q, k, v, score_mod=distance), tuple(numbers(1, 2, 128, 64) for _ in range(3))


@case
def convolved():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).cuda().to(memory_format=torch.channels_last)
    return model, (numbers(2, 3, 16, 16).to(memory_format=torch.channels_last),)


@case
def multiplied():
    """Where the flags of matrix products show in the numbers."""
    return lambda x: x @ x.t(), (numbers(512, 2048),)


@case
def multiplied_halves():
    return lambda x: (x @ x.t()).float(), (numbers(512, 4096, dtype=torch.float16),)


@case
def cast_by_default():
    def f(x):
        with torch.autocast("cuda"):
            y = x @ x.t()
        return y.float(), str(y.dtype)

    return f, (numbers(64, 64),)


@case
def reads_flags():
    def f(x):
        cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
        said = [cuda.matmul.allow_tf32, cudnn.enabled, cudnn.benchmark, cuda.flash_sdp_enabled()]
        return x * (2 if cuda.matmul.allow_tf32 else 3), said

    return f, (numbers(8),)


@case
def reads_versions():
    def f(x):
        said = [torch.version.cuda, torch.backends.cudnn.version(), torch.cuda.is_bf16_supported()]
        return x * 2, [*said, torch.cuda.get_device_name(), list(torch.cuda.get_device_capability())]

    return f, (numbers(8),)


@case
def reads_memory():
    def f(x):
        return x * (2 if torch.cuda.memory_allocated() > 0 else 3)

    return f, (numbers(8),)


@case
def made_by_default():
    """On the device that the program made the default."""

    def f(x):
        made = torch.arange(8.0)
        return x + made.to(x.device), str(made.device)

    return f, (numbers(8),)


@case
def on_a_stream():
    side = torch.cuda.Stream()

    def f(x):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
        torch.cuda.current_stream().wait_stream(side)
        return y + 1

    return f, (numbers(1024),)


@case
def waited_for():
    def f(x):
        y = x * 2
        torch.cuda.synchronize()
        return y.relu()

    return f, (numbers(64),)


@case
def to_the_host_and_back():
    def f(x):
        y = x.sum().item()
        return x.cpu().to("cuda", non_blocking=True) * (2 if y > 0 else 3)

    return f, (numbers(64),)


@case
def pinned():
    return lambda x, y: x + y.to(x.device, non_blocking=True), (numbers(64), torch.ones(64).pin_memory())


@case
def amplified():
    """A step of mixed precision, as tutorials write it, with all of it compiled but the scaler."""
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
    scaler = torch.amp.GradScaler("cuda")

    def f(x):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.float16):
            loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach().float()

    return f, (numbers(16, 32),)


@triton.jit
def squared(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    found = tl.load(x + at, mask=at < n)
    tl.store(y + at, found * found, mask=at < n)


class Square(torch.autograd.Function):
    """A kernel of one's own, forward and backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        y = torch.empty_like(x)
        squared[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


@case
def own_function():
    return lambda x: Square.apply(x).relu(), (numbers(1000).requires_grad_(),)


@case
def cached():
    """Keys and values of a decoder, written in place."""
    keys = torch.zeros(1, 2, 16, 8, device="cuda")

    def f(x, at):
        keys.index_copy_(2, at, x)
        return keys.sum(2)

    return f, (numbers(1, 2, 1, 8), torch.tensor([3], device="cuda"))


@case
def scattered():
    """Whose algorithm depends on the deterministic flag."""
    index = torch.tensor([0, 0, 1, 1], device="cuda")
    return lambda x: torch.zeros(2, 8, device="cuda").index_add_(0, index, x), (numbers(4, 8),)


@case
def on_either():
    return lambda x: x.sin() + 1, (numbers(64),)


def flag(owner, name, value):
    return lambda: setattr(owner, name, value)


cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
FUSED = (cuda.enable_flash_sdp, cuda.enable_mem_efficient_sdp, cuda.enable_cudnn_sdp)
CHANGES |= {
    "tf32": flag(cuda.matmul, "allow_tf32", True),
    "precision": lambda: torch.set_float32_matmul_precision("medium"),
    "reduced": flag(cuda.matmul, "allow_fp16_reduced_precision_reduction", False),
    "no flash": lambda: cuda.enable_flash_sdp(False),
    "only math": lambda: [off(False) for off in FUSED],
    "no cudnn": flag(cudnn, "enabled", False),
    "benchmark": flag(cudnn, "benchmark", True),
    "deterministic": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "cast": lambda: torch.set_autocast_dtype("cuda", torch.bfloat16),
    "default device": lambda: torch.set_default_device("cuda"),
    "default tensors": lambda: torch.set_default_tensor_type(torch.cuda.FloatTensor),
    "a stream": lambda: torch.cuda.set_stream(torch.cuda.Stream()),
    "on the host": lambda: CASES.update(on_either=lambda: (lambda x: x.sin() + 1, (torch.ones(64),))),
}


def outcome(make, mode):
    """Digests of what warmgraph's calls gave; how far they are from Inductor's and from eager's."""
    before = warmgraph.stats()
    got, said = calls(make, backend="warmgraph", mode=mode)
    after = warmgraph.stats()
    found = {name: after[name] - before[name] for name in COUNTED}
    why = {name: count - before["frames"].get(name, 0) for name, count in after["frames"].items()}
    found |= {"why": [name for name, count in why.items() if count], "said": said, "digests": list(map(digest, got))}
    want, found["inductor said"] = calls(make, backend="inductor", mode=mode)
    expected, found["eager said"] = calls(make)
    return found | {"from inductor": far(got, want), "from eager": far(got, expected)}


def calls(make, **compiled):
    """Each call's tensors, gradients among them, copied; and what the function said beside."""
    torch._dynamo.reset()
    torch.manual_seed(7)
    function, inputs = make()
    function = torch.compile(function, **compiled) if compiled else function
    copies, said = [], []
    for _ in range(CALLS):
        if compiled.get("mode") == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        found = function(*inputs)
        tensor, beside = found if isinstance(found, tuple) else (found, None)
        said.append(str(beside))
        if tensor.requires_grad:
            tensor.sum().backward()
        leaves = [*inputs, *(function.parameters() if isinstance(function, nn.Module) else ())]
        kept = [one for one in (tensor, *inputs, *(leaf.grad for leaf in leaves)) if one is not None]
        copies.append([one.detach().double().cpu() for one in kept])
        for leaf in leaves:
            leaf.grad = None
        del found, tensor, kept
    return copies, said


def digest(tensors):
    return hashlib.sha256(b"".join(one.contiguous().numpy().tobytes() for one in tensors)).hexdigest()[:16]


def far(one, other):
    """The largest difference, as a share of the largest number."""
    pairs = [(a, b) for left, right in zip(one, other, strict=True) for a, b in zip(left, right, strict=True)]
    if any(a.shape != b.shape for a, b in pairs):
        return float("inf")
    return max(((a - b).abs().max() / b.abs().max().clamp(min=1e-6)).item() for a, b in pairs if a.numel())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="+", choices=CASES)
    parser.add_argument("--mode")
    parser.add_argument("--change", choices=CHANGES)
    options = parser.parse_args()
    if options.change:
        CHANGES[options.change]()
    found = {}
    for name in options.cases:
        with contextlib.redirect_stdout(sys.stderr):
            try:
                found[name] = outcome(CASES[name], options.mode)
            except Exception:  # it is told
                found[name] = {"error": traceback.format_exc()[-2500:]}
    warmgraph.flush()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
