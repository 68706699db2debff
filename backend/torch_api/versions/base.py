"""What is noted of one minor version of torch. Only what cannot be looked at in the torch at hand."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class Version(Struct, frozen=True, kw_only=True):
    """One minor version, as it was read and run.

    tested: the builds that the tests were run on. lacks: settings that other versions have and whose names are listed
    somewhere. skips: (text, reason) of CUDA graphs, for messages of its own. pristine: by build, what Inductor's tables
    are after a fresh import (`changes/pristine.py`). without: those of `patches.PATCHES` that later versions have
    and that have no place here. modules: of later versions, with the one in which their classes stand here.
    """

    tested: tuple[str, ...]
    lacks: frozenset[str] = frozenset()
    skips: tuple[tuple[str, str], ...] = ()
    pristine: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    modules: Mapping[str, str] = field(default_factory=dict)

    def module(self, name: str) -> str:
        """Where the classes of a module of later versions stand here."""
        return self.modules.get(name, name)
