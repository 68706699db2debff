"""What made the code: packages by the files that are there, not by their version alone; the same on every host."""

import base64
import hashlib
import os

import pytest
from warmgraph.hashing.parts import toolchain

FILES = {"__init__.py": "", "a.py": "A = 1\n", "lib/b.so": "binary"}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a package as a wheel does, with a RECORD; returns a function that gives its digest."""

    def install(place, files=FILES):
        root = tmp_path / place / "packaged"
        lines = []
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
            lines.append(f"packaged/{name},sha256={digest},{len(content)}")

        class Distribution:
            def read_text(self, name):
                return "\n".join(lines)

        def digest():
            monkeypatch.setattr(toolchain.metadata, "distribution", lambda name: Distribution())
            return toolchain._files("packaged", root)

        return root, digest

    return install


def test_a_package_is_the_same_in_another_place_and_at_another_time(installed):
    """Another host, another path, installed a year later."""
    _, first = installed("one")
    root, second = installed("two")
    for path in root.rglob("*.*"):
        os.utime(path, (1, 1))
    assert first() == second()


def test_another_file_in_a_package_is_another_package(installed):
    """Under the same version."""
    _, first = installed("one")
    _, second = installed("two", {**FILES, "lib/b.so": "other"})
    assert first() != second()


@pytest.mark.parametrize("edit", ["longer\n", "A = 2\n"], ids=["of another size", "of the same size"])
def test_a_source_edited_in_place_is_noticed(edit, installed):
    """By its size, or by its time; then by its content."""
    root, digest = installed("one")
    before = digest()
    (root / "a.py").write_text(edit)
    os.utime(root / "a.py", (1e9, 1e9))
    assert digest() != before


def test_a_source_that_was_only_touched_is_the_same(installed):
    """Its content counts."""
    root, digest = installed("one")
    before = digest()
    os.utime(root / "a.py", (1e9, 1e9))
    assert digest() == before


def test_a_source_that_is_gone_is_noticed(installed):
    """An import that would fail here did not fail there."""
    root, digest = installed("one")
    before = digest()
    (root / "a.py").unlink()
    assert digest() != before


def test_a_package_without_a_record_is_read_as_it_lies_there(installed, monkeypatch):
    """One that was built from source, or linked into the environment."""
    root, _ = installed("one")

    def absent(name):
        raise toolchain.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(toolchain.metadata, "distribution", absent)
    before = toolchain._files("packaged", root)
    assert before.startswith("tree ")
    (root / "a.py").write_text("A = 2\n")
    edited = toolchain._files("packaged", root)
    (root / "lib" / "b.so").write_text("rebuilt")
    assert len({before, edited, toolchain._files("packaged", root)}) == 3


def test_the_cpp_runtime_is_the_one_that_this_process_has_loaded(tmp_path):
    """By the versioned name of the file behind the link; a kernel built against a newer one does not load."""
    real = tmp_path / "libstdc++.so.6.0.99"
    real.write_bytes(b"")
    (tmp_path / "libstdc++.so.6").symlink_to(real)
    maps = tmp_path / "maps"
    maps.write_text(f"7f00-7f01 r-xp 00000000 08:01 42 {tmp_path}/libstdc++.so.6\n7f02-7f03 rw-p 0 00:00 0\n")
    assert toolchain._libstdcxx(maps) == "libstdc++.so.6.0.99"
    maps.write_text("7f02-7f03 rw-p 0 00:00 0\n")
    assert toolchain._libstdcxx(maps) is None
    assert toolchain._libstdcxx(tmp_path / "absent") is None
