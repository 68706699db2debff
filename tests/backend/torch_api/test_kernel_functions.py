"""Which function the dispatcher would run: found for every way to write one, and nothing of it runs meanwhile."""

from __future__ import annotations

import functools
import gc
import importlib
import itertools
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.utils._python_dispatch import is_in_torch_dispatch_mode
from torch.utils.flop_counter import FlopCounterMode
from warmgraph.backend.torch_api.changes import tables
from warmgraph.backend.torch_api.changes.backwards import generated_backward
from warmgraph.backend.torch_api.changes.kernel_functions import python_kernels

RAN = []
COUNT = itertools.count()


@pytest.fixture
def library():
    """`give(schema, key=kernel, ...)`: the names of the kernels, in order."""
    name = f"wgkernels{next(COUNT)}"  # what ran once is not called again
    made = torch.library.Library(name, "DEF")

    def give(schema="(Tensor x, int n, float? s=None) -> Tensor", **kernels):
        made.define(f"f{schema}")
        for key, kernel in kernels.items():
            made.impl("f", kernel, key)
        return [(f"{name}::f", key) for key in kernels]

    give.library, give.name = made, name
    yield give
    made._destroy()
    assert not RAN
    RAN.clear()


def plain(x, n, s=None):
    RAN.append("plain")
    return x


def takes_all(*given, **named):
    RAN.append(given)


def made(by):
    def kernel(x, n, s=None, *, extra=by):
        RAN.append(by)
        return x * by

    return kernel


class Kernels:
    def __call__(self, x, n, s=None):
        RAN.append("called")

    def method(self, x, n, s=None):
        RAN.append("method")

    @classmethod
    def of_class(cls, x, n, s=None):
        RAN.append("of_class")

    @staticmethod
    def static(x, n, s=None):
        RAN.append("static")


def around(function):
    @functools.wraps(function)
    def inner(*given, **named):
        RAN.append("inner")
        return function(*given, **named)

    return inner


def test_a_function_is_found_by_its_code(library):
    assert python_kernels(library(Meta=plain, CPU=Kernels.static)) == [plain, Kernels.static]


def test_of_functions_with_one_code_it_is_the_one_that_holds_the_same(library):
    twins = [made(by) for by in (1, 2, 3)]
    (found,) = python_kernels(library(CompositeImplicitAutograd=twins[1]))
    assert found is twins[1]


def test_a_method_comes_with_its_object(library):
    one = Kernels()
    found = python_kernels(library(CPU=one, CUDA=one.method, XPU=Kernels.of_class))
    assert [(kernel.__func__, kernel.__self__) for kernel in found] == [
        (Kernels.__call__, one),
        (Kernels.method, one),
        (Kernels.of_class.__func__, Kernels),
    ]


def test_a_wrapper_is_what_is_called(library):
    wrapper = around(plain)
    assert python_kernels(library(Meta=wrapper)) == [wrapper]


def test_arguments_of_all_types(library):
    def kernel(xs, m, b, s, dv, n, q, *, k, z=9):
        RAN.append(z)

    schema = "(Tensor[] xs, Tensor? m, bool b, str s, Device dv, SymInt n, Scalar q, *, int k, int z=3) -> Tensor"
    assert python_kernels(library(schema, Meta=kernel)) == [kernel]


def test_what_is_no_function_is_not_found(library):
    bound = functools.partial(plain, s=3.0)
    assert python_kernels(library(Meta=bound)) == [None]


def test_a_kernel_of_cpp_is_not_called():
    """Nor a key that has no kernel of its own, where torch would read past the end of a table."""
    assert python_kernels([("aten::mm", "CPU"), ("aten::mm", "XPU"), ("aten::matmul", "CPU")]) == [None] * 3


def test_one_that_is_given_the_dispatch_keys_is_not_told(library):
    """Another one with this code may not be given them."""
    library()
    library.library.impl("f", lambda first, *rest: RAN.append(rest), "Meta", with_keyset=True)
    assert python_kernels([(f"{library.name}::f", "Meta")]) == [None]


def test_what_is_bound_by_name_is_not_taken_for_what_is_bound_by_place(library):
    def kernel(p, r):
        RAN.append(p)

    schema = "(Tensor x, bool a) -> Tensor"
    by_place = library(
        schema, Meta=functools.partial(around(kernel), torch.ones(2)), CPU=functools.partial(kernel, r=True)
    )
    assert python_kernels(by_place) == [None, None]


def test_what_runs_no_code_of_pythons_is_called_once(library):
    """That it has none is known once it ran."""
    seen = []
    kernels = library("(Tensor x) -> Tensor", Meta=seen.append)
    assert python_kernels(kernels) == python_kernels(kernels) == [None]
    assert len(seen) <= 2


def test_an_operator_without_tensors_is_not_asked(library):
    """A cache around its kernel could not be told."""
    kernel = functools.cache(lambda n: RAN.append(n))
    assert python_kernels(library("(int n) -> Tensor", CompositeImplicitAutograd=kernel)) == [None]


@pytest.mark.parametrize("around", [functools.cache, lambda kernel: functools.partial(functools.reduce, kernel)])
def test_what_asks_a_tensor_first_is_not_told(library, around):
    """Its hash, its items: code of torch's, which is not the kernel."""
    assert python_kernels(library("(Tensor x) -> Tensor", Meta=around(lambda *x: RAN.append(x)))) == [None]


@pytest.mark.parametrize("schema", ["(Tensor x, Tensor? y, Tensor?[] z, int? n)", "(Tensor? x, str s, float f)"])
def test_an_argument_that_may_be_none(library, schema):
    """It may be the only tensor, as of torchao's `choose_qparams_affine`."""
    assert python_kernels(library(f"{schema} -> Tensor", Meta=takes_all)) == [takes_all]


def test_one_that_is_not_found_is_in_nobodys_way(library):
    """Two kernels with one code, of which one is bound by name."""
    lost, twins = functools.partial(made(1), extra=2), [made(2), made(3)]
    assert python_kernels(library(Meta=lost)) == [None]
    library.library.impl("f", twins[1], "CPU")
    assert python_kernels([(f"{library.name}::f", "CPU")]) == [twins[1]]


def test_a_kernel_in_the_place_of_a_python_kernel_of_torchs():
    """torch's list of kernels is a set, and stays as it was."""
    importlib.import_module("torch.distributed._functional_collectives")
    before = tables.kernels()
    mine = torch.library.Library("_c10d_functional", "IMPL")
    try:
        mine.impl("all_gather_into_tensor", plain, "Meta", allow_override=True)
        assert tables.kernels() - before == {("_c10d_functional::all_gather_into_tensor", "Meta")}
    finally:
        mine._destroy()
    assert tables.kernels() == before


def test_an_error_of_a_handler_of_signals_is_raised(library):
    kernels = library(Meta=plain)

    def late(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 1.0)  # again: Python loses one that comes while a generator is closed
    try:
        with pytest.raises(TimeoutError):
            for _ in range(100_000):
                python_kernels(kernels)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert sys.getprofile() is None


def test_a_handler_of_signals_is_not_stopped(library):
    kernels = library(Meta=plain)
    heard = []
    before = signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
    try:
        for _ in range(300):
            assert python_kernels(kernels) == [plain]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert heard


def test_threads_leave_no_mode_behind(library):
    kernels = library(Meta=plain)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: python_kernels(kernels), range(40)))
    assert found == [[plain]] * 40
    assert not is_in_torch_dispatch_mode()


class Double(torch.autograd.Function):
    @staticmethod
    def forward(x):
        RAN.append("forward")

    @staticmethod
    def setup_context(ctx, inputs, output):
        RAN.append("setup")

    @staticmethod
    def backward(ctx, grad):
        RAN.append("backward")


def test_the_apply_of_a_class_is_not_its_forward(library):
    """torch 2.15 goes from the one to the other in C++."""
    schema = "(Tensor x) -> Tensor"
    (applied, forward) = python_kernels(library(schema, Autograd=Double.apply, CPU=Double.forward))
    assert Double in (applied, getattr(applied, "__self__", None))
    assert forward is Double.forward


def test_modes_of_the_program_see_nothing(library):
    kernels = library(Meta=plain)
    with FlopCounterMode(display=False) as counter, torch.device("meta"), torch.inference_mode():
        assert python_kernels(kernels) == [plain]
    assert counter.get_total_flops() == 0


def test_another_profiler_is_left_alone(library):
    """Its events would be lost."""
    kernels = library(Meta=plain)
    before = sys.getprofile()
    sys.setprofile(lambda *event: None)
    try:
        mine = sys.getprofile()
        found, after = python_kernels(kernels), sys.getprofile()
    finally:
        sys.setprofile(before)
    assert found == [None]
    assert after is mine


def test_the_collector_is_left_as_it_was(library):
    kernels = library(Meta=plain)
    was = gc.isenabled()
    try:
        for state in (gc.disable, gc.enable):
            state()
            assert python_kernels(kernels) == [plain]
            assert gc.isenabled() is (state is gc.enable)
    finally:
        (gc.enable if was else gc.disable)()


@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
def test_one_whose_place_was_taken_for_a_while_is_not_told(library):
    """Under a mode torch goes on to run the one that is gone."""
    kernels = library(CompositeImplicitAutograd=plain)
    other = torch.library.Library(library.name, "IMPL")
    other.impl("f", made(1), "CompositeImplicitAutograd", allow_override=True)
    assert python_kernels(kernels)[0] is not plain
    other._destroy()
    assert python_kernels(kernels) == [None]


def test_what_register_autograd_was_given(library):
    library("(Tensor x) -> Tensor", CompositeExplicitAutograd=lambda x: RAN.append("x"))
    assert generated_backward(getattr(torch.ops, library.name).f.default) is None

    def backward(ctx, grad):
        RAN.append("backward")

    def setup(ctx, inputs, output):
        RAN.append("setup")

    torch.library.register_autograd(f"{library.name}::f", backward, setup_context=setup, lib=library.library)
    assert generated_backward(getattr(torch.ops, library.name).f.default) == (backward, setup)


@pytest.mark.parametrize("arguments", ["Tensor x, Tensor? y", "Tensor x, Generator g", "Tensor? x"])
def test_what_register_autograd_was_given_for_other_arguments(library, arguments):
    library(f"({arguments}) -> Tensor", CompositeExplicitAutograd=lambda *x: RAN.append("x"))

    def backward(ctx, grad):
        RAN.append("backward")

    torch.library.register_autograd(f"{library.name}::f", backward)
    assert generated_backward(getattr(torch.ops, library.name).f.default) == (backward, None)
