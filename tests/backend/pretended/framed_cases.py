"""What a program does where there is a GPU. For `framed.py` (a pretended one) and `tests/gpu/framed.py` (a real one).

A case returns a function and its arguments; the function returns a tensor, or with it what it found out of the device
while it was traced. Each is made anew for each call of `torch.compile`.
"""

import torch
import triton
import triton.language as tl


def new(*size):
    return torch.ones(*size, device="cuda")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        return x + self.two(torch.relu(self.one(x)))


def inference():
    model = Block().to("cuda")

    def f(x):
        with torch.no_grad():
            return model(x)

    return f, (new(4, 16),)


def training():
    return Block().to("cuda"), (new(4, 16),)


def half():
    model = Block().to("cuda")

    def f(x):
        with torch.autocast("cuda", torch.bfloat16):
            return model(x).float()

    return f, (new(4, 16),)


def in_pieces():
    def f(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y.relu() + 1

    return f, (new(8, 8),)


def on_the_host():
    """A graph on the CPU, where there is a GPU."""
    return lambda x: x.sin() + 1, (torch.ones(8),)


def both():
    return lambda x, y: x + y.to(x.device), (new(8), torch.ones(8))


def made_there():
    return lambda x: x + torch.arange(8, device="cuda"), (new(8),)


def sizes():
    x = new(6, 16)
    torch._dynamo.mark_dynamic(x, 0)
    return lambda x: (x * x.size(0)).sum(-1), (x,)


def written():
    def f(x, buffer):
        buffer.add_(x)
        return x * buffer

    return f, (new(8), new(8))


def stepped():
    """Its state is made while it is traced, where the parameters are; it may be captured in a CUDA graph then."""
    model = Block().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for one in model.parameters():
        one.grad = torch.ones_like(one)

    def f(x):
        optimizer.step()
        made = [one for state in optimizer.state.values() for one in state.values()]
        is_capturable = optimizer.param_groups[0]["capturable"]
        return x * 2, [len(made), is_capturable or not torch.compiler.is_compiling()]

    return f, (new(8),)


def capability():
    def f(x):
        major = torch.cuda.get_device_properties(x.device).major
        return (x * 2 if major >= 9 else x * 3), major

    return f, (new(8),)


def how_many():
    def f(x):
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return x * found, found

    return f, (new(8),)


def current():
    def f(x):
        found = torch.cuda.current_device()
        return x * (found + 1), found

    return f, (new(8),)


def is_there():
    def f(x):
        return (x * 2 if x.is_cuda else x * 3), (x.is_cuda, str(x.device))

    return f, (new(8),)


def which_one():
    """What tells one GPU from another of its kind."""

    def f(x):
        found = torch.cuda.get_device_properties(x.device).uuid
        return (x * 2 if found == "a" else x * 3), found

    return f, (new(8),)


NAMES = ("name", "uuid")


def which_by_name():
    def f(x):
        found = "/".join(str(getattr(torch.cuda.get_device_properties(x.device), name)) for name in NAMES)
        return (x * 2 if found.endswith("a") else x * 3), found

    return f, (new(8),)


def fraction():
    """What a program may set, and no record speaks of."""

    def f(x):
        found = torch.cuda.get_per_process_memory_fraction()
        return (x * 2 if found > 0.5 else x * 3), found

    return f, (new(8),)


def as_text():
    def f(x):
        found = len(str(torch.cuda.get_device_properties(x.device)))
        return x * found, found

    return f, (new(8),)


def tuned():
    return lambda x, y: (torch.tanh(x) * y + 1).sum(-1), (new(4096, 64), new(4096, 64))


def spread():
    return lambda x, y: torch.tanh(x) * y.t() + 1, (new(1024, 1024), new(1024, 1024))


# Kernels of the user's, and what a program may do to them before they are called.

WIDTH = tl.constexpr(256)


@triton.jit
def doubled(x):
    return x * 2


@triton.jit
def scaled(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, doubled(tl.load(x + at, mask=at < n)) + WIDTH, mask=at < n)


@triton.jit
def plain(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def other_helper():
    @triton.jit
    def doubled(x):
        return x * 3

    return doubled


def other_kernel():
    @triton.jit
    def scaled(x, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < n) - 1, mask=at < n)

    return scaled


def by_two(args):
    return args["n"] % 2 == 0


def by_four(args):
    return args["n"] % 4 != 0


BLOCKS = [triton.Config({"BLOCK": block}) for block in (128, 256)]
chosen = triton.autotune(configs=BLOCKS, key=["n"])(triton.heuristics({"EVEN": by_two})(plain))
pruned = triton.autotune(configs=BLOCKS, key=["n"], prune_configs_by={"early_config_prune": lambda c, *_, **__: c})(
    plain
)


def written_kernel():
    def f(x):
        y = torch.empty_like(x)
        scaled[(4,)](x, y, x.numel(), BLOCK=256)
        return y.relu() + 1

    return f, (new(1024),)


def tuned_kernel():
    def f(x):
        y = torch.empty_like(x)
        chosen[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
        return y.relu() + 1

    return f, (new(1024),)


def pruned_kernel():
    def f(x):
        y = torch.empty_like(x)
        pruned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel(), EVEN=True)
        return y.relu() + 1

    return f, (new(1024),)


def cut():
    """Dynamo takes a constant of Triton's for the number in it."""
    return lambda x: x[:WIDTH].relu() + 1, (new(1024),)


def frozen():
    torch._inductor.config.freezing = True
    torch.set_grad_enabled(False)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
    return module.eval().to("cuda"), (new(2, 3, 8, 8),)


def put(**names):
    return lambda: globals().update(names)


CHANGES = {
    "a constant": put(WIDTH=tl.constexpr(512)),
    "a helper": lambda: put(doubled=other_helper())(),
    "another of its name": lambda: put(scaled=other_kernel())(),
    "fewer configurations": lambda: chosen.configs.pop(),
    "another configuration": lambda: chosen.configs.__setitem__(0, triton.Config({"BLOCK": 64}, num_warps=8)),
    "another rule": lambda: chosen.fn.values.update(EVEN=by_four),
}

CASES = {
    f.__name__: f
    for f in (
        *(inference, training, half, in_pieces, on_the_host, both, made_there, sizes, written, stepped),
        *(capability, how_many, current, is_there, which_one, which_by_name, fraction, as_text, tuned, spread),
        *(written_kernel, tuned_kernel, pruned_kernel, cut, frozen),
    )
}
