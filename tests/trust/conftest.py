"""Hosts that share a real server, and what somebody does who may write to it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from warmgraph.cache import reset_settings
from warmgraph.cache.stores import circuit_breaker

HERE = Path(__file__).parent


def load(name: str, path: Path) -> ModuleType:
    """A module of the tests' own: pytest's importlib mode puts no folder on the path."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


servers = load("warmgraph_tests_remote_servers", HERE.parent / "remote" / "servers.py")
hosts = load("warmgraph_tests_trust_hosts", HERE / "hosts.py")


@pytest.fixture(autouse=True)
def no_settings_stay() -> Iterator[None]:
    circuit_breaker._told.clear()
    yield
    reset_settings()


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with servers.server(tmp_path_factory.mktemp("redis")) as one:
        yield one


@pytest.fixture
def fleet(shared_server: Any, tmp_path: Path) -> Any:
    shared_server.raw.flushall()
    return hosts.Fleet(shared_server, tmp_path)
