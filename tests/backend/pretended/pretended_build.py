"""What a process with a pretended GPU needs: its libraries in C++, for the torch at hand, and Triton."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]


def built(name: str, folder: Path) -> Path:
    """NAME.cpp as a library in `folder`."""
    at, made = Path(torch.__file__).parent, folder / f"{name}.so"
    include = [f"-I{at / 'include'}", f"-I{at / 'include' / 'torch' / 'csrc' / 'api' / 'include'}"]
    link = [f"-L{at / 'lib'}", f"-Wl,-rpath,{at / 'lib'}", "-lc10", "-ltorch_cpu"]
    command = ["g++", "-std=c++20", "-shared", "-fPIC", *include, str(FOLDER / f"{name}.cpp"), "-o", str(made), *link]
    subprocess.run(command, check=True)
    return made


def environment(folder: Path, **libraries: Path) -> dict[str, str]:
    """folder: for what a test of its own does not share. libraries: by variable."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WARMGRAPH_", "TRITON_"))}
    return kept | {
        "WARMGRAPH_DIR": str(folder / "store"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_DEFAULT_FP_FUSION": "1",  # Triton 3.9 warns where it is not said
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(FOLDER / "workers"), *_triton_path(folder)]),
        **{variable: str(library) for variable, library in libraries.items()},
    }


def _triton_path(folder: Path) -> list[str]:
    """Where Triton is, if it does not come with torch: `make triton` puts it there, where it changes no other test.

    By a path as installed packages have.
    """
    if importlib.util.find_spec("triton"):
        return []
    made = ROOT / ".build" / "triton"
    if not (made / "triton").is_dir():
        pytest.skip("no Triton: make triton")
    link = folder / "site-packages"
    if not link.exists():
        link.symlink_to(made)
    return [str(link)]
