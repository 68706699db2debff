"""DOT text to SVG by Graphviz's own program. Bounded in input and time; draws nothing itself."""

from __future__ import annotations

import shutil

_MOST_BYTES = 16 << 20


class CannotRender(Exception):
    """No SVG; `str()` says why and what to do."""


def svg_of(dot: str, timeout: float = 300.0) -> bytes:
    """The SVG of `dot`; timeout: seconds. Raises CannotRender."""
    data = dot.encode(errors="replace")
    program = shutil.which("dot")
    if program is None:
        raise CannotRender("Graphviz is not installed. TIP: apt-get install graphviz, or --dot for its input")
    if len(data) > _MOST_BYTES:
        raise CannotRender(f"{len(data) >> 20} MB are too much for Graphviz. TIP: fold more with --depth")
    import subprocess  # 20 ms that only a picture pays for

    try:
        done = subprocess.run([program, "-Tsvg"], input=data, capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise CannotRender(f"Graphviz was not done after {timeout:.0f} s. TIP: fold more with --depth") from None
    except OSError as error:
        raise CannotRender(f"{program} does not run: {error}") from error
    if done.returncode != 0 or b"<svg" not in done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {done.returncode}"]
        raise CannotRender(f"Graphviz failed: {said[0]:.200}. TIP: --shape html, or fold more with --depth")
    return done.stdout
