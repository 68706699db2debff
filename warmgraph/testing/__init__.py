"""What a store, a set of leases and a compiler must do, as classes of tests to inherit from.

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def store(self, tmp_path):
            return MyStore(tmp_path)

    TestMyStoreAgainstADict = store_machine(lambda: MyStore(tempfile.mkdtemp()))

They need pytest and hypothesis. How a store is written: docs/adding-a-store.md. `CompilerConformance` lies in
`warmgraph.testing.compilers`, for the sake of stores' tests, which need no torch.
"""

from __future__ import annotations

import pytest

# Before they are imported, so that a failed claim says what was compared.
pytest.register_assert_rewrite(f"{__name__}.stores", f"{__name__}.leases", f"{__name__}.compilers")

from .leases import LeaseConformance  # noqa: E402
from .stores import KEY, StoreConformance, key_of_number, ref_of, store_machine  # noqa: E402

__all__ = ["KEY", "LeaseConformance", "StoreConformance", "key_of_number", "ref_of", "store_machine"]
