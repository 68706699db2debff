"""Devices in keys: by their names, or as the current one, where torch generates code that runs on whichever that is.

Such code is what `torch.compiler.config.compile_on_one_rank` asks for, since torch 2.14: a graph has no accelerator but
the current one (torch raises else), and the index of that is found when the code runs. So a rank on `cuda:3` may run
what a rank on `cuda:0` compiled, and their keys are equal.
"""

from __future__ import annotations

import torch


def for_current_device() -> bool:
    """Whether torch generates code for whichever device is current where it runs."""
    return bool(getattr(torch.compiler.config, "compile_on_one_rank", False))


def current_device() -> torch.device | None:
    """The current accelerator with its index, or None without one."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        return None
    return torch.device(accelerator.type, torch.accelerator.current_device_index())


def is_current(device: torch.device) -> bool:
    """Whether code that is generated for `device` runs on whichever is current."""
    return device.index is not None and for_current_device() and device == current_device()


def device_text(device: torch.device) -> str:
    return f"{device.type}:current" if is_current(device) else str(device)
