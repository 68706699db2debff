"""Compiled steps of optimizers in real processes: no trace in the second one, the same numbers, nothing kept alive."""

import pytest
import torch
from warmgraph.backend import frames_unsupported

TRAIN = """
import gc, json, sys, weakref
import torch, warmgraph

backend, kind, options, frames = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4] == "frames"
warmgraph.configure(frames=frames)
torch.manual_seed(0)

def train():
    model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(3)])
    optimizer = getattr(torch.optim, kind)(model.parameters(), **options)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=4)

    @torch.compile(backend=backend)
    def step():
        optimizer.step()
        schedule.step()

    for number in range(3):
        model(torch.full((4, 16), 1.0 + number)).square().sum().backward()
        step()
        optimizer.zero_grad()
    tensors = [*model.parameters(), *(one for held in optimizer.state.values() for one in held.values())]
    numbers = [[float(x).hex() for x in one.detach().flatten().tolist()] for one in tensors]
    return numbers, [weakref.ref(one) for one in (optimizer, *tensors)]

numbers, alive = train()
gc.collect()
print(json.dumps({"numbers": numbers, "alive": sum(one() is not None for one in alive), **warmgraph.stats()}))
"""


@pytest.mark.skipif(frames_unsupported() is not None, reason="frames are not restored on this torch")
@pytest.mark.parametrize(
    ("kind", "options"),
    [("AdamW", '{"foreach": true, "amsgrad": true}'), ("SGD", '{"momentum": 0.9, "lr": 0.01}')],
)
def test_a_step_is_restored_and_keeps_nothing_alive(kind, options, run_python):
    """Plain torch, cold, restored, and a hit without frames."""
    runs = [("inductor", ""), ("warmgraph", "frames"), ("warmgraph", "frames"), ("warmgraph", "")]
    plain, cold, restored, hit = (run_python(TRAIN, name, kind, options, frames) for name, frames in runs)
    assert plain["numbers"] == cold["numbers"] == restored["numbers"] == hit["numbers"]
    assert [one["alive"] for one in (plain, cold, restored, hit)] == [0, 0, 0, 0]
    assert (restored["misses"], restored["bypasses"]) == (0, 0)
    left = 0 if torch.__version__ >= (2, 12) else restored["traced"]  # on 2.11 torch's wrapper around `step`
    assert (cold["traced"], restored["traced"]) == (restored["restored"] + left, left)
    assert (hit["restored"], hit["bypasses"]) == (0, 0)
    assert hit["hits"] > 0  # a rate that is known to vary makes another first graph
