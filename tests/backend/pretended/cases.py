"""Graphs for a GPU: each case takes what makes a tensor there of sizes, and gives a function and its inputs."""

import torch
import triton
import triton.language as tl


def pointwise(new):
    return lambda x, y: (torch.relu(x) * y + 1).sum(-1), (new(64, 64), new(64, 64))


def shared(new):
    """Its first kernel is that of `pointwise`."""

    def f(x, y):
        first = (torch.relu(x) * y + 1).sum(-1)
        return first, x @ y

    return f, (new(64, 64), new(64, 64))


def several(new):
    """Two reductions with a matrix product between: two kernels, and a call of cuBLAS."""
    return lambda x, w: torch.softmax(torch.softmax(x, -1) @ w, -1), (new(64, 32), new(32, 48))


def training(new):
    return lambda x, w: torch.tanh(x * w).cumsum(-1).relu().sum(), (new(32, 64), new(64).requires_grad_())


def factories(new):
    def f(x):
        where = torch.arange(x.size(0), device=x.device)
        return torch.where(where[:, None] % 2 == 0, x, torch.zeros_like(x))

    return f, (new(64, 16),)


def random(new):
    return lambda x: torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x), (new(64, 16),)


def sizes(new):
    def f(x):
        return (x * 2 + x.size(0)).amax(-1)

    x = new(48, 64)
    torch._dynamo.mark_dynamic(x, 0)
    return f, (x,)


def mutation(new):
    def f(x, buffer):
        buffer.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - buffer

    return f, (new(64, 32), new(32))


def foreach(new):
    def f(weights, gradients):
        torch._foreach_mul_(weights, 0.99)
        torch._foreach_add_(weights, gradients, alpha=-0.1)
        return torch._foreach_norm(weights)

    return f, ([new(64, 8), new(32), new(16, 16)], [new(64, 8), new(32), new(16, 16)])


def attention(new):
    """A template of Triton's, with the user's function in it."""
    from torch.nn.attention.flex_attention import flex_attention

    def near(score, batch, head, query, key):
        return torch.where((query - key).abs() < 16, score, -float("inf"))

    return lambda q, k, v: flex_attention(q, k, v, score_mod=near), tuple(new(1, 2, 128, 64) for _ in range(3))


def branches(new):
    return lambda x: torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() - 1, (x,)), (new(64, 16),)


def half(new):
    def f(x, w):
        with torch.autocast("cuda", torch.bfloat16):
            return torch.nn.functional.gelu(x @ w).float().sum(-1)

    return f, (new(64, 32), new(32, 64))


@triton.jit
def scaled(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def written(new):
    """A kernel of the user's, and what Inductor makes around it."""

    def f(x):
        y = torch.empty_like(x)
        scaled[(4,)](x, y, x.numel(), BLOCK=256)
        return y.relu() + 1

    return f, (new(1024),)


CASES = {
    f.__name__: f
    for f in (
        *(pointwise, shared, several, training, factories, random, sizes, mutation),
        *(foreach, attention, branches, half, written),
    )
}
