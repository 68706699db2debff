"""What every set of leases must do, as a class of tests to inherit from."""

from __future__ import annotations

import pytest

from warmgraph.cache import Held, Leases

from .stores import KEY, OTHER


class LeaseConformance:
    """Subclasses give the fixture `leases`, and `other`: the same place, as another process or host sees it."""

    @pytest.fixture
    def leases(self) -> Leases:
        raise NotImplementedError

    @pytest.fixture
    def other(self, leases: Leases) -> Leases:
        raise NotImplementedError

    def test_one_has_it(self, leases: Leases, other: Leases) -> None:
        """The others are told who; nobody has any other key."""
        lease = leases.acquire(KEY)
        assert not isinstance(lease, Held)
        found = other.acquire(KEY)
        assert isinstance(found, Held)
        assert found.owner
        assert not found.failed
        assert isinstance(other.peek(KEY), Held)
        assert other.peek(OTHER) is None
        lease.release(ok=True)

    def test_given_back_it_is_free(self, leases: Leases, other: Leases) -> None:
        """Twice is once."""
        lease = leases.acquire(KEY)
        assert not isinstance(lease, Held)
        for _ in range(2):
            lease.release(ok=True)
        assert other.peek(KEY) is None
        again = other.acquire(KEY)
        assert not isinstance(again, Held)
        again.release(ok=True)

    def test_a_failure_is_told(self, leases: Leases, other: Leases) -> None:
        """Nobody has it any more, and there is nothing to wait for."""
        lease = leases.acquire(KEY)
        assert not isinstance(lease, Held)
        lease.release(ok=False)
        found = other.peek(KEY)
        assert found is None or found.failed
