"""Packages whose Python is known by all of their files: operators that they define, functions that no walk follows."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from warmgraph.backend.key import custom_code
from warmgraph.hashing import Uncacheable, source_digest
from warmgraph.hashing.source_code import packages

from .both_keys import trace

MODULE = """
import importlib.util
import torch
LIBRARY = torch.library.Library("wgpack", "FRAGMENT")
def around(function):
    return lambda x: function(x)
def fast(x):
    return x * 5 if importlib.util.find_spec("nothing") is None else x
def slow(x):
    return x * 6 if importlib.util.find_spec("nothing") is None else x
LIBRARY.define("twice(Tensor x) -> Tensor")
LIBRARY.impl("twice", lambda x: {kernel}, "CompositeImplicitAutograd")
"""
UNSEEN = "x * {by} if importlib.util.find_spec('nothing') is None else x"  # what no walk follows
X = torch.ones(3)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes the package, as installed before this process began, or edited since."""
    trace(torch.sin, X)  # Inductor's table of decompositions takes what is registered when it is loaded
    folder = tmp_path / "wgpack"
    folder.mkdir()
    installed = tmp_path / "wgpack-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: wgpack\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(by: int, *, new: bool = False, kernel: str = UNSEEN) -> Path:
        file = folder / "__init__.py"
        file.write_text(MODULE.format(kernel=kernel.format(by=by)))
        monkeypatch.setattr(packages, "_BEGAN", time.time() + (-60 if new else 60))
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


def keyed_with(kernel: Any) -> Any:
    """With another kernel for the package's operator."""
    mine = torch.library.Library("wgpack", "IMPL")
    try:
        mine.impl("twice", kernel, "AutogradCPU")
        return keyed()
    finally:
        mine._destroy()


def test_the_files_of_a_package_are_in_the_key(package: Any) -> None:
    package(2)
    importlib.import_module("wgpack")
    first = keyed()
    assert first.id is not None, first.why
    assert keyed().id == first.id
    package(3)
    assert keyed().id not in (None, first.id)
    package(3, new=True)
    assert "package wgpack, whose Python is known by its files, was edited since this process began" in keyed().why


def test_what_is_edited_before_it_is_imported_is_refused(package: Any, tmp_path: Path) -> None:
    package(2)
    importlib.import_module("wgpack")
    late = tmp_path / "wgpack" / "late.py"
    late.write_text("BY = 2")
    assert keyed().id is not None
    late.write_text("BY = 33")
    os.utime(late, (time.time() + 90,) * 2)  # `_BEGAN` is a minute ahead
    importlib.import_module("wgpack.late")
    try:
        assert "was edited since this process began" in keyed().why
    finally:
        del sys.modules["wgpack.late"]


def test_where_no_package_is_installed_it_is_refused(package: Any) -> None:
    installed = package(2)
    (installed / "METADATA").unlink()
    installed.rmdir()
    importlib.invalidate_caches()
    importlib.import_module("wgpack")
    assert "depends on more than its code" in keyed().why


UNFOLLOWED = """
import importlib.util

def asks(x):
    return x * {by} if importlib.util.find_spec("nothing") is None else x

def helper(x):
    return asks(x)

def around(function):
    def inner(x):
        return function(x)
    return inner

held = around(asks)

class First:
    pass

class Second:
    pass

device = First()
"""


@pytest.fixture
def library(package: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A module of a package that is known by its files, whose functions no walk could follow."""
    monkeypatch.setattr(packages, "_UNFOLLOWED", frozenset({"wgpack"}))
    package(2)
    file = tmp_path / "wgpack" / "asking.py"
    file.write_text(UNFOLLOWED.format(by=2))
    yield importlib.import_module("wgpack.asking")
    sys.modules.pop("wgpack.asking", None)


def test_functions_of_a_known_package_are_not_followed(library: Any) -> None:
    texts = [source_digest(one, "f") for one in (library.asks, library.helper, library.held)]
    assert len({*texts}) == 3
    assert texts == [source_digest(one, "f") for one in (library.asks, library.helper, library.held)]


def test_the_environment_of_a_known_package_is_in_the_text(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = source_digest(library.asks, "f")
    monkeypatch.setenv("WGPACK_TUNING", "1")
    assert source_digest(library.asks, "f") != before
    monkeypatch.setattr(packages, "_ENVIRONMENT", {"wgpack": ("WG_",)})
    with_tuning = source_digest(library.asks, "f")
    monkeypatch.setenv("WG_ACCELERATOR", "cpu")
    assert source_digest(library.asks, "f") != with_tuning


def test_the_class_of_an_object_of_a_known_package_is_in_the_text(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DeepSpeed's accelerator, which a program sets."""
    before = source_digest(library.asks, "f")
    monkeypatch.setattr(library, "device", library.First())
    assert source_digest(library.asks, "f") == before
    monkeypatch.setattr(library, "device", library.Second())
    assert source_digest(library.asks, "f") != before


def test_what_a_user_put_into_a_known_package_is_not_its_own(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    around_mine = library.around(lambda x: x * 3)  # holds a function of the user's: followed, as any other
    assert source_digest(around_mine, "f") != source_digest(library.around(lambda x: x * 4), "f")
    monkeypatch.setattr(library, "asks", lambda x: x)
    with pytest.raises(Uncacheable, match=r"wgpack.asking.asks is not what wgpack brought"):
        source_digest(library.helper, "f")


def test_a_setting_of_a_known_package_is_in_the_text(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = source_digest(library.asks, "f")
    monkeypatch.setattr(library, "TUNES", True, raising=False)
    assert source_digest(library.asks, "f") != before


def test_the_order_of_a_table_says_nothing(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """tensordict makes one of a set of texts."""
    monkeypatch.setattr(library, "_TABLE", {"a": 1, "b": 2}, raising=False)
    before = source_digest(library.asks, "f")
    monkeypatch.setattr(library, "_TABLE", {"b": 2, "a": 1})
    assert source_digest(library.asks, "f") == before
    monkeypatch.setattr(library, "_TABLE", {"b": 1, "a": 2})
    assert source_digest(library.asks, "f") != before


def test_the_order_in_which_modules_of_a_package_were_loaded_says_nothing(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both hold a class and a setting."""
    monkeypatch.setattr(sys.modules["wgpack"], "First", library.First, raising=False)
    monkeypatch.setattr(sys.modules["wgpack"], "TUNES", 1, raising=False)
    monkeypatch.setattr(library, "TUNES", 2, raising=False)
    before = source_digest(library.asks, "f")
    monkeypatch.setitem(sys.modules, "wgpack", sys.modules.pop("wgpack"))
    assert [name for name in sys.modules if name.startswith("wgpack")] == ["wgpack.asking", "wgpack"]
    assert source_digest(library.asks, "f") == before


def test_what_a_user_registered_is_followed(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a table of a class, which a function of the package looks at."""

    def of(by: float) -> str:
        kind = type("Mine", (), {"_ATEN_OP_TABLE": {"mul": lambda x: x * by}, "__torch_dispatch__": library.helper})
        return source_digest(kind, "Mine", protocol=True)

    assert of(2.0) == of(2.0) != of(3.0)


def test_which_function_of_a_package_is_the_kernel(package: Any) -> None:
    package(2)
    module = importlib.import_module("wgpack")
    found = [keyed_with(kernel) for kernel in (module.fast, module.slow)]
    assert len({one.id for one in found} - {None}) == 2, [one.why for one in found]


def test_a_kernel_that_a_walk_can_follow_needs_no_package(package: Any) -> None:
    """Such code is known to the letter: an edit elsewhere in the package, after it was loaded, is nothing to it."""
    package(2, kernel="x * {by}")
    importlib.import_module("wgpack")
    first = keyed()
    package(3, kernel="x * {by}", new=True)
    assert first.id == keyed().id is not None


def test_a_kernel_that_a_user_gave_an_operator_of_a_package_is_no_part_of_it(package: Any) -> None:
    """It is followed, or else refused: the package's files do not stand for it, nor where the package wraps it."""
    package(2)
    wrapped = importlib.import_module("wgpack").around(lambda x: x * time.time())
    kernels = (lambda x: x * 3, lambda x: x * 4, lambda x: x * time.time(), wrapped)
    found = [keyed_with(kernel) for kernel in kernels]
    assert len({keyed().id, found[0].id, found[1].id} - {None}) == 3
    assert "(AutogradCPU)" in found[2].why
    assert "(AutogradCPU)" in found[3].why


def test_a_function_of_torchs_that_a_package_replaced_is_known_by_it(
    package: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch_geometric's `index_select` and tensordict's vmap reach code that no walk follows, in every program."""

    def graph() -> Any:
        (found,) = trace(lambda x: x + 1, X).graphs
        return found

    package(2)
    module = importlib.import_module("wgpack")
    monkeypatch.setattr(torch, "index_select", module.fast)
    assert "it changes torch itself" in graph().why  # what a program may set in it is unknown
    monkeypatch.setattr(custom_code, "_REPLACING", frozenset({"wgpack"}))
    first = graph()
    assert first.id is not None, first.why
    assert graph().id == first.id
    monkeypatch.setattr(torch, "index_select", module.slow)
    assert graph().id not in (None, first.id)
    monkeypatch.setattr(torch, "index_select", module.around(torch.nn.functional.relu))
    assert graph().id not in (None, first.id)
    monkeypatch.setattr(torch, "index_select", module.around(lambda x: x * time.time()))
    assert "it changes torch itself" in graph().why
    monkeypatch.setattr(torch, "index_select", module.fast)
    package(3)
    assert graph().id not in (None, first.id)


def test_modules_that_a_package_writes_are_its_own(library: Any, tmp_path: Path) -> None:
    """Of a template, into a folder for temporary files, as torch_geometric does for each kind of layer."""
    place = tmp_path / "made.py"
    place.write_text("def propagate(x): return x")
    spec = importlib.util.spec_from_file_location("wgpack.asking_propagate", place)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[made.__name__] = made
    try:
        spec.loader.exec_module(made)
        library.Layer = type("Layer", (), {"__module__": library.__name__, "propagate": made.propagate})
        assert source_digest(library.helper, "f")
        library.Layer.propagate = lambda x: x
        with pytest.raises(Uncacheable, match="is not what wgpack brought"):
            source_digest(library.helper, "f")
    finally:
        del sys.modules[made.__name__]


def test_what_lies_within_a_package_is_not_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """setuptools puts `_vendor` on the path where Inductor compiles: a process that hits would have other keys."""
    beside = packages._beside.__wrapped__
    installed = tmp_path / "site-packages"
    vendored = installed / "builder" / "_vendor"
    (vendored / "wheel-0.46.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, f"{installed}{os.sep}"])
    before = beside()
    monkeypatch.setattr(sys, "path", [*sys.path, str(vendored)])
    assert beside() == before
    (installed / "other-1.0.dist-info").mkdir()
    assert set(beside()) - set(before) == {"other-1.0.dist-info"}
    target = tmp_path / "dist-packages" / "chosen"  # pip install --target, below a folder of that name
    (target / "third-1.0.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(target)])
    assert "third-1.0.dist-info" in beside()
