"""What is there beside the CPU, and the default device. Code may ask for it, and Dynamo folds in what it is told, under
no guard.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch._dynamo import convert_frame, graph_bytecode_inputs
from torch._dynamo.source import CurrentStreamSource, TorchFunctionModeStackSource
from torch._dynamo.utils import clear_torch_function_mode_stack, set_torch_function_mode_stack
from torch._dynamo.variables.torch_function import TorchFunctionModeStackVariable
from torch.utils._device import DeviceContext

from .plain import NotServed, Refused

# What tells one GPU from another of its kind: in no record, or no two hosts would share one.
_OF_ONE = frozenset("uuid pci_bus_id pci_device_id pci_domain_id".split())


def modes_around() -> list[Any]:
    """Modes of `__torch_function__` around a frame, outermost first, which Dynamo takes down while it compiles (since
    2.13): those of `torch.set_default_device` and `with torch.device(...)`, once others are refused.
    """
    return list(convert_frame.torch_function_mode_stack_state_mgr.stack)


def refuse_other_modes() -> None:
    """Raises Refused."""
    TorchFunctionModeStackVariable.reset()  # places in the stack are counted as if a frame before had not moved them
    if torch._C._len_torch_function_stack() or any(type(mode) is not DeviceContext for mode in modes_around()):
        raise Refused("a __torch_function__ mode is on")


def mode_at(source: TorchFunctionModeStackSource) -> Any:
    """Raises Refused where the trace put a default device among the modes, or took one away."""
    if source._get_index() != source.ind:
        raise Refused("it sets the default device")
    return modes_around()[source.ind]


@contextlib.contextmanager
def modes_up() -> Iterator[None]:
    """As torch builds guards, which look at the modes around a frame."""
    with contextlib.ExitStack() as stack:
        if modes_around():
            stack.enter_context(convert_frame.torch_function_mode_stack_state_mgr.temp_restore_stack())
        yield


@contextlib.contextmanager
def modes_down() -> Iterator[None]:
    """As while Dynamo traces."""
    modes = torch.overrides._get_current_function_mode_stack()
    clear_torch_function_mode_stack()
    try:
        yield
    finally:
        set_torch_function_mode_stack(modes)


def refuse_devices() -> None:
    """Raises NotServed where there is something that no record speaks of: anything but CPUs and NVIDIA's GPUs."""
    others = {"XPU": torch.xpu, "MPS": torch.backends.mps, "MTIA": torch.mtia}
    found = [f"an {name}" for name, module in others.items() if module.is_available()]
    if (own := torch._C._get_privateuse1_backend_name()) != "privateuseone":
        found.append(f"a device {own!r}")
    if (count := gpu_count()) and torch.version.hip:
        found.insert(0, f"{count} GPU{'s' * (count > 1)} of AMD's")
    if found:
        raise NotServed(f"this host has {', '.join(found)}: frames are restored on CPUs and NVIDIA's GPUs only")
    if count and not torch.cuda.is_available():
        raise NotServed("this host has a GPU, and CUDA does not start")
    if count and torch.cuda.is_current_stream_capturing():
        raise NotServed("a CUDA graph is being captured")


def gpu_count() -> int:
    """Starts no driver: NVML is asked."""
    return _count(os.environ.get("CUDA_VISIBLE_DEVICES"))


@functools.lru_cache(maxsize=4)
def _count(visible: str | None) -> int:
    return int(torch.cuda.device_count())


def devices_text() -> str:
    """All GPUs that this process sees, and which is current. Starts CUDA, as any trace does where there is one."""
    if not gpu_count():
        return ""
    index = torch.cuda.current_device()
    default = torch.cuda.current_stream(index).stream_id == 0
    return f"{index} {default} {_properties(gpu_count())}"


@functools.cache
def _properties(count: int) -> str:
    found = []
    for index in range(count):
        one = torch.cuda.get_device_properties(index)
        names = (name for name in dir(one) if not name.startswith("_") and name not in _OF_ONE)
        found.append([(name, str(getattr(one, name))) for name in names])
    return f"{torch.version.cuda} {torch.backends.cudnn.version()} {found}"


def told_of_devices() -> frozenset[str]:
    """Functions whose answers `devices_text` tells here."""
    count, found = gpu_count(), []
    if count:
        found.append("torch.backends.cudnn.version")
    if all(torch.cuda.get_device_capability(index)[0] >= 8 for index in range(count)):  # an older one is tried
        found.append("torch.cuda.is_bf16_supported")
    return frozenset(found)


def of_one_device() -> frozenset[str]:
    """Names by which code would ask which GPU of its kind it has; none where there is none."""
    return _OF_ONE if gpu_count() else frozenset()


def is_pinned(value: torch.Tensor) -> bool:
    return bool(gpu_count() and value.device.type == "cpu" and value.is_pinned())


def has_user_objects() -> bool:
    """Whether the graph just traced refers to objects of this process (streams).

    Where there is a GPU, Dynamo lists the current stream with each graph; the bytecode itself asks for it anew.
    """
    found: Any = graph_bytecode_inputs.index_to_bytecode_constructor  # a list since 2.15
    return not all(map(_asks_for_current_stream, found.values() if isinstance(found, dict) else found))


def _asks_for_current_stream(constructor: Any) -> bool:
    held = [cell.cell_contents for cell in constructor.__closure__ or ()]
    return len(held) == 1 and isinstance(held[0], CurrentStreamSource)
