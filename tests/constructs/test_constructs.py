"""Each construct means the same eager, cold and warm, and is a hit where torch can cache it. One test per case.

The cases are in the groups' files beside this one, and listed in docs/constructs.md. They run in processes of their
own, three per shard and session, however many tests look at them.
"""

import fcntl
import json
import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))  # the worker's view of these files: names without a package

from compare import close, exact, only  # noqa: E402
from listing import ALL, DOCS, MARK, SHARDS, document  # noqa: E402
from outcomes import broken_promises  # noqa: E402
from runs import run_all  # noqa: E402
from versions import here, raises, unsteady  # noqa: E402


@pytest.fixture(scope="session")
def ways(request, tmp_path_factory, inductor_cache):
    """`ways(case)`: what each way saw of the selected cases of its shard; run once, by whichever process asks first."""
    wanted = {item.callspec.params["case"].word for item in request.session.items if "case" in _parameters(item)}
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    gathered = {}

    def gather(case):
        (shard,) = (shard for shard in SHARDS if case.group in shard)
        if shard not in gathered:
            folder = root / f"constructs-{SHARDS.index(shard)}"
            folder.mkdir(exist_ok=True)
            with open(folder / "lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                result = folder / "result.json"
                if not result.exists():
                    cases = [here(case) for case in ALL if case.group in shard and case.word in wanted]
                    result.write_text(json.dumps(run_all(cases, folder, inductor_cache)))
            gathered[shard] = json.loads(result.read_text())
        return {way: seen[case.word] for way, seen in gathered[shard].items() if case.word in seen}

    return gather


def _parameters(item):
    return item.callspec.params if hasattr(item, "callspec") and item.path == Path(__file__) else {}


@pytest.mark.timeout(1800)  # the first test of a shard waits for all of its processes
@pytest.mark.parametrize("case", ALL, ids=lambda case: case.word)
def test_a_construct_means_the_same_eager_cold_and_warm(case, ways):
    """Same values, gradients, mutations, aliases and errors; warm repeats cold bit for bit, with the promised hits."""
    if (why := unsteady(case)) is not None:
        pytest.skip(f"torch's own: {why}")
    case, runs = here(case), ways(case)
    if (error := raises(case)) is not None:
        assert all(error in runs[way].get("broken", "") for way in ("cold", "warm"))
        pytest.xfail(f"torch's own, whoever compiles: {error}")
    for way, run in runs.items():
        assert "broken" not in run, f"{way}: {run['broken']}"
    eager, cold, warm = runs["eager"], runs["cold"], runs["warm"]
    if case.torch_wrong is None:
        assert close(cold, eager) == []
    else:
        assert only(case.fields, runs["inductor"], cold) == []
        if case.fields:
            assert close(cold, eager, without=case.fields) == []
        assert close(runs["inductor"], eager), "torch agrees with itself: the mark `torch_wrong` can go"
    assert exact(cold, warm) == []
    assert broken_promises(case, cold["events"], warm["events"]) == []


def test_the_list_of_constructs_is_the_cases():
    """docs/constructs.md says what is tested here; `python tests/constructs/listing.py` writes it anew."""
    assert all(case.sentence for case in ALL)
    assert DOCS.read_text().partition(MARK)[2].strip() == document().strip()
