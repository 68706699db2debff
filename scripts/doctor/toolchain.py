"""Checks of Python, torch, Triton, the backend's entry point and the compiler. Imports none of them here."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .command import Finding, ok, problem, warning

PROBE_SECONDS = 55.0  # for `import torch` from a cold network disk; below the check's own limit, so that it is ended
_COMPILER_SECONDS = 10.0


def check_python() -> Iterator[Finding]:
    """torch.compile itself refuses some Pythons; `requires-python` refuses the old ones."""
    mine = f"{platform.python_implementation()} {platform.python_version()}, warmgraph {_version('warmgraph')}"
    free_threaded = sysconfig.get_config_var("Py_GIL_DISABLED") == 1
    if sys.version_info >= (3, 15) or (free_threaded and sys.version_info < (3, 13, 3)):
        yield problem("python", mine, "torch.compile refuses this Python: use one from 3.10 to 3.14")
    else:
        yield ok("python", mine)
    yield from _bytecode(__spec__.cached)


def _bytecode(file: str | None) -> Iterator[Finding]:
    """file: where this module's own should be. An image that is built without any has none of the others either."""
    if file is not None and not sys.flags.optimize and not Path(file).exists():
        package = Path(__file__).parents[2]
        yield warning(
            "bytecode",
            "warmgraph's modules have none: each process compiles 230 files, a quarter of a second",
            f"when the image is built: python -m compileall -q {package}/{{hashing,cache,backend,scripts}}",
        )


def check_torch() -> Iterator[Finding]:
    """By importing it, in a process of its own."""
    if _version("torch") is None:
        yield problem("torch", "not installed in this Python", "install it here: torch.compile is what is cached")
        return
    command = [sys.executable, "-m", "warmgraph.scripts.doctor.probe"]
    # Off: loading the backend must not wait for the server, which has a check of its own.
    environment = os.environ | {"WARMGRAPH_MODE": "off"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        yield problem("torch", f"not imported within {PROBE_SECONDS:g} s", "is it on a slow or silent network disk?")
        return
    try:
        found = json.loads(done.stdout.strip().splitlines()[-1]) if done.returncode == 0 else None
    except (ValueError, IndexError):
        found = None
    if found is None:
        said = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        yield problem("torch", f"cannot be imported: {said}", 'see all of it: python -c "import torch"')
        return
    yield from _judged(found)


def _judged(found: dict[str, Any]) -> Iterator[Finding]:
    about = f"torch {found['version']} ({found['built_for']})"
    if found["unsupported"] is not None:
        yield problem("torch", f"nothing is cached: {found['unsupported']}", "docs/versions.md says which it knows")
    elif found["caches_disabled"]:
        yield problem("torch", f"{about}, with its caches disabled", "unset TORCHINDUCTOR_FORCE_DISABLE_CACHES")
    elif found["untested"] is not None:
        advice = "nothing that is needed has moved, so it is used; `warmgraph verify` and WARMGRAPH_VERIFY compare hits"
        yield warning("torch", found["untested"], advice)
    else:
        yield ok("torch", about)
    if not found["listed"]:
        yield problem(
            "backend",
            'torch does not list "warmgraph": its entry point is not installed',
            "install warmgraph with pip, in the environment of torch; a copied folder has no entry point",
        )
    elif found["entry_point"] is not None:
        yield problem("backend", f"it cannot be loaded: {found['entry_point']}", "upgrade warmgraph or pin torch")
    else:
        yield ok("backend", 'torch lists and loads "warmgraph"')
    if found["unsupported"] is None:
        why = found["frames"]
        yield ok("frames", "restored" if why is None else f"traced in each process: {why}")
    yield from _judged_gpu(found)


def _judged_gpu(found: dict[str, Any]) -> Iterator[Finding]:
    triton, devices = found["triton"], found["devices"]
    if triton["error"] is not None:
        yield warning("triton", f"cannot be imported: {triton['error']}", "install the one that your torch names")
    elif devices and triton["version"] is None:
        yield problem("triton", "not installed, and there is a GPU", "install the one that your torch names")
    else:
        yield ok("triton", triton["version"] or "not installed, not needed without a GPU")
    if devices:
        kinds = ", ".join(f"{devices.count(name)} x {name}" for name in dict.fromkeys(devices))
        yield ok("gpu", kinds)


def check_compiler() -> Iterator[Finding]:
    """Of a miss only: a hit needs none. Inductor asks CXX, else g++."""
    name = os.environ.get("CXX", "g++")
    advice = "only a miss needs it, on a CPU and for Triton's launchers: apt-get install g++, or set CXX"
    found = shutil.which(name)
    if found is None:
        yield warning("compiler", f"{name} is not on PATH: hits work, misses fail to compile", advice)
        return
    try:
        done = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=_COMPILER_SECONDS)
        said = (done.stdout.splitlines() or done.stderr.splitlines() or [""])[0]
        failed = f"status {done.returncode}: {said}" if done.returncode else None
    except (OSError, subprocess.TimeoutExpired) as error:
        said, failed = "", str(error)
    if failed is not None:
        yield warning("compiler", f"{found} does not run: {failed}", advice)
        return
    yield ok("compiler", said or found)
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        yield warning("compiler", f"there is no Python.h in {headers}", "a miss needs it: apt-get install python3-dev")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
