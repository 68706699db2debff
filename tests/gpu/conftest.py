"""Tests that need a CUDA device; without one they are skipped, in one line. `make gpu-check` runs them."""

import itertools
import shutil
from pathlib import Path

import pytest
import torch

WORKER = Path(__file__).with_name("worker.py")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """In a hook and not in a fixture, whose skips are reported with a line for each test."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here; `make gpu-check` runs these on a machine that has one")


def empty_folders(place, number):
    """What a process on another host has of Inductor's and Triton's: nothing. To be added to its environment.

    What an earlier host had is gone with it: torch keeps paths in what it stores, and would find the cold run's files.
    """
    names = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
    for kind in names.values():
        for left in place.glob(f"{kind}-*"):
            shutil.rmtree(left, ignore_errors=True)  # compile workers of it may still be ending
    return {name: str(place / f"{kind}-{number}") for name, kind in names.items()}


@pytest.fixture
def fresh_host(tmp_path):
    """Each call is another host: `run_in(folder, program, **fresh_host())`."""
    numbers = itertools.count(1)
    return lambda: empty_folders(tmp_path, next(numbers))


@pytest.fixture(scope="session")
def cold_and_warm(run_in, tmp_path_factory):
    """Runs `worker.py` with these arguments in two fresh processes on one store, once for all tests that ask.

    Returns what each said: case -> counts, and `steps` with every step's tensors.
    """
    made = {}

    def both(*arguments):
        if arguments not in made:
            folder = tmp_path_factory.mktemp("gpu")
            made[arguments] = [run(folder, name, arguments) for name in ("cold", "warm")]
        return made[arguments]

    def run(folder, name, arguments):
        kept = folder / f"{name}.pt"
        found = run_in(folder, WORKER, *arguments, "--out", str(kept), **empty_folders(folder, name))
        for case, steps in torch.load(kept).items():
            found[case]["steps"] = steps
        return found

    return both
