"""Donated buffers: who keeps the graph gets copies, with the very strides that generated code asserts."""

import types

import pytest
import torch
from warmgraph.backend.torch_api.donated_buffers import spared, take_donated


class Overwriting(torch.autograd.Function):
    """Stands where AOTAutograd's function does: its backward writes into what was saved."""

    @staticmethod
    def forward(ctx, x, backward):
        ctx.save_for_backward(x * 2)
        ctx.compiled = backward
        return x.sum()

    @staticmethod
    def backward(ctx, grad):
        return ctx.compiled([grad, *ctx.saved_tensors]), None


def overwrite(inputs):
    grad, saved = inputs
    inputs.clear()
    return saved.mul_(grad)


def test_a_kept_graph_survives_a_backward_that_overwrites():
    """With `retain_graph` the same gradient comes twice; without, nothing is copied."""
    seen = []

    def compiled(inputs):
        seen.append(inputs[1])
        return overwrite(inputs)

    x = torch.ones(3, requires_grad=True)
    out = Overwriting.apply(x, spared(compiled, [1])) * 3
    (first,) = torch.autograd.grad(out, x, retain_graph=True)
    (second,) = torch.autograd.grad(out, x)
    assert first.tolist() == second.tolist() == [6.0] * 3
    assert seen[0] is not seen[1]


def test_a_backward_without_donated_inputs_is_left_alone():
    """No wrapper, no cost."""
    assert spared(overwrite, ()) is overwrite


@pytest.mark.parametrize("shape", ["dense", "turned", "gaps", "expanded", "inside", "empty", "scalar"])
def test_a_copy_has_the_same_strides(shape, monkeypatch):
    """Of any saved tensor: same values, sizes and strides, other memory."""
    saved = {
        "dense": torch.arange(6.0).reshape(2, 3),
        "turned": torch.arange(6.0).reshape(2, 3).t(),
        "gaps": torch.arange(12.0).reshape(2, 6)[:, ::2],
        "expanded": torch.arange(2.0)[:, None].expand(2, 3),
        "inside": torch.arange(12.0)[5:9],
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5),
    }[shape]
    monkeypatch.setattr("warmgraph.backend.torch_api.compile.graph_is_kept", lambda: True)
    (copy,) = spared(lambda inputs: inputs, [0])([saved])
    assert torch.equal(copy, saved)
    assert copy.stride() == saved.stride()
    assert saved.numel() == 0 or copy.data_ptr() != saved.data_ptr()


def test_the_positions_are_taken_once():
    """torch's own refusal reads the same field: an empty list is what it accepts, also where it was None."""
    for donated, want in (([2, 3], (2, 3)), ([], ()), (None, ())):
        result = types.SimpleNamespace(runtime_metadata=types.SimpleNamespace(bw_donated_idxs=donated))
        assert take_donated(result) == want
        assert result.runtime_metadata.bw_donated_idxs == []
