"""What the cases on tensor subclasses begin with. No cases."""

import torch
import torch._inductor.config
from torch.testing._internal.two_tensor import TwoTensor


def kernels():
    """For what torch's operators, called one by one, refuse or count otherwise."""
    return torch._inductor.config.patch(fallback_by_default=False)


def numbers(rows=3):
    return torch.arange(rows * 4.0).reshape(rows, 4) / 7


def two(rows=3, requires_grad=False):
    return TwoTensor(numbers(rows), numbers(rows) * 2).requires_grad_(requires_grad)
