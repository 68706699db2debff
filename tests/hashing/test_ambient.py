"""What surrounds a compile is told alike whenever it is asked."""

import pytest
import torch
from warmgraph.hashing import ambient_state
from warmgraph.hashing.parts import ambient

CUDNN_FIRST, AS_TORCH_STARTS = [3, 1, 2, 0, 4], [1, 2, 0, 3, 4]


@pytest.fixture
def hopper(monkeypatch):
    """torch where it prefers the attention of cuDNN: its order is set when the first one is called, and only then."""
    before, called = torch._C._get_sdp_priority_order(), []

    def attention(*tensors):
        if not called:
            torch._C._set_sdp_priority_order(CUDNN_FIRST)
        called.append([tensor.device.type for tensor in tensors])

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attention)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    ambient._settle_order.cache_clear()
    yield attention
    torch._C._set_sdp_priority_order(before)
    ambient._settle_order.cache_clear()


@pytest.mark.parametrize("earlier", [False, True])
def test_a_key_does_not_depend_on_whether_an_attention_was_called_before(hopper, earlier):
    if earlier:
        hopper()
    assert ambient_state(uses_cpu=True)["sdp"]["order"] == CUDNN_FIRST
    hopper()
    assert ambient_state(uses_cpu=True)["sdp"]["order"] == CUDNN_FIRST


def test_an_order_of_ones_own_is_told(hopper):
    ours = ambient_state(uses_cpu=True)
    torch._C._set_sdp_priority_order(AS_TORCH_STARTS)
    assert ambient_state(uses_cpu=True) != ours


def test_without_a_gpu_only_an_order_of_ones_own_is_told(hopper):
    before = ambient_state(uses_cpu=True, uses_gpu=False)
    ambient_state(uses_cpu=True)
    assert ambient_state(uses_cpu=True, uses_gpu=False) == before
    assert "order" not in before["sdp"]
    torch._C._set_sdp_priority_order([2, 1, 0, 3, 4])
    assert ambient_state(uses_cpu=True, uses_gpu=False)["sdp"]["order"] == [2, 1, 0, 3, 4]


def test_modes_of_the_program_see_nothing_of_it(hopper):
    class Watching(torch.overrides.TorchFunctionMode):
        seen = ()

        def __torch_function__(self, function, types, args=(), kwargs=None):
            self.seen += (function,)
            return function(*args, **(kwargs or {}))

    with Watching() as watching:
        ambient_state(uses_cpu=True)
    assert torch.empty not in watching.seen
