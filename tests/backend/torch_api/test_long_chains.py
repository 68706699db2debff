"""Python 3.12 has a limit on calls through C that its first releases set low."""

import sys

import pytest
import torch._dynamo
from warmgraph.backend.torch_api.settings import allow_long_chains


@pytest.mark.parametrize(
    ("version", "before", "after"),
    [
        ((3, 11, 9), -1, -1),
        ((3, 12, 1), -1, 10_000),
        ((3, 12, 1), 5_000, 5_000),  # a user's
        ((3, 12, 3), -1, -1),
        ((3, 13, 0), -1, -1),
    ],
)
def test_the_limit_is_lifted_where_it_is_low(version, before, after, monkeypatch):
    limit = [before]
    monkeypatch.setattr(sys, "version_info", version)
    monkeypatch.setattr(torch._dynamo, "get_recursion_limit", lambda: limit[0])
    monkeypatch.setattr(torch._dynamo, "set_recursion_limit", lambda number: limit.__setitem__(0, number))
    allow_long_chains()
    assert limit == [after]
