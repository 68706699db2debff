"""A GPU that is not there, in a process of its own. A compile for it is real, up to the kernel that nobody can launch.

Dynamo, AOTAutograd, Inductor's lowering, Triton and ptxas do what they do on an H100: none of them needs the device,
only its properties. What asks the driver is answered here, and in device.cpp. Tensors on the device are fake ones, or
(`with_memory`) lie in this machine's memory; what is loaded onto it is noted.

    ctypes.CDLL(os.environ["PRETENDED_GPU"], mode=ctypes.RTLD_GLOBAL)  # device.cpp, built by test_pretended_gpu.py
    import gpu
    gpu.pretend(1)
"""

from __future__ import annotations

import ctypes
import math
import os
import types
from typing import Any

import torch
import torch._dynamo.device_interface as interfaces
import torch._inductor.config
import torch.utils._triton
from torch._dynamo.eval_frame import skip_code
from torch._dynamo.utils import common_constant_types
from torch._subclasses import fake_tensor

# (path of a cubin, name of its function, shared memory, index of the device), in order.
loaded: list[tuple[Any, ...]] = []
launched: list[tuple[Any, ...]] = []  # (function, grid ...): nothing runs


class _Properties(types.SimpleNamespace):
    """As torch's: a constant for Dynamo."""

    __hash__ = object.__hash__


common_constant_types.add(_Properties)
_H100 = _Properties(
    name="NVIDIA H100 80GB HBM3",
    major=9,
    minor=0,
    total_memory=80 << 30,
    multi_processor_count=132,
    warp_size=32,
    regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    shared_memory_per_block=49152,
    shared_memory_per_block_optin=232448,
    shared_memory_per_multiprocessor=233472,
    L2_cache_size=50 << 20,
    gcnArchName="",
    is_integrated=0,
    uuid="a",
)


def pretend(index: int, count: int = 2, **others: Any) -> None:
    """From now on this process has `count` GPUs, and `index` is the current one. Not to be undone.

    others: what they have otherwise than an H100.
    """
    vars(_H100).update(others)
    ctypes.CDLL(os.environ["PRETENDED_GPU"]).pretend_current_device(index)
    _cuda(index, count)
    _accelerator(index)
    _interface(index, count)
    _inductor()
    _triton(index)


def with_memory(index: int) -> None:
    """From now on tensors can lie on the pretended GPU, in this machine's memory; operators compute, kernels do not."""
    ctypes.CDLL(os.environ["PRETENDED_MEMORY"]).pretend_memory(index)
    on_device = lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype, device="cuda")  # noqa: E731
    _put(torch._C._dynamo.guards, _empty_strided_cuda=on_device)
    _put(torch.cuda, Event=_Event)
    _put(interfaces.CudaInterface, Event=_Event)


def fake_mode() -> fake_tensor.FakeTensorMode:
    """In which tensors on the device can be made."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    return fake_tensor.FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)


def _put(owner: Any, **values: Any) -> None:
    for name, value in values.items():
        if isinstance(value, types.FunctionType):
            _as_torchs(value)
        setattr(owner, name, value)


def _as_torchs(function: Any) -> Any:
    """In the place of a function in C++: Dynamo does not see it, and nobody takes it for the user's."""
    function.__code__ = function.__code__.replace(co_filename=torch.__file__)
    function.__module__ = "torch"
    skip_code(function.__code__)
    return function


@_as_torchs
def _stream(index: int) -> Any:
    return torch.Stream(stream_id=0, device_index=index, device_type=1)


def _cuda(index: int, count: int) -> None:
    """Below torch.cuda: its own functions, some of which Dynamo knows, stay."""
    _put(
        torch.cuda,
        _initialized=True,
        _lazy_init=lambda: None,
        default_generators=tuple(torch.Generator() for _ in range(count)),
        _get_device_properties=lambda *_: _H100,
        current_stream=lambda *_: _stream(index),
        synchronize=lambda *_: None,
        get_rng_state=lambda *_: torch.zeros(16, dtype=torch.uint8),
        set_rng_state=lambda *_: None,
        is_bf16_supported=lambda *_, **__: True,
        is_current_stream_capturing=lambda: False,
        _exchange_device=lambda device: index,
        _maybe_exchange_device=lambda device: index,
    )
    if hasattr(fake_tensor, "init_gpu_context"):  # it makes a tensor on the device
        _put(fake_tensor, init_gpu_context=lambda *_: None)
    _put(torch.cuda.graphs, _cuda_isCurrentStreamCapturing=lambda: False)
    _put(
        torch._C,
        _cuda_getDevice=lambda: index,
        _cuda_setDevice=lambda device: None,
        _cuda_getDeviceCount=lambda: count,
        _cuda_getMemoryFraction=lambda device: 1.0,
    )
    for name, answer in {
        "_cuda_getCurrentRawStream": lambda device: 0,
        "_cuda_cudaCachingAllocator_is_enabled": lambda: True,
    }.items():
        if not hasattr(torch._C, name):  # in a build without CUDA
            _put(torch._C, **{name: answer})


def _accelerator(index: int) -> None:
    _put(
        torch.accelerator,
        is_available=lambda: True,
        current_accelerator=lambda check_available=False: torch.device("cuda"),
        current_device_index=lambda: index,
        current_stream=lambda *_: _stream(index),
    )


def _interface(index: int, count: int) -> None:
    cuda = interfaces.CudaInterface
    for name, answer in {
        "exchange_device": lambda device: index,
        "maybe_exchange_device": lambda device: index,
        "set_device": lambda device: None,
        "current_device": lambda: index,
        "is_available": lambda: True,
        "device_count": lambda: count,
        "synchronize": lambda *_: None,
        "get_raw_stream": lambda *_: 0,
        "get_compute_capability": lambda *_: 10 * _H100.major + _H100.minor,
        "get_device_properties": lambda *_: _H100,
    }.items():
        setattr(cuda, name, staticmethod(_as_torchs(answer)))
    cuda.Worker.get_device_properties = staticmethod(lambda *_: _H100)
    cuda.Worker.current_device = staticmethod(lambda: index)


def _inductor() -> None:
    """Its patterns are traced with real tensors on the device: attention's and padding's are left out."""
    from torch._inductor.fx_passes import fuse_attention, misc_patterns, pad_mm

    torch._inductor.config.joint_graph_constant_folding = False  # it computes on the device
    torch._inductor.config.compile_threads = 1
    _put(fuse_attention, _sfdp_init=lambda *_, **__: None)
    _put(pad_mm, _pad_mm_init=lambda *_, **__: None)
    _put(misc_patterns, _misc_patterns_init=lambda *_, **__: None)
    _put(torch._C, _StaticCudaLauncher=_Launcher)


# The module (since torch 2.13), the function, its registers, what it spills.
_ANSWER = (1, 1, 32, 0) if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13) else (1, 32, 0)


class _Event:
    """Of several configurations of a kernel the one whose grid is closest to 64 programs is the fastest."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record(self, *_: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: Any) -> float:
        return abs(math.log2(launched[-1][1] * launched[-1][2] / 64)) + 1 if launched else 1.0


class _Launcher:
    """torch's launcher in C++."""

    @staticmethod
    def _load_kernel(*what: Any) -> tuple[int, ...]:
        loaded.append(what)
        return _ANSWER

    @staticmethod
    def _launch_kernel(*what: Any) -> None:
        launched.append(what)

    @staticmethod
    def _unload_kernel(module: int) -> None:
        pass


def _triton(index: int) -> None:
    import triton
    from triton.backends.nvidia import driver

    def init(self: Any) -> None:
        self.utils = types.SimpleNamespace(
            load_binary=lambda *_: (0, 0, 0, 0, 1024),
            get_device_properties=lambda _: {"max_shared_mem": 232448, "multiprocessor_count": 132, "warpSize": 32},
        )
        self.launcher_cls = lambda *_, **__: lambda *_, **__: None
        self.get_current_device = lambda: index
        self.set_current_device = lambda device: None
        self.get_current_stream = lambda device: 0
        self.get_device_capability = lambda *_: (_H100.major, _H100.minor)

    driver.CudaDriver.__init__ = init
    driver.CudaDriver.is_active = staticmethod(lambda: True)
    _put(torch.utils._triton, has_triton=lambda *_, **__: True)
    triton.runtime.driver.set_active(driver.CudaDriver())
