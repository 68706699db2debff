"""Saved-tensors hooks across processes: found again with a hash, bypassed without, missed with another."""

from pathlib import Path

import pytest
from warmgraph.cache import read

WORKER = Path(__file__).with_name("worker.py")
CASES = [
    name.removeprefix("def ").split("(")[0]
    for before, name in zip(WORKER.read_text().splitlines(), WORKER.read_text().splitlines()[1:], strict=False)
    if before.startswith("@case") and "cached=False" not in before
]
WITH_A_HASH = ("float8_wrapped", "int8_wrapped", "cache_hash_of_wrapped")
# The program's VERSION is part of what these do.
WITH_VERSION = ("cache_hash_of_wrapped", "plain_functions")
BESIDE_INDUCTOR = ("float8_wrapped", "int8_symbolic")


@pytest.fixture(scope="module")
def runs(tmp_path_factory, run_in):
    """What three processes on one store made of each case; `warm` has no compiler."""
    folder = tmp_path_factory.mktemp("hooks")
    (folder / "bin").mkdir()

    def run(name, *arguments):
        elsewhere = {"PATH": str(folder / "bin"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "elsewhere")}
        extra = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": str(len(name))} | (elsewhere if name == "warm" else {})
        return run_in(folder, WORKER, *arguments, **extra)

    found = {
        "cold": run("cold", "v1", "2", *BESIDE_INDUCTOR),
        "warm": run("warm", "v1", "2"),
        "another hash": run("another hash", "v2", "3", "--bypassed"),
    }
    found["journal"] = list(read(folder / "store" / "journal"))
    return found


def counts(run):
    return tuple(run[kind] for kind in ("hits", "misses", "bypasses", "failures"))


@pytest.mark.parametrize("case", CASES)
def test_hooks_are_found_again_in_a_fresh_process(case, runs):
    """Without a compiler, with the gradients of the process that compiled, to the bit."""
    # Cases that mean the same share an entry, so a cold one may hit as well.
    assert counts(runs["cold"][case]) in ((0, 1, 0, 0), (1, 0, 0, 0))
    assert counts(runs["warm"][case]) == (1, 0, 0, 0)
    assert runs["warm"][case]["gradients"] == runs["cold"][case]["gradients"]


@pytest.mark.parametrize("case", BESIDE_INDUCTOR)
def test_a_compile_that_is_kept_is_the_one_that_inductor_makes(case, runs):
    """The same gradients as without warmgraph."""
    assert runs["cold"][case]["gradients"] == runs["cold"][case]["inductor"]


@pytest.mark.parametrize("case", CASES)
def test_another_hash_is_another_hook(case, runs):
    """A miss where a wrapped call carries the hash, or `cache_hash` sees other code; elsewhere a hit."""
    expected = (0, 1, 0, 0) if case in WITH_A_HASH else (1, 0, 0, 0)
    assert counts(runs["another hash"][case]) == expected
    same = runs["another hash"][case]["gradients"] == runs["cold"][case]["gradients"]
    assert same == (case not in WITH_VERSION)


@pytest.mark.parametrize("kind", ["float8", "int8"])
def test_without_a_hash_the_result_is_right_and_not_kept(kind, runs):
    """A bypass, and the gradients of all other runs."""
    bare = runs["another hash"][f"{kind}_without_a_hash"]
    assert counts(bare) == (0, 0, 1, 0)
    assert bare["gradients"] == runs["cold"][f"{kind}_wrapped"]["gradients"]


def test_the_journal_says_which_function_and_what_to_set(runs):
    """The hook, the function, its file and line, and the cure."""
    lines = WORKER.read_text().splitlines()
    details = [event["detail"] for event in runs["journal"] if event["outcome"] == "bypass"]
    assert {event["reason"] for event in runs["journal"] if event["outcome"] == "bypass"} == {"wrapped-call"}
    for name, detail in zip(("float8_pack_if_float", "int8_pack_if_large"), details, strict=True):
        line = lines.index(f"def {name}(x):")  # counted from 1, and from the decorator above it
        for part in ("the pack hook", f"{name} ({WORKER}:{line})", f"warmgraph.cache_hash({name})", "user_cache_hash"):
            assert part in detail


def test_what_make_fx_traced_through_is_what_it_would_have_been_unwrapped(runs):
    """So are a pair inside another, and plain functions: the graph under them is the same."""
    cold = runs["cold"]
    for case, first in {
        "float8_wrapped_and_made": "float8_made",
        "int8_wrapped_and_made": "int8_made",
        "the_inner_of_two_pairs": "int8_symbolic",
        "offloaded_by_torch": "plain_functions",
        "one_of_the_pair_is_plain": "plain_functions",
    }.items():
        assert counts(cold[case]) == (1, 0, 0, 0)
        assert counts(cold[first]) == (0, 1, 0, 0)
        if first != "plain_functions":  # these run outside the graph, each its own
            assert cold[case]["gradients"] == cold[first]["gradients"]
