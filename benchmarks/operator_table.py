"""Single operators of torch with sensible inputs: what `benchmarks.operators` times. Times nothing itself.

Some are written by Inductor as code of its own, some are handed on to a library, some fall back to torch's own kernel:
all are here, since a cache has to carry each kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Make:
    """Makes inputs of one dtype on one device. n: the length of a side, larger where the device is faster."""

    dtype: torch.dtype
    device: str
    n: int

    def __call__(self, *sizes: int) -> torch.Tensor:
        """Normally distributed values."""
        return torch.randn(sizes, device=self.device).to(self.dtype)

    def positive(self, *sizes: int) -> torch.Tensor:
        return (torch.rand(sizes, device=self.device) + 0.5).to(self.dtype)

    def index(self, below: int, *sizes: int) -> torch.Tensor:
        return torch.randint(below, sizes, device=self.device)

    def mask(self, *sizes: int) -> torch.Tensor:
        return torch.rand(sizes, device=self.device) < 0.5

    def image(self, channels: int = 16) -> torch.Tensor:
        return self(4, channels, self.n // 8, self.n // 8)


@dataclass(frozen=True, slots=True)
class Operator:
    """run: the call, of tensors alone. inputs: makes them. dtypes: a pattern of dtypes' names that it takes."""

    run: Callable[..., Any]
    inputs: Callable[[Make], tuple[Any, ...]]
    dtypes: str = ".*"


def _square(make: Make) -> tuple[Any, ...]:
    return (make(make.n, make.n),)


def _positive(make: Make) -> tuple[Any, ...]:
    return (make.positive(make.n, make.n),)


def _pair(make: Make) -> tuple[Any, ...]:
    return make(make.n, make.n), make(make.n, make.n)


def _triple(make: Make) -> tuple[Any, ...]:
    return *_pair(make), make(make.n, make.n)


def _batches(make: Make) -> tuple[Any, ...]:
    return make(8, make.n // 2, make.n // 2), make(8, make.n // 2, make.n // 2)


def _image(make: Make) -> tuple[Any, ...]:
    return (make.image(),)


def _heads(make: Make) -> tuple[Any, ...]:
    return tuple(make(2, 4, make.n // 2, 64) for _ in range(3))


FULL_PRECISION = "float(32|64)"  # factorisations and transforms have no kernels for less

OPERATORS: dict[str, Operator] = {
    # one value in, one out
    "relu": Operator(aten.relu.default, _square),
    "gelu": Operator(aten.gelu.default, _square),
    "silu": Operator(aten.silu.default, _square),
    "sigmoid": Operator(aten.sigmoid.default, _square),
    "tanh": Operator(aten.tanh.default, _square),
    "exp": Operator(aten.exp.default, _square),
    "log": Operator(aten.log.default, _positive),
    "sqrt": Operator(aten.sqrt.default, _positive),
    "rsqrt": Operator(aten.rsqrt.default, _positive),
    "erf": Operator(aten.erf.default, _square),
    "sin": Operator(aten.sin.default, _square),
    "lgamma": Operator(aten.lgamma.default, _positive),
    "clamp": Operator(lambda x: aten.clamp.default(x, -1.0, 1.0), _square),
    "pow.Tensor_Scalar": Operator(lambda x: aten.pow.Tensor_Scalar(x, 3), _square),
    "to.double": Operator(lambda x: x.to(torch.float64), _square),
    # several in, one out
    "add.Tensor": Operator(aten.add.Tensor, _pair),
    "mul.Tensor": Operator(aten.mul.Tensor, _pair),
    "div.Tensor": Operator(aten.div.Tensor, lambda m: (m(m.n, m.n), m.positive(m.n, m.n))),
    "maximum": Operator(aten.maximum.default, _pair),
    "where.self": Operator(aten.where.self, lambda m: (m.mask(m.n, m.n), *_pair(m))),
    "addcmul": Operator(aten.addcmul.default, _triple),
    "lerp.Tensor": Operator(aten.lerp.Tensor, _triple),
    "lt.Tensor": Operator(aten.lt.Tensor, _pair),
    # reductions and scans
    "sum.dim_IntList": Operator(lambda x: aten.sum.dim_IntList(x, [1]), _square),
    "mean.dim": Operator(lambda x: aten.mean.dim(x, [0]), _square),
    "var.correction": Operator(lambda x: aten.var.correction(x, [1], correction=1), _square),
    "amax": Operator(lambda x: aten.amax.default(x, [1]), _square),
    "argmax": Operator(lambda x: aten.argmax.default(x, 1), _square),
    "max.dim": Operator(lambda x: aten.max.dim(x, 1), _square),
    "logsumexp": Operator(lambda x: aten.logsumexp.default(x, [1]), _square),
    "softmax": Operator(lambda x: aten._softmax.default(x, 1, False), _square),
    "log_softmax": Operator(lambda x: aten._log_softmax.default(x, 1, False), _square),
    "cumsum": Operator(lambda x: aten.cumsum.default(x, 1), _square),
    "sort": Operator(lambda x: aten.sort.default(x, 1), _square),
    "topk": Operator(lambda x: aten.topk.default(x, 8), _square),
    # matrices
    "mm": Operator(aten.mm.default, _pair),
    "addmm": Operator(aten.addmm.default, lambda m: (m(m.n), *_pair(m))),
    "bmm": Operator(aten.bmm.default, _batches),
    "linear": Operator(aten.linear.default, lambda m: (*_pair(m), m(m.n))),
    "attention": Operator(torch.nn.functional.scaled_dot_product_attention, _heads),
    "cholesky": Operator(lambda x: torch.linalg.cholesky(x @ x.mT + x.shape[0] * _eye(x)), _square, FULL_PRECISION),
    "qr": Operator(torch.linalg.qr, lambda m: (m(64, 64),), FULL_PRECISION),
    "fft": Operator(torch.fft.rfft, _square, FULL_PRECISION),
    # images
    "convolution": Operator(
        lambda x, w: aten.convolution.default(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
        lambda m: (m.image(), m(16, 16, 3, 3)),
    ),
    "max_pool2d": Operator(lambda x: aten.max_pool2d_with_indices.default(x, [2, 2]), _image),
    "avg_pool2d": Operator(lambda x: aten.avg_pool2d.default(x, [2, 2]), _image),
    "adaptive_avg_pool2d": Operator(lambda x: aten._adaptive_avg_pool2d.default(x, [1, 1]), _image),
    "upsample_nearest2d": Operator(lambda x: aten.upsample_nearest2d.vec(x, None, [2.0, 2.0]), _image),
    "upsample_bilinear2d": Operator(lambda x: aten.upsample_bilinear2d.vec(x, None, False, [2.0, 2.0]), _image),
    "grid_sampler_2d": Operator(
        lambda x, grid: aten.grid_sampler_2d.default(x, grid, 0, 0, False), lambda m: (m.image(), m(4, 32, 32, 2))
    ),
    # norms
    "native_layer_norm": Operator(
        lambda x, w, b: aten.native_layer_norm.default(x, [x.shape[1]], w, b, 1e-5),
        lambda m: (m(m.n, m.n), m(m.n), m(m.n)),
    ),
    "native_group_norm": Operator(
        lambda x, w, b: torch.nn.functional.group_norm(x, 4, w, b), lambda m: (m.image(), m(16), m(16))
    ),
    "batch_norm": Operator(
        lambda x, mean, var: torch.nn.functional.batch_norm(x, mean, var), lambda m: (m.image(), m(16), m.positive(16))
    ),
    # moving and choosing
    "cat": Operator(lambda x, y: aten.cat.default([x, y], 1), _pair),
    "clone.transposed": Operator(lambda x: x.t().clone(memory_format=torch.contiguous_format), _square),
    "flip": Operator(lambda x: aten.flip.default(x, [1]), _square),
    "roll": Operator(lambda x: aten.roll.default(x, [3], [1]), _square),
    "constant_pad_nd": Operator(lambda x: aten.constant_pad_nd.default(x, [1, 2, 3, 4], 0.5), _square),
    "repeat": Operator(lambda x: aten.repeat.default(x, [2, 2]), _square),
    "tril": Operator(aten.tril.default, _square),
    "gather": Operator(lambda x, i: aten.gather.default(x, 1, i), lambda m: (m(m.n, m.n), m.index(m.n, m.n, 64))),
    "index_select": Operator(
        lambda x, i: aten.index_select.default(x, 0, i), lambda m: (m(m.n, m.n), m.index(m.n, m.n))
    ),
    "embedding": Operator(aten.embedding.default, lambda m: (m(m.n, 64), m.index(m.n, 8, 128))),
    "index_put": Operator(
        lambda x, i, y: aten.index_put.default(x, [i], y, True),
        lambda m: (m(m.n, 64), m.index(m.n, 128), m(128, 64)),
    ),
    "scatter_add": Operator(
        lambda x, i, y: aten.scatter_add.default(x, 0, i, y),
        lambda m: (m(m.n, 64), m.index(m.n, 128, 64), m(128, 64)),
    ),
    "masked_fill": Operator(
        lambda x, mask: aten.masked_fill.Scalar(x, mask, 0.0), lambda m: (m(m.n, m.n), m.mask(m.n, m.n))
    ),
    "nonzero": Operator(aten.nonzero.default, lambda m: (m.mask(m.n),)),
    # made of nothing, or changed in place
    "arange": Operator(lambda x: aten.add.Tensor(x, torch.arange(x.shape[1], device=x.device)), _square),
    "rand_like": Operator(aten.rand_like.default, _square),
    "dropout": Operator(lambda x: torch.nn.functional.dropout(x, 0.5), _square),
    "add_": Operator(aten.add_.Tensor, _pair),
    "copy_": Operator(aten.copy_.default, _pair),
    "foreach_add": Operator(lambda x, y: torch._foreach_add([x, y], [y, x]), _pair),
}


def _eye(x: torch.Tensor) -> torch.Tensor:
    return torch.eye(x.shape[0], dtype=x.dtype, device=x.device)
