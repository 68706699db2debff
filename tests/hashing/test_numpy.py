"""Calls of numpy's functions in a graph: known by torch's own version of the function, or refused. No graph is run."""

import numpy
import pytest
import torch
import torch._numpy as numpys
from torch._dynamo.utils import numpy_to_tensor_wrapper
from warmgraph.hashing import Uncacheable
from warmgraph.hashing.encoding.targets import identify


def test_a_function_of_torchs_numpy_is_its_name():
    """Under which torch has it; two functions are two."""
    assert identify(numpy_to_tensor_wrapper(numpys.round)).startswith("numpy torch._numpy.round by default ")
    assert identify(numpy_to_tensor_wrapper(numpys.sin)) != identify(numpy_to_tensor_wrapper(numpys.cos))
    assert identify(numpy_to_tensor_wrapper(numpys.linalg.norm)).startswith("numpy torch._numpy.linalg.norm by ")


def test_the_dtypes_that_a_user_chose_for_numpy_are_in_its_name():
    """`torch._dynamo.config.numpy_default_float` decides what the mean of integers is, and is in no other part."""
    before = torch._numpy._dtypes_impl.default_dtypes()
    names = set()
    try:
        for chosen in ("numpy", "pytorch"):
            numpys.set_default_dtype(chosen)
            names.add(identify(numpy_to_tensor_wrapper(numpys.mean)))
    finally:
        torch._numpy._dtypes_impl._default_dtypes = before
    assert len(names) == 2


def spoofed(x):
    return x


spoofed.__module__, spoofed.__qualname__, spoofed.__name__ = "torch._numpy._funcs_impl", "round", "round"


class Own(numpy_to_tensor_wrapper):
    """Calls something else."""


@pytest.mark.parametrize(
    "target",
    [
        numpy_to_tensor_wrapper(lambda x: x),
        numpy_to_tensor_wrapper(spoofed),
        numpy_to_tensor_wrapper(numpy.sin),
        numpy_to_tensor_wrapper(numpys.random.rand),
        Own(numpys.round),
    ],
    ids=["a lambda", "a function that claims torch's name", "numpy's own", "random numbers", "a subclass"],
)
def test_anything_else_is_refused(target):
    """What is not torch's own version of a function without state has no name that fixes it."""
    with pytest.raises(Uncacheable):
        identify(target)
