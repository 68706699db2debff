"""The fields of the parts that are `name: value` lines: `compiler`, `ambient`, `toolchain`, `machine`, `code`.

Each is listed by the name of its line. A line that is not listed fails the suite.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed.tensor._random as dtensors_random
import torch.distributed.tensor._redistribute as dtensors_moved
import torch.distributed.tensor._utils as dtensors_utils
import torch.distributed.tensor.experimental._attention as context_parallel
from torch.backends import opt_einsum
from torch.distributed.tensor import DTensor

Change = Callable[[], contextlib.AbstractContextManager[Any]]


@contextlib.contextmanager
def _calling(change: Callable[..., Any], value: Any, old: Any) -> Iterator[None]:
    change(value)
    try:
        yield
    finally:
        change(old)


def _call(change: Callable[..., Any], value: Any, old: Any) -> Change:
    return lambda: _calling(change, value, old)


def _attribute(owner: Any, name: str, value: Any) -> Change:
    @contextlib.contextmanager
    def change() -> Iterator[None]:
        old = getattr(owner, name)
        setattr(owner, name, value)
        try:
            yield
        finally:
            setattr(owner, name, old)

    return change


@contextlib.contextmanager
def _high_precision() -> Iterator[None]:
    """The older setting; putting it back alone would leave the newer ones at another value than before."""
    old = _MATMUL.fp32_precision, _MKLDNN.matmul.fp32_precision
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")
        _MATMUL.fp32_precision, _MKLDNN.matmul.fp32_precision = old


@contextlib.contextmanager
def _autocast_on(device: str) -> Iterator[None]:
    torch.set_autocast_enabled(device, True)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device, False)


_CUDNN, _MATMUL, _MKLDNN = torch.backends.cudnn, torch.backends.cuda.matmul, torch.backends.mkldnn
_THREADS = torch.get_num_threads()

# torch's precisions inherit from one another where they are not set.
_PRECISIONS = """
    float32_matmul_precision matmul.fp32_precision cudnn.precision cudnn.conv_precision cudnn.rnn_precision
    cudnn.allow_tf32 mkldnn.precision mkldnn.matmul_precision mkldnn.conv_precision
""".split()

# Name of a line -> how to change it alone, and in what surroundings. Where torch itself ties settings together
# (the older precision API), the other lines that move are named too.
AMBIENT: dict[str, tuple[Change, Change | None, tuple[str, ...]]] = {
    "grad_mode": (torch.no_grad, None, ()),
    "inference_mode": (torch.inference_mode, torch.no_grad, ()),
    **{
        f"autocast.{device}": (lambda device=device: _autocast_on(device), None, ("autocast",))
        for device in ("cpu", "cuda", "xpu", "hpu", "mps", "mtia", "privateuseone")
    },
    "autocast_cache": (_call(torch.set_autocast_cache_enabled, False, True), None, ()),
    "default_dtype": (_call(torch.set_default_dtype, torch.float64, torch.float32), None, ()),
    "default_device": (lambda: torch.device("meta"), None, ()),
    "deterministic": (_call(torch.set_deterministic_debug_mode, 2, 0), None, ()),
    "deterministic_warn_only": (
        _call(torch.set_deterministic_debug_mode, 1, 2),
        _call(torch.set_deterministic_debug_mode, 2, 0),
        (),
    ),
    "flush_denormal": (_call(torch.set_flush_denormal, True, False), None, ()),
    "fill_uninitialized_memory": (_attribute(torch.utils.deterministic, "fill_uninitialized_memory", False), None, ()),
    "float32_matmul_precision": (
        _high_precision,
        None,
        ("matmul.fp32_precision", "mkldnn.matmul_precision"),
    ),
    "matmul.fp32_precision": (
        _attribute(_MATMUL, "fp32_precision", "tf32"),
        None,
        ("float32_matmul_precision",),
    ),
    "matmul.fp16_reduced": (_attribute(_MATMUL, "allow_fp16_reduced_precision_reduction", False), None, ()),
    "matmul.bf16_reduced": (_attribute(_MATMUL, "allow_bf16_reduced_precision_reduction", False), None, ()),
    "matmul.fp16_accumulation": (_attribute(_MATMUL, "allow_fp16_accumulation", True), None, ()),
    "cudnn.enabled": (_attribute(_CUDNN, "enabled", False), None, ()),
    "cudnn.benchmark": (_attribute(_CUDNN, "benchmark", True), None, ()),
    "cudnn.deterministic": (_attribute(_CUDNN, "deterministic", True), None, ()),
    "cudnn.allow_tf32": (
        _attribute(_CUDNN, "allow_tf32", False),
        None,
        ("cudnn.conv_precision", "cudnn.rnn_precision", "cudnn.precision"),
    ),
    "cudnn.precision": (_attribute(_CUDNN, "fp32_precision", "ieee"), None, tuple(_PRECISIONS)),
    "cudnn.conv_precision": (_attribute(_CUDNN.conv, "fp32_precision", "ieee"), None, ("cudnn.allow_tf32",)),
    "cudnn.rnn_precision": (_attribute(_CUDNN.rnn, "fp32_precision", "ieee"), None, ("cudnn.allow_tf32",)),
    "einsum.available": (_attribute(opt_einsum.m, "get_opt_einsum", lambda: torch), None, ()),
    "einsum.enabled": (_attribute(opt_einsum.m, "enabled", 2), None, ()),
    "einsum.strategy": (_attribute(opt_einsum.m, "strategy", "greedy"), None, ()),
    "sdp.flash": (_call(torch.backends.cuda.enable_flash_sdp, False, True), None, ()),
    "sdp.mem_efficient": (_call(torch.backends.cuda.enable_mem_efficient_sdp, False, True), None, ()),
    "sdp.math": (_call(torch.backends.cuda.enable_math_sdp, False, True), None, ()),
    "sdp.cudnn": (_call(torch.backends.cuda.enable_cudnn_sdp, False, True), None, ()),
    "sdp.reduced_math": (_call(torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp, True, False), None, ()),
    "sdp.order": (_call(torch._C._set_sdp_priority_order, [0, 1, 2, 3, 4], [1, 2, 0, 3, 4]), None, ()),
    "sdp.overrideable": (_call(torch._C._set_sdp_use_overrideable, False, True), None, ()),
    **(
        {"sdp.flash_4": (_call(torch._C._set_sdp_use_fa4, True, False), None, ())}
        if hasattr(torch._C, "_set_sdp_use_fa4")
        else {}
    ),
    "dtensors.implicit_replication": (
        _attribute(DTensor._op_dispatcher, "_allow_implicit_replication", True),
        None,
        (),
    ),
    "dtensors.random": (
        _attribute(dtensors_random, "_rng_tracker", types.SimpleNamespace(distribute_region_enabled=False)),
        None,
        (),
    ),
    "dtensors.explicit": (dtensors_utils.ExplicitRedistributionContext, None, ()),
    "dtensors._FORCE_MIN_COST_REDISTRIBUTION_PLAN": (
        _attribute(dtensors_moved, "_FORCE_MIN_COST_REDISTRIBUTION_PLAN", True),
        None,
        (),
    ),
    "dtensors._DISABLE_REDISTRIBUTE_TRANSFORM_OPTIMIZATION": (
        _attribute(dtensors_moved, "_DISABLE_REDISTRIBUTE_TRANSFORM_OPTIMIZATION", True),
        None,
        (),
    ),
    "dtensors.context_parallel": (_attribute(context_parallel._cp_options, "enable_load_balance", False), None, ()),
    "mkldnn.enabled": (_attribute(_MKLDNN, "enabled", False), None, ()),
    "mkldnn.precision": (
        _attribute(_MKLDNN, "fp32_precision", "ieee"),
        None,
        tuple(_PRECISIONS),
    ),
    "mkldnn.matmul_precision": (
        _attribute(_MKLDNN.matmul, "fp32_precision", "bf16"),
        None,
        ("float32_matmul_precision",),
    ),
    "mkldnn.conv_precision": (_attribute(_MKLDNN.conv, "fp32_precision", "ieee"), None, ()),
    "threads": (_call(torch.set_num_threads, _THREADS + 1, _THREADS), None, ()),
}

# What `hashing.toolchain` and `hashing.machine` say; the tests put another value in each one's place.
TOOLCHAIN = """
    torch torch_git torch_files cuda hip cxx11_abi triton triton_files python python_abi libc libstdcxx optimize os
""".split()
CPU = "architecture flags capability capability_override onednn_override".split()
GPU = "name architecture capability multiprocessors".split()
MACHINE = "devices current_device cpu gpus driver triton".split()

# Lines of `compiler` that are no setting of torch's.
COMPILER = "backend format compiler.cache_key_tag inductor.trace.provenance_tracking_level sm_carveout".split()
COMPILER += ["dynamo.custom_ops_profile"]


def another(value: Any) -> Any:
    """A value unlike `value`, of its type where that is a plain one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, (list, tuple)):
        return type(value)([*value, "x"])
    if isinstance(value, dict):
        return {**value, "x": 1}
    if isinstance(value, (set, frozenset)):
        return value | {"x"}
    return "x"
