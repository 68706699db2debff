"""What the tests of bundles and their damage begin with."""

from __future__ import annotations

from typing import Any

import pytest
from warmgraph.cache import DiskStore, Role


@pytest.fixture
def source(opener: Any, make: Any) -> DiskStore:
    """A store of three small entries, the last of which shares a kernel with the first."""
    cache = opener()
    for number in range(3):
        blobs = make.contents(number, size=20)
        blobs[1] = (Role.CPP_KERNEL, "kernel", b"\x7fELF" + bytes([number % 2]) * 20)
        cache.publish(make.draft(number), blobs)
    assert cache.flush()
    return DiskStore(opener.root)
