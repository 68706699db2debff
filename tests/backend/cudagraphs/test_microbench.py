"""Functions prepared for timing: what they read, write and return, without a GPU. The recording is tests/gpu's."""

import pytest
import torch
from warmgraph.backend.cudagraphs.microbench import EAGER, interleaved, prepare, seconds_per_call


def double_in_place(x):
    return x.mul_(2)


def test_without_a_gpu_a_function_is_timed_eagerly_and_says_why():
    """A plain word and a reason, not an error."""
    prepared = prepare(torch.add, (torch.ones(3), 1))
    assert (prepared.how, prepared.why) == (EAGER, "no input is on a GPU")
    assert torch.equal(prepared(), torch.full((3,), 2.0))


def test_with_copied_inputs_the_callers_are_left_alone():
    """Each call starts from what it is given, however the last one changed its memory."""
    x = torch.ones(3)
    prepared = prepare(double_in_place, (x,))
    assert [prepared().tolist() for _ in range(2)] == [[2.0] * 3] * 2
    assert prepared.run(torch.full((3,), 5.0)).tolist() == [10.0] * 3
    assert x.tolist() == [1.0] * 3


def test_without_copied_inputs_the_callers_memory_is_used():
    """It is read and written in place, and no other tensors are taken for it."""
    x = torch.ones(3)
    prepared = prepare(double_in_place, (x,), copy_inputs=False)
    prepared()
    prepared()
    assert x.tolist() == [4.0] * 3
    with pytest.raises(ValueError, match="only the inputs it was prepared with"):
        prepared.run(x.clone())


def test_copied_outputs_are_nobodys_memory_and_others_are_the_functions():
    """A view of an input is one only where outputs are not copied."""
    x = torch.ones(3, requires_grad=True)
    for copy_outputs in (True, False):
        output = prepare(lambda x: x[1:], (x,), copy_inputs=False, copy_outputs=copy_outputs)()
        assert (output.data_ptr() == x.data_ptr() + x.element_size()) is not copy_outputs
        assert output.requires_grad is not copy_outputs


def test_channels_last_concerns_images_and_volumes_alone():
    """Four dimensions and five; values stay, and so does the layout of copies."""
    image, volume, matrix = torch.randn(2, 3, 4, 4), torch.randn(2, 3, 4, 4, 4), torch.randn(3, 4)
    prepared = prepare(lambda *seen: list(seen), (image, volume, matrix), channels_last=True, copy_outputs=False)
    seen = prepared()
    assert seen[0].is_contiguous(memory_format=torch.channels_last)
    assert seen[1].is_contiguous(memory_format=torch.channels_last_3d)
    assert seen[2].is_contiguous()
    for one, other in zip(seen, (image, volume, matrix), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(prepared.run(image + 1, volume, matrix)[0], image + 1)


def test_inputs_may_be_nested_expanded_and_strided():
    """Lists, tuples and dicts; constants stay; strides are those of the inputs, and repeats stay repeats."""
    wide, strided = torch.randn(1, 4).expand(3, 4), torch.randn(6, 6)[::2, 1::2]
    prepared = prepare(lambda a, b: (a["x"][0], b[0], b[1]), ({"x": [wide]}, (strided, 7)), copy_outputs=False)
    seen, other, constant = prepared()
    assert (seen.stride(), other.stride(), constant) == ((0, 1), strided.stride(), 7)
    assert torch.equal(seen, wide)
    assert torch.equal(other, strided)
    with pytest.raises(ValueError, match="expanded in dimension 0"):
        prepared.run({"x": [torch.randn(3, 4)]}, (strided, 7))


def test_inputs_of_other_sizes_are_refused():
    """A recording would read what broadcasting made of them."""
    prepared = prepare(torch.neg, (torch.ones(3),))
    with pytest.raises(ValueError, match=r"sizes \[\(3,\)\] and given \[\(1,\)\]"):
        prepared.run(torch.ones(1))


def test_every_round_runs_every_way_in_turn():
    """What slows a machine down for a while meets all of them."""
    calls = []
    ways = {name: prepare(lambda x, name=name: calls.append(name), (torch.ones(1),)) for name in "ab"}
    found = interleaved(ways, rounds=3, calls=2)
    assert calls == ["a", "a", "b", "b"] * 3
    assert {name: len(values) for name, values in found.items()} == {"a": 3, "b": 3}
    assert seconds_per_call(ways["a"], 5) > 0
    assert len(calls) == 17
