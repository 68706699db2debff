"""Operators that an installed package defines in Python, under its own name: known by all of the package's files."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from warmgraph.backend.key import packages

from .both_keys import trace

MODULE = """
import torch
LIBRARY = torch.library.Library("wgpack", "FRAGMENT")
LIBRARY.define("twice(Tensor x) -> Tensor")
LIBRARY.impl("twice", lambda x: x * {by}, "CompositeImplicitAutograd")
"""
X = torch.ones(3)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes the package, as installed an hour ago."""
    trace(torch.sin, X)  # Inductor's table of decompositions takes what is registered when it is loaded
    folder = tmp_path / "wgpack"
    folder.mkdir()
    installed = tmp_path / "wgpack-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: wgpack\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(by: int, *, new: bool = False) -> Path:
        file = folder / "__init__.py"
        file.write_text(MODULE.format(by=by))
        if not new:
            os.utime(file, (packages._BEGAN - 3600,) * 2)
        packages._digest.cache_clear()
        importlib.invalidate_caches()
        return installed

    yield write
    packages._digest.cache_clear()
    module = sys.modules.pop("wgpack", None)
    if module is not None:
        module.LIBRARY._destroy()


def keyed() -> Any:
    (graph,) = trace(lambda x: torch.ops.wgpack.twice(x) + 1, X).graphs
    return graph


def test_the_files_of_a_package_are_in_the_key(package: Any) -> None:
    package(2)
    importlib.import_module("wgpack")
    first = keyed()
    assert first.id is not None, first.why
    assert keyed().id == first.id
    package(3)
    assert keyed().id not in (None, first.id)
    package(3, new=True)
    assert "package wgpack, which defines operators in Python, was edited since this process began" in keyed().why


def test_where_no_package_is_installed_it_is_refused(package: Any) -> None:
    installed = package(2)
    (installed / "METADATA").unlink()
    installed.rmdir()
    importlib.invalidate_caches()
    importlib.import_module("wgpack")
    assert "torch does not hand out" in keyed().why
