"""What is there beside the CPU. Code may ask for it, and Dynamo folds in what it is told, under no guard."""

from __future__ import annotations

import functools
import os
from typing import Any

import torch
from torch._dynamo import graph_bytecode_inputs
from torch._dynamo.source import CurrentStreamSource

from .plain import NotServed

# What tells one GPU from another of its kind: in no record, or no two hosts would share one.
_OF_ONE = frozenset("uuid pci_bus_id pci_device_id pci_domain_id".split())


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
