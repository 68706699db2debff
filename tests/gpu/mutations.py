"""One fresh process on a GPU: functions that write to inputs of each kind. Prints what ran in CUDA graphs.

    mutations.py KIND

Each kind is a list of steps; after each, results are compared with eager and the recordings counted.
"""

import json
import os
import sys

import torch
from torch import nn
from warmgraph.cache import journal_dir, read, settings
from worker import numbers, recordings

import warmgraph


class Counting(nn.Module):
    """Writes to a buffer."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16))
        self.register_buffer("seen", torch.zeros(16))

    def forward(self, x):
        self.seen.add_(x.sum(0))
        return x * self.weight


def doubled(x):
    return x * 2 + 1


def written(x):
    x.add_(1)
    return x.sin()


def none(compiled):
    run = compiled(doubled)
    for step in range(4):
        yield [run(numbers(8, 16, seed=step))]


def buffers(compiled):
    model = Counting().cuda()
    run = compiled(model)
    for step in range(4):
        yield [run(numbers(8, 16, seed=step)), model.seen]


def earlier_graphs(compiled):
    first, second = compiled(doubled), compiled(written)
    for step in range(5):
        y = first(numbers(8, 16, seed=step))
        yield [second(y), y]
        del y


def others(compiled):
    run = compiled(written)
    for step in range(4):
        x = numbers(8, 16, seed=step)
        yield [run(x), x]


def others_first(compiled):
    """The fourth kind at the root of the tree stays so there, whatever comes; behind another graph it is the third."""
    first, second = compiled(doubled), compiled(written)
    for step in range(6):
        x = numbers(8, 16, seed=step)
        yield [second(x), x]
        torch.compiler.cudagraph_mark_step_begin()
        y = first(numbers(8, 16, seed=10 + step))
        yield [second(y), y]
        del y
        torch.compiler.cudagraph_mark_step_begin()


def others_later(compiled):
    """The third kind, until the caller passes a tensor of its own behind the same graph."""
    first, second = compiled(doubled), compiled(written)
    for step in range(8):
        y = first(numbers(8, 16, seed=step))
        x = y if step < 4 else numbers(8, 16, seed=20 + step)
        yield [second(x), x]
        del x, y


def dropped(compiled):
    """After a reset nothing is remembered of the fourth kind, and it is found again."""
    for part in range(2):
        run = compiled(written)
        for step in range(3):
            x = numbers(8, 16, seed=step + part)
            yield [run(x), x]
        torch._dynamo.reset()


KINDS = {made.__name__: made for made in (none, buffers, earlier_graphs, others, others_first, others_later, dropped)}


def run(steps):
    copies, counts = [], []
    for tensors in steps:
        copies.append([tensor.detach().clone() for tensor in tensors])
        counts.append(recordings())
        del tensors
    return copies, counts


def main():
    kind = KINDS[sys.argv[1]]
    with torch.no_grad():
        eager, _ = run(kind(lambda function: function))
        found, counts = run(kind(lambda f: torch.compile(f, backend="warmgraph", mode="reduce-overhead")))
    torch.testing.assert_close(found, eager)
    warmgraph.flush()
    mine = [event for event in read(journal_dir(settings())) if event["pid"] == os.getpid()]
    skips = sorted([event["reason"], event["detail"]] for event in mine if event["outcome"] == "skipped")
    stats = warmgraph.stats()
    print(json.dumps({"skips": skips, "recordings": counts, "hits": stats["hits"], "misses": stats["misses"]}))


if __name__ == "__main__":
    main()
