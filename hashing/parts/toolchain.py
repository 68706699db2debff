"""What made the code: torch (to the file), Triton, Python, libc. The same on every host that shares them."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import platform
import sys
import sysconfig
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

# Seconds within which files of one installation are written; later means edited by hand.
_INSTALL_SLACK = 120.0


@functools.cache
def toolchain() -> dict[str, Any]:
    """Name -> plain value; computed once per process (about 20 ms)."""
    return {
        "torch": str(torch.__version__),
        "torch_git": torch.version.git_version,
        "torch_files": _files("torch", Path(torch.__file__).parent),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cxx11_abi": torch.compiled_with_cxx11_abi(),
        **_triton(),
        "python": f"{platform.python_implementation()} {sys.version_info.major}.{sys.version_info.minor}",
        "python_abi": sysconfig.get_config_var("SOABI") or "",
        "libc": " ".join(platform.libc_ver()),
        "libstdcxx": _libstdcxx(),
        "os": sys.platform,
        "optimize": sys.flags.optimize,  # generated code has assertions
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _triton() -> dict[str, Any]:
    return package_facts("triton", ("triton", "pytorch-triton", "pytorch-triton-rocm"))


def package_facts(package: str, distributions: Sequence[str]) -> dict[str, Any]:
    """A package by its version and files, without importing it. distributions: under which it may be installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return {package: None, f"{package}_files": None}
    for name in distributions:
        if (version := _version(name)) is not None:
            return {package: version, f"{package}_files": _files(name, Path(spec.origin).parent)}
    return {package: "unknown", f"{package}_files": "tree " + _hash_tree(Path(spec.origin).parent)}


def _libstdcxx(maps: Path = Path("/proc/self/maps")) -> str | None:
    """The C++ runtime that this process has loaded, by its versioned file name; kernels are linked to it."""
    try:
        lines = maps.read_text().splitlines()
    except OSError:
        return None
    loaded = {
        Path("/" + line.partition("/")[2].removesuffix(" (deleted)")) for line in lines if "/libstdc++.so" in line
    }
    return " ".join(sorted({path.resolve().name for path in loaded})) or None


def _files(name: str, root: Path) -> str:
    """Digest of a package's files as installed, from its wheel's own list of sha256s (RECORD).

    torch's own `torch_key` reads and hashes its sources anew in every process (0.11 s); here a file is
    read only if its size or time says that it was changed after the installation.
    """
    try:
        record = metadata.distribution(name).read_text("RECORD")
    except metadata.PackageNotFoundError:
        record = None
    prefix = f"{root.name}/"
    lines = sorted([line for line in (record or "").splitlines() if line.startswith(prefix) and ",sha256=" in line])
    if not lines:  # built from source, or installed as a link to one
        return "tree " + _hash_tree(root)
    digest = hashlib.sha256("\n".join(lines).encode())
    for inner, content in _edited(root, lines):
        digest.update(f"{inner} {content}".encode())
    return "record " + digest.hexdigest()


def _edited(root: Path, lines: list[str]) -> list[tuple[str, str]]:
    """Python sources that are not as they were installed: (name, content digest)."""
    installed = _stat_time(root / "__init__.py")
    changed = []
    for line in [line for line in lines if ".py,sha256=" in line]:
        path, _, rest = line.partition(",")
        inner = path.partition("/")[2]
        try:
            stat = os.stat(f"{root}/{inner}")  # noqa: PTH116 - of 2,000 files, before a first key
        except OSError:
            changed.append((inner, "gone"))
            continue
        if str(stat.st_size) != rest.rpartition(",")[2] or abs(stat.st_mtime - installed) > _INSTALL_SLACK:
            changed.append((inner, _content(root / inner, rest)))
    return [(name, content) for name, content in changed if content]


def _content(path: Path, rest: str) -> str:
    """The file's digest if it is not the recorded one, else empty (only its time differs)."""
    from base64 import urlsafe_b64encode

    actual = urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
    recorded = rest.partition("sha256=")[2].partition(",")[0]
    return "" if actual == recorded else actual


def _stat_time(path: Path) -> float:
    return path.stat().st_mtime


def _hash_tree(root: Path) -> str:
    """A package built from source: hash its Python as it is; of its libraries, size and time."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        digest.update(f"{name} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    for path in sorted(root.rglob("*.so*")):
        stat = path.stat()
        digest.update(f"{path.name} {stat.st_size} {stat.st_mtime_ns}".encode())
    return digest.hexdigest()
