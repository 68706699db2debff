"""The package as an installer would lay it out, made from this checkout without one: for machines without network.

torch finds backends by entry points, which are read from a distribution's metadata; a checkout on PYTHONPATH has none.
So programs get a folder on their PYTHONPATH that holds the package and that metadata.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def assemble(site: Path) -> None:
    """Fill `site`, a new folder, with what pyproject.toml says: packages, entry points, name and version."""
    described = pyproject()
    project, layout = described["project"], described["tool"]["setuptools"]
    for package in layout["packages"]:
        source = ROOT / folder_of(package, layout["package-dir"])
        shutil.copytree(source, site / package.replace(".", "/"), ignore=_compiled, dirs_exist_ok=True)
    metadata = site / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir()
    name, version = project["name"], project["version"]
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *[f"{point} = {target}" for point, target in points.items()], ""]
    (metadata / "entry_points.txt").write_text("\n".join(lines))


_compiled = shutil.ignore_patterns("__pycache__")


def folder_of(package: str, folders: dict[str, str]) -> str:
    """Where a package lies: its own line, or inside its parent's folder."""
    if package in folders:
        return folders[package]
    parent, _, name = package.rpartition(".")
    return f"{folder_of(parent, folders)}/{name}" if parent else package


def pyproject() -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # Python 3.10 has no reader of TOML; its pip does
        from pip._vendor import tomli as tomllib
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


if __name__ == "__main__":
    assemble(Path(sys.argv[1]))
