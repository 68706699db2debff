"""What a probe is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch


def _default(scene: Any = None) -> tuple[Any, ...]:
    return (torch.arange(4.0),)


@dataclass(frozen=True)
class Probe:
    """program, entry: source, and the function compiled of it (`model`: an instance of MLP). edit: (old, new) in the
    source. change: of the loaded scene. around: a context for the call. args: of the call. restores: the change does
    not matter, and the frame must be restored. agrees: results may be the same before and after. seen: they are, and
    nothing may be restored all the same. refused: text in the reason why it is never recorded. after: whether the
    change can also be made between two calls. before: what every step does first. random: results are random.
    as_is: for values that a call changes, or that are one with what the module holds: `args` is given the scene,
    nothing is copied, and plain torch's call has a scene of its own. since: the torch from which on what is said here
    of recording and of differences holds; what an older one restores is compared all the same.
    """

    program: str
    entry: str
    edit: tuple[str, str] | None = None
    change: Callable[[Any], Any] | None = None
    around: Callable[[], Any] | None = None
    args: Callable[..., tuple[Any, ...]] = _default
    restores: bool = False
    agrees: bool = False
    seen: bool = False
    refused: str | None = None
    after: bool = True
    before: Callable[[], Any] | None = None
    random: bool = False
    as_is: bool = False
    since: tuple[int, int] = (0, 0)
    options: dict[str, Any] = field(default_factory=dict)


PROBES: dict[str, Probe] = {}


def put(name: str, program: str, entry: str, **more: Any) -> None:
    assert name not in PROBES, name
    PROBES[name] = Probe(program, entry, **more)


def set_(path: str, value: Any) -> Callable[[Any], None]:
    """Sets an attribute of the scene (`m.SCALE`)."""

    def change(scene: Any) -> None:
        *base, last = path.split(".")
        for part in base:
            scene = getattr(scene, part)
        setattr(scene, last, value)

    return change


def args(make: Callable[..., tuple[Any, ...]]) -> Callable[[Any], None]:
    """Other arguments; `make` is called as `Probe.args` is."""

    def change(scene: Any) -> None:
        scene.args = scene.made(make)

    return change


def is_as_said(probe: Probe) -> bool:
    """Whether this torch is new enough for it (`Probe.since`)."""
    return tuple(map(int, torch.__version__.split(".")[:2])) >= probe.since


def frames(found, *outcomes):
    """Events of these outcomes."""
    return [event for event in found["events"] if event[0] in outcomes]
