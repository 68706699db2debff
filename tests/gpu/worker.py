"""One fresh process on a GPU: cases run eagerly and compiled, step by step. Prints what happened; judges nothing.

    worker.py CASE... [--backend B] [--mode M] [--without LIBRARY] [--frames] --out FILE

A case makes its modules anew and yields each step's tensors; they are copied before the next step, since CUDA graphs
write over them. After each step the recordings that this process holds are counted.
"""

import argparse
import json
import sys
import traceback

import torch
from torch import nn

import warmgraph

CASES = {}
COUNTED = ("hits", "misses", "bypasses", "failures", "restored", "traced")


def case(function):
    CASES[function.__name__] = function
    return function


def numbers(*sizes, seed):
    """The same for eager and compiled, on any device."""
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).cuda()


def made(make):
    """A module with the same weights each time."""
    torch.manual_seed(0)
    return make().cuda()


def gradients(module):
    return [parameter.grad for parameter in module.parameters()]


def mlp():
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 16))


@case
def inference(compiled):
    """A forward alone."""
    model = made(mlp)
    run = compiled(model)
    for step in range(5):
        with torch.no_grad():
            yield [run(numbers(8, 32, seed=step))]


@case
def training(compiled):
    """A forward and its backward."""
    model = made(mlp)
    run = compiled(model)
    for step in range(5):
        model.zero_grad(set_to_none=True)
        x = numbers(8, 32, seed=step).requires_grad_()
        output = run(x)
        output.square().sum().backward()
        yield [output, x.grad, *gradients(model)]
        del output, x


@case
def optimizer_steps(compiled):
    """Parameters that change in place between calls: a recording reads them where they are."""
    model = made(mlp)
    run = compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(6):
        optimizer.zero_grad(set_to_none=True)
        loss = run(numbers(8, 32, seed=step)).square().mean()
        loss.backward()
        optimizer.step()
        yield [loss, *model.parameters()]
        del loss


@case
def buffers(compiled):
    """Batch norm, whose running statistics the graph writes to; an image through convolutions."""
    model = made(lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3)))
    run = compiled(model)
    for step in range(5):
        model.zero_grad(set_to_none=True)
        output = run(numbers(2, 3, 12, 12, seed=step))
        output.square().sum().backward()
        yield [output, *gradients(model), *model.buffers()]
        del output


@case
def attention(compiled):
    """Scaled dot products, a mask, a softmax in half precision."""

    def f(query, key, value):
        found = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return found, (query @ key.mT).float().softmax(-1)

    run = compiled(f)
    for step in range(4):
        inputs = [numbers(2, 2, 16, 32, seed=10 * step + n).bfloat16().requires_grad_() for n in range(3)]
        found, weights = run(*inputs)
        (found.float().sum() + weights.square().sum()).backward()
        yield [found, weights, *(x.grad for x in inputs)]
        del found, weights, inputs


@case
def two_forwards(compiled):
    """Two compiled functions, one fed by the other: two forwards are pending when the first backward runs."""
    one, other = made(mlp), made(lambda: nn.Sequential(nn.Linear(16, 16), nn.Tanh()))
    first, second = compiled(one), compiled(other)
    for step in range(6):
        one.zero_grad(set_to_none=True)
        other.zero_grad(set_to_none=True)
        output = second(first(numbers(8, 32, seed=step)))
        output.square().sum().backward()
        yield [output, *gradients(one), *gradients(other)]
        del output


@case
def forwards_without_backwards(compiled):
    """Forwards whose backward never comes, between those whose does."""
    model = made(mlp)
    run = compiled(model)
    for step in range(8):
        model.zero_grad(set_to_none=True)
        output = run(numbers(8, 32, seed=step))
        if step % 3 == 2:
            output.square().sum().backward()
        yield [output, *(gradient for gradient in gradients(model) if gradient is not None)]
        del output


@case
def sizes(compiled):
    """A dynamic size: one recording for each."""
    run = compiled(lambda x: (x * 2 + 1).softmax(-1).sum(0), dynamic=True)
    for step in range(9):
        x = numbers(4 + 2 * (step % 3), 16, seed=step)
        yield [run(x)]


@case
def reset(compiled):
    """`torch._dynamo.reset()` in the middle."""
    model = made(mlp)
    for part in range(2):
        run = compiled(model)
        for step in range(4):
            model.zero_grad(set_to_none=True)
            output = run(numbers(8, 32, seed=step + part))
            output.square().sum().backward()
            yield [output, *gradients(model)]
            del output
        model.zero_grad(set_to_none=True)
        del run
        torch._dynamo.reset()


def recordings():
    """How many CUDA graphs the trees of this device hold: roots and all that were recorded after them."""
    from torch._inductor.cudagraph_trees import get_manager

    manager = get_manager(torch.cuda.current_device(), create_if_none_exists=False)
    nodes = [] if manager is None else list(manager.get_roots())
    found = 0
    while nodes:
        found += 1
        for children in nodes.pop().children.values():
            nodes.extend(children)
    return found


def run(steps):
    """Copies of each step's tensors; and how many recordings there were after it."""
    copies, counts = [], []
    for tensors in steps:
        copies.append([tensor.detach().clone() for tensor in tensors])
        counts.append(recordings())
        del tensors  # what is alive at the next step has a say in what is recorded
    return copies, counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="+", choices=CASES)
    parser.add_argument("--backend", default="warmgraph")
    parser.add_argument("--mode")
    parser.add_argument("--without", help="a library that cannot be imported")
    parser.add_argument("--frames", action="store_true", help="restore them: without, each is traced")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    if options.without:
        sys.modules[options.without] = None
    warmgraph.configure(frames=options.frames)
    named = {"backend": options.backend} | ({"mode": options.mode} if options.mode else {})
    found, kept = {}, {}
    for name in options.cases:
        try:
            found[name], kept[name] = run_case(CASES[name], named)
        except Exception:
            found[name] = {"error": traceback.format_exc()[-3000:]}
        torch._dynamo.reset()
    torch.save(kept, options.out)
    warmgraph.flush()
    print(json.dumps(found))


def run_case(case, named):
    """What is to be compared: counts of this case alone, and the tensors of its steps."""
    eager, _ = run(case(lambda function, **_: function))
    before, skips = warmgraph.stats(), cudagraph_skips()
    steps, counts = run(case(lambda function, **more: torch.compile(function, **named, **more)))
    after = warmgraph.stats()
    found = {name: after[name] - before[name] for name in COUNTED}
    found |= {"recordings": counts, "skips": cudagraph_skips() - skips}
    return found, {"eager": to_cpu(eager), "compiled": to_cpu(steps)}


def cudagraph_skips():
    """torch's own count of graphs that were to run in CUDA graphs and do not. A reset may set it back."""
    return torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]


def to_cpu(steps):
    return [[tensor.cpu() for tensor in tensors] for tensors in steps]


if __name__ == "__main__":
    main()
