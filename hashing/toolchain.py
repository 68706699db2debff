"""What made the code: torch (to the file), Triton, Python, libc. The same on every host that shares them."""

from __future__ import annotations

import functools
import hashlib
import platform
import sys
import sysconfig
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
        "torch_files": _torch_files(),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cxx11_abi": torch.compiled_with_cxx11_abi(),
        "triton": _version("triton") or _version("pytorch-triton"),
        "python": f"{platform.python_implementation()} {sys.version_info.major}.{sys.version_info.minor}",
        "python_abi": sysconfig.get_config_var("SOABI") or "",
        "libc": " ".join(platform.libc_ver()),
        "os": sys.platform,
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _torch_files() -> str:
    """Digest of torch's files as installed, from the wheel's own list of sha256s (RECORD).

    torch's own `torch_key` reads and hashes its sources anew in every process (0.11 s); here a file is
    read only if its size or time says that it was changed after the installation.
    """
    root = Path(torch.__file__).parent
    try:
        distribution = metadata.distribution("torch")
        record = distribution.read_text("RECORD")
    except metadata.PackageNotFoundError:
        record = None
    if not record:
        return "tree " + _hash_tree(root)
    lines = sorted(line for line in record.splitlines() if line.startswith("torch/") and ",sha256=" in line)
    digest = hashlib.sha256("\n".join(lines).encode())
    for name, content in _edited(root, lines):
        digest.update(f"{name} {content}".encode())
    return "record " + digest.hexdigest()


def _edited(root: Path, lines: list[str]) -> list[tuple[str, str]]:
    """Python sources that are not as they were installed: (name, content digest)."""
    installed = _stat_time(root / "__init__.py")
    changed = []
    for line in lines:
        path, _, rest = line.partition(",")
        inner = path[len("torch/") :]
        if not inner.endswith(".py"):
            continue
        try:
            stat = (root / inner).stat()
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
    """A torch built from source: hash its Python as it is; of its libraries, size and time."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        digest.update(f"{name} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    for path in sorted((root / "lib").glob("*.so*")):
        stat = path.stat()
        digest.update(f"{path.name} {stat.st_size} {stat.st_mtime_ns}".encode())
    return digest.hexdigest()
