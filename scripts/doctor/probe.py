"""`python -m warmgraph.scripts.doctor.probe`: imports torch and says what it is like, as JSON. Judges nothing.

A process of its own, since importing a broken torch may end the process, or take for ever. `doctor_torch` starts it.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from typing import Any


def probe() -> dict[str, Any]:
    """`unsupported`, `entry_point` and `triton` hold what went wrong, or None; `untested`, `frames` a line or None."""
    import torch

    return {
        "version": str(torch.__version__),
        "unsupported": _unsupported(),
        "untested": _untested(),
        "frames": _frames(),
        "listed": "warmgraph" in torch.compiler.list_backends(),
        "entry_point": _entry_point(),
        "built_for": _built_for(torch),
        "devices": [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())],
        "triton": _triton(),
        "caches_disabled": bool(torch.compiler.config.force_disable_caches),
    }


def _unsupported() -> str | None:
    try:
        from warmgraph.backend import unsupported
    except (ImportError, AttributeError) as error:  # a torch that keeps its private names elsewhere
        return str(error)
    return unsupported()


def _untested() -> str | None:
    from warmgraph.backend import untested

    return untested()


def _frames() -> str | None:
    """Why frames are traced in each process."""
    from warmgraph.backend import frames_unsupported
    from warmgraph.cache import ConfigError, settings

    try:
        if not settings().frames:
            return "WARMGRAPH_FRAMES=0"
    except ConfigError:
        pass  # the settings have a check of their own
    return frames_unsupported()


def _entry_point() -> str | None:
    """Why the backend cannot be loaded, if it cannot."""
    from warmgraph.cache import ConfigError

    try:
        for found in importlib.metadata.entry_points(group="torch_dynamo_backends", name="warmgraph"):
            found.load()
    except ConfigError:
        return None  # the settings have a check of their own
    except Exception as error:  # noqa: BLE001 (whatever it is, `torch.compile` will raise it)
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def _built_for(torch: Any) -> str:
    cuda, hip = torch.version.cuda, torch.version.hip
    return f"CUDA {cuda}" if cuda else f"HIP {hip}" if hip else "CPU"


def _triton() -> dict[str, str | None]:
    try:
        import triton
    except ModuleNotFoundError:
        return {"version": None, "error": None}
    except Exception as error:  # noqa: BLE001 (a Triton that does not match the driver, a broken install)
        return {"version": None, "error": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {"version": str(triton.__version__), "error": None}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(probe()) + "\n")
