"""The list of checks, in the order in which they are told, each with the longest it may take. None of the checks."""

from __future__ import annotations

from .command import Check
from .devices import check_devices
from .server import check_server
from .settings import check_environment, check_settings, check_signing
from .store import check_folder, check_limits, check_torch_folder
from .toolchain import check_compiler, check_python, check_torch


def all_checks() -> tuple[Check, ...]:
    """seconds: between two findings of one check."""
    return (
        Check("python", check_python, 5.0),
        Check("torch", check_torch, 60.0),
        Check("compiler", check_compiler, 15.0),
        Check("settings", check_settings, 10.0),
        Check("environment", check_environment, 5.0),
        Check("signing", check_signing, 5.0),
        Check("folder", check_folder, 10.0),
        Check("inductor", check_torch_folder, 10.0),
        Check("devices", check_devices, 10.0),
        Check("limits", check_limits, 5.0),
        Check("server", check_server, 60.0),
    )
