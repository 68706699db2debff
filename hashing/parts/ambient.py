"""The state around a compile that reaches the code: modes, autocast, defaults, precision, threads."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

import torch

from .. import torch_names

# Device types whose autocast state can matter; asked one by one, since torch lists them privately only.
_AUTOCAST_DEVICES = ("cpu", "cuda", "xpu", "hpu", "mps", "mtia", "privateuseone")


def ambient_state(uses_cpu: bool, uses_gpu: bool = True) -> dict[str, Any]:
    """Name -> plain value. `uses_cpu`: CPU kernels are specialised on the number of threads. `uses_gpu`: it
    matters there which order of attention's backends torch set of itself.
    """
    state: dict[str, Any] = {
        "grad_mode": torch.is_grad_enabled(),
        "inference_mode": torch.is_inference_mode_enabled(),
        "autocast": _autocast(),
        "autocast_cache": torch.is_autocast_cache_enabled(),
        "default_dtype": torch.get_default_dtype(),
        "default_device": torch.get_default_device(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "deterministic_warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "fill_uninitialized_memory": torch.utils.deterministic.fill_uninitialized_memory,
        "float32_matmul_precision": _read(torch.get_float32_matmul_precision),
        "matmul": _matmul(),
        "cudnn": {
            "enabled": torch.backends.cudnn.enabled,
            "benchmark": torch.backends.cudnn.benchmark,
            "deterministic": torch.backends.cudnn.deterministic,
            "allow_tf32": _read(lambda: torch.backends.cudnn.allow_tf32),
            "precision": _precision(torch.backends.cudnn),
            "conv_precision": _precision(getattr(torch.backends.cudnn, "conv", None)),
            "rnn_precision": _precision(getattr(torch.backends.cudnn, "rnn", None)),
        },
        # Inductor folds constants by computing them here.
        "flush_denormal": _flushes_denormals(),
        # The order in which an einsum of several operands is contracted.
        "einsum": {
            "available": _opt_einsum(),
            "enabled": torch.backends.opt_einsum.enabled,
            "strategy": torch.backends.opt_einsum.strategy,
        },
        "sdp": {
            "flash": torch.backends.cuda.flash_sdp_enabled(),
            "mem_efficient": torch.backends.cuda.mem_efficient_sdp_enabled(),
            "math": torch.backends.cuda.math_sdp_enabled(),
            "cudnn": torch.backends.cuda.cudnn_sdp_enabled(),
            "reduced_math": torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed(),
            **_attention(uses_gpu),
        },
        "mkldnn": {
            "enabled": torch.backends.mkldnn.enabled,
            "precision": _precision(torch.backends.mkldnn),
            "matmul_precision": _precision(getattr(torch.backends.mkldnn, "matmul", None)),
            "conv_precision": _precision(getattr(torch.backends.mkldnn, "conv", None)),
        },
        **({} if getattr(sys.modules[torch_names.CORE], torch_names.NNPACK)() else {"nnpack": False}),
        **_dtensors(),
    }
    if uses_cpu:
        state["threads"] = torch.get_num_threads()
    return state


def _attention(uses_gpu: bool) -> dict[str, Any]:
    """What `sdpa_kernel` may set and nothing public tells, where it is not as torch starts."""
    core, found = sys.modules[torch_names.CORE], {}
    if uses_gpu and torch.cuda.is_initialized():
        _settle_order()
    usual = torch_names.SDPA_ORDERS[: 1 if uses_gpu else 2]
    if (order := getattr(core, torch_names.SDPA_ORDER)()) not in usual:
        found["order"] = order
    if not getattr(core, torch_names.SDPA_OVERRIDEABLE)():
        found["overrideable"] = False
    if getattr(core, torch_names.SDPA_FLASH_4, bool)():
        found["flash_4"] = True
    return found


@functools.cache
def _settle_order() -> None:
    """On some GPUs (Hopper) torch puts cuDNN first, once, when a backend is first chosen for an attention there: before
    the first key or after it. So one is chosen here, of tensors that are none.
    """
    fake = getattr(importlib.import_module(torch_names.FAKE_TENSORS), torch_names.FAKE_MODE)
    alone = getattr(sys.modules[torch_names.CORE], torch_names.NO_TORCH_FUNCTION)
    with contextlib.suppress(Exception), alone(), fake(), torch.no_grad():
        one = torch.empty(1, 1, 8, 8, device="cuda", dtype=torch.float16)
        torch.nn.functional.scaled_dot_product_attention(one, one, one)


def _dtensors() -> dict[str, Any]:
    """How DTensors' operators are traced, where somebody has said how. Whether a tracker of random numbers is there
    already does not count: a trace makes one, and a hit does not.
    """
    found: dict[str, Any] = {}
    api, random, utils, moved, parallel = map(sys.modules.get, torch_names.OF_DTENSORS)
    dispatcher = getattr(getattr(api, "DTensor", None), "_op_dispatcher", None)  # none yet while it is imported
    if getattr(dispatcher, "_allow_implicit_replication", False):
        found["implicit_replication"] = True
    tracker = getattr(random, "_rng_tracker", None)
    if tracker is not None:
        is_torchs = type(tracker) is getattr(random, torch_names.RANDOM_TRACKER)
        if not is_torchs or not tracker.distribute_region_enabled:
            found["random"] = [type(tracker).__qualname__, bool(tracker.distribute_region_enabled)]
    explicit = getattr(getattr(utils, torch_names.EXPLICIT, None), "_local", None)
    if (active := getattr(explicit, "_active", None)) is not None:
        found["explicit"] = {name: value for name, value in vars(active).items() if isinstance(value, bool)}
    for name, usual in torch_names.HOW_MOVED.items():
        if getattr(moved, name, usual) != usual:
            found[name] = getattr(moved, name)
    options = getattr(parallel, "_cp_options", None)
    if options is not None and vars(options) != vars(type(options)()):
        found["context_parallel"] = {name: str(value) for name, value in vars(options).items()}
    return {"dtensors": found} if found else {}


def _opt_einsum() -> str | bool:
    """Its version, and what finds a path by torch's strategies: a program may put others of its searches there."""
    package: Any = torch.backends.opt_einsum.get_opt_einsum()
    if package is None:
        return False
    paths = vars(sys.modules.get("opt_einsum.paths", package))
    searches = {name: paths.get("_PATH_OPTIONS", {}).get(name) for name in ("auto", "greedy", "optimal")}
    found = {**searches, **paths.get("_AUTO_CHOICES", {})}
    return f"{package.__version__} {[f'{name} {_search(found[name])}' for name in sorted(found, key=str)]}"


def _search(value: Any) -> str:
    """Another one in each process, where it is none of opt_einsum's own."""
    if isinstance(value, functools.partial):
        return f"{_search(value.func)} {value.args} {value.keywords}"
    is_own = (getattr(value, "__module__", None) or "").startswith("opt_einsum.") and hasattr(value, "__qualname__")
    return f"{value.__module__}.{value.__qualname__}" if is_own else repr(value)


def _flushes_denormals() -> bool:
    """`torch.set_flush_denormal` has no getter; it sets the processor's flag for this thread."""
    return sys.float_info.min / 2 == 0.0


def _read(read: Callable[[], Any]) -> Any:
    """A setting of the older precision API: torch refuses to read it once the newer one was used."""
    try:
        return read()
    except RuntimeError:
        return "mixed"  # the newer settings, read beside it, say which


def _precision(backend: Any) -> Any:
    return _read(lambda: getattr(backend, "fp32_precision", None))


def _autocast() -> dict[str, torch.dtype]:
    enabled = {}
    for device in _AUTOCAST_DEVICES:
        try:
            if torch.is_autocast_enabled(device):
                enabled[device] = torch.get_autocast_dtype(device)
        except RuntimeError:
            continue  # this build of torch has no autocast for the device
    return enabled


def _matmul() -> dict[str, Any]:
    matmul = torch.backends.cuda.matmul
    return {
        "fp32_precision": _precision(matmul),
        "fp16_reduced": matmul.allow_fp16_reduced_precision_reduction,
        "bf16_reduced": matmul.allow_bf16_reduced_precision_reduction,
        "fp16_accumulation": matmul.allow_fp16_accumulation,
    }
