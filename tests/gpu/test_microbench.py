"""Functions recorded in one CUDA graph: what they read, write and return; what cannot be recorded says why."""

import pytest

pytestmark = pytest.mark.gpu

BEGIN = """
import torch
from warmgraph.backend.cudagraphs.microbench import CUDA_GRAPH, EAGER, interleaved, prepare, seconds_per_call
torch.manual_seed(0)
x = torch.randn(64, 64, device="cuda")
close = torch.testing.assert_close
"""


def test_a_recording_is_replayed_on_new_inputs(run_python):
    """With copied inputs it computes on what it is given; with copied outputs each call's are its own."""
    program = """
prepared = prepare(lambda x: (x @ x).relu(), (x,))
assert (prepared.how, prepared.why) == (CUDA_GRAPH, None)
one, other = prepared(), prepared.run(x * 2)
close(one, (x @ x).relu())
close(other, (x * 2 @ (x * 2)).relu())
assert one.data_ptr() != other.data_ptr()
"""
    run_python(BEGIN + program)


def test_without_copies_the_callers_memory_is_read_and_the_recordings_returned(run_python):
    """The same output memory at each call, written over; a mutated input is the caller's."""
    program = """
prepared = prepare(lambda x: x + 1, (x,), copy_inputs=False, copy_outputs=False)
one = prepared()
x.fill_(3)
other = prepared()
assert one.data_ptr() == other.data_ptr()
close(one, torch.full_like(x, 4))
mutating = prepare(lambda x: x.add_(1), (x,), copy_inputs=False)
x.fill_(0)
mutating()
close(x, torch.full_like(x, 1))
prepare(lambda x: x.add_(1), (x,))()
close(x, torch.full_like(x, 1))
"""
    run_python(BEGIN + program)


def test_channels_last_is_recorded_as_such(run_python):
    """The layout that the operator sees, and the values that it would have had."""
    program = """
image, weight = torch.randn(2, 8, 16, 16, device="cuda"), torch.randn(8, 8, 3, 3, device="cuda")
prepared = prepare(torch.nn.functional.conv2d, (image, weight), channels_last=True)
assert prepared.how == CUDA_GRAPH
assert prepared.inputs[0].is_contiguous(memory_format=torch.channels_last)
close(prepared.run(image, weight), torch.nn.functional.conv2d(image, weight), rtol=1e-2, atol=1e-2)
"""
    run_python(BEGIN + program)


def test_a_function_that_waits_for_the_gpu_is_timed_eagerly(run_python):
    """It is found before the recording, so the next function can still be recorded."""
    program = """
prepared = prepare(torch.nonzero, (x > 0,))
assert prepared.how == EAGER
assert "waits for the GPU" in prepared.why, prepared.why
close(prepared(), torch.nonzero(x > 0))
assert torch.cuda.get_sync_debug_mode() == 0
assert prepare(torch.neg, (x,)).how == CUDA_GRAPH
"""
    run_python(BEGIN + program)


def test_a_recording_that_breaks_leaves_the_stream_as_it_was(run_python):
    """What no check finds beforehand: the reason is kept, and the function still gives its result."""
    program = """
def waits(x):
    torch.cuda.synchronize()
    return x + 1

before = torch.cuda.current_stream()
prepared = prepare(waits, (x,))
assert prepared.how == EAGER
assert "recording failed" in prepared.why, prepared.why
assert torch.cuda.current_stream() == before
close(prepared(), x + 1)
"""
    run_python(BEGIN + program)


def test_inputs_on_two_devices_are_not_recorded(run_python):
    """The reason names both."""
    program = """
prepared = prepare(torch.add, (x, torch.ones(())))
assert prepared.how == EAGER
assert "cpu, cuda:0" in prepared.why
close(prepared(), x + 1)
"""
    run_python(BEGIN + program)


def test_a_compiled_function_is_recorded_and_timed(run_python):
    """What `benchmarks.operators` does: eager and compiled in turn, each out of a recording."""
    program = """
compiled = torch.compile(lambda x: torch.softmax(x, 1), backend="warmgraph", dynamic=False)
ways = {"eager": prepare(lambda x: torch.softmax(x, 1), (x,)), "compiled": prepare(compiled, (x,))}
assert {way.how for way in ways.values()} == {CUDA_GRAPH}, [way.why for way in ways.values()]
close(ways["compiled"](), ways["eager"]())
found = interleaved(ways, rounds=3, calls=10)
assert all(len(values) == 3 and min(values) > 0 for values in found.values())
"""
    run_python(BEGIN + program)
