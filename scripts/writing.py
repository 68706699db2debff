"""What a command is asked to write to a file: whole or not at all, and never in the place of a device or a link."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import click

from .output import talk


def write_result(path: Path, data: bytes) -> None:
    """Write `data` to `path` and say so on stderr. Raises ClickException."""
    try:
        # `-o /dev/stdout`, `--html /dev/null`: root could replace these, and everybody else's programs need them. What
        # a link points to is opened by the kernel, which follows none that a stranger has put into /tmp.
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.write_bytes(data)
        else:
            _replace(path, data)
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror or error}") from error
    talk(f"wrote {path}")


def _replace(path: Path, data: bytes) -> None:
    """In one step: whoever watches the file never sees half of it."""
    import tempfile  # late: 8 ms, and most runs write no file

    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
