"""What a result was measured on: versions, CPU and, where one is used, the GPU with its driver. Measures nothing."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from .warm_start import machine


def machine_with(device: str) -> dict[str, Any]:
    """Names and versions for a result made on `device` (`cpu` or `cuda`)."""
    import torch

    found = machine()
    versions = {name: version(name) for name in ("triton", "transformers")}
    found |= {name: number for name, number in versions.items() if number is not None}
    if device == "cuda":
        facts = torch.cuda.get_device_properties(torch.cuda.current_device())
        found["gpu"] = {
            "name": facts.name,
            "count": torch.cuda.device_count(),
            "capability": f"{facts.major}.{facts.minor}",
            "memory": facts.total_memory,
            "multiprocessors": facts.multi_processor_count,
            "runtime": torch.version.cuda or torch.version.hip,
            "driver": driver(),
        }
    return found


def version(name: str) -> str | None:
    """The version of an installed distribution; None where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def driver(proc: Path = Path("/proc/driver/nvidia/version")) -> str | None:
    """The driver's version, from nvidia-smi or the kernel module; None where neither says (another maker's)."""
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        said = subprocess.run(query, capture_output=True, text=True, timeout=60).stdout.split()
        if said:
            return said[0]
    try:
        found = re.search(r"Module\s+(\d[\d.]+)", proc.read_text())
    except OSError:
        return None
    return found.group(1) if found else None
