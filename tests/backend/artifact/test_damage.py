"""Damaged stores under a real artifact: one miss, a right result, the entry set aside. Never an exception."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from warmgraph.backend import frames_unsupported
from warmgraph.cache import DiskStore, Hit, Miss, Reason, configure, open_cache

PROGRAM = """
import json, torch, warmgraph

@torch.compile(backend="warmgraph")
def f(x, w):
    return torch.relu(x @ w).softmax(-1)

x, w = torch.arange(12.0).reshape(3, 4), torch.arange(20.0).reshape(4, 5).requires_grad_()
y = f(x, w)
y[:, 0].sum().backward()
v = w.detach().clone().requires_grad_()
z = torch.relu(x @ v).softmax(-1)
z[:, 0].sum().backward()
agree = bool(torch.allclose(y, z) and torch.allclose(w.grad, v.grad))
warmgraph.flush()
print(json.dumps({"agree": agree, **warmgraph.stats()}))
"""

PLACES = 500


_made: list[Path] = []


@pytest.fixture
def store(run_python, tmp_path, tmp_path_factory):
    """A store of the test's own that holds one real compile, forward and backward."""
    if not _made:
        assert run_python(PROGRAM, WARMGRAPH_FRAMES="0")["misses"] == 1  # tests/frames damages records of frames
        _made.append(tmp_path_factory.mktemp("made") / "store")
        shutil.copytree(tmp_path / "store", _made[0])
    shutil.copytree(_made[0], tmp_path / "store", dirs_exist_ok=True)
    return tmp_path / "store"


def stored_files(store):
    """Every file that a lookup reads."""
    return sorted(path for part in ("entries", "objects") for path in (store / part).rglob("*") if path.is_file())


def damage(path: Path, chance: random.Random) -> str:
    """Flip one bit, or cut the file; written as a new file, since kernels may be mapped."""
    data = bytearray(path.read_bytes())
    place = chance.randrange(len(data))
    if chance.random() < 0.3:
        del data[place:]
        what = f"{path.name} cut at {place}"
    else:
        data[place] ^= 1 << chance.randrange(8)
        what = f"{path.name} flipped at {place}"
    replacement = path.with_name("replacement")
    replacement.write_bytes(data)
    replacement.replace(path)
    return what


@pytest.mark.exhaustive
def test_damage_anywhere_is_a_miss_and_fails_once(store, tmp_path):
    """500 random places of a real entry: no lookup is taken in by one, and none raises."""
    chance = random.Random(20261120)
    (file,) = DiskStore(store, readonly=True).scan()
    names = [path.relative_to(store) for path in stored_files(store)]
    assert len(names) >= 5  # entry, result, texts, kernels

    def lookup(folder):
        return open_cache(configure(dir=folder)).lookup(file.key, lambda entry: True)

    assert isinstance(lookup(store), Hit)
    for number in range(PLACES):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(store, copy)
        # Small files and large ones alike: a place in a random file, not a random byte of all.
        what = damage(copy / chance.choice(names), chance)
        found = lookup(copy)
        assert isinstance(found, Miss), what
        assert found.reason in (Reason.CORRUPT, Reason.INCOMPLETE), what
        assert DiskStore(copy).usage().quarantined == 1, what
        again = lookup(copy)
        assert isinstance(again, Miss), what
        assert again.reason is Reason.ABSENT, what
        shutil.rmtree(copy)


@pytest.mark.parametrize("kind", ["entries", "objects"])
def test_a_damaged_store_gives_right_results_and_heals(kind, store, run_python):
    """The graph is compiled once more and published over the damage; the next process hits again."""
    for path in stored_files(store):
        if path.is_relative_to(store / kind):
            damage(path, random.Random(path.name))
    damaged = run_python(PROGRAM, WARMGRAPH_STRICT=0)
    assert damaged["agree"]
    assert (damaged["hits"], damaged["misses"], damaged["failures"]) == (0, 1, 0)
    healed = run_python(PROGRAM, compiler=False)
    assert healed["agree"]
    assert (healed["hits"], healed["misses"]) == (1, 0)


def test_an_entry_that_does_not_load_is_set_aside_and_compiled_anew(store, run_python, tmp_path):
    """Every byte is right and it still fails: quarantined, journaled as failed, right result, and then a hit."""
    breaks = "import warmgraph.backend.torch_api.generated_code.wrapper_module as g\ng.run_module = None\n"
    source = PROGRAM.replace("import json, torch, warmgraph\n", "import json, torch, warmgraph\n" + breaks, 1)
    source = source.replace(
        "g.run_module = None", "import warmgraph.backend.compilers.inductor as i; i.run_module = None"
    )
    failed = run_python(source, WARMGRAPH_STRICT=0)
    assert failed["agree"]
    assert (failed["hits"], failed["failures"]) == (0, 1)
    assert failed["reasons"] == {"load-failed": 1}
    assert DiskStore(store).usage().quarantined == 1
    assert run_python(PROGRAM, compiler=False)["hits"] == 1


def test_eight_processes_on_one_empty_folder(environment, tmp_path):
    """All results are right, what they leave behind is whole, and nothing is left half-written."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=environment(WARMGRAPH_FRAMES=1),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for process in processes:
        output, errors = process.communicate(timeout=500)
        assert process.returncode == 0, errors[-3000:]
        assert '"agree": true' in output
    store = tmp_path / "store"
    report = DiskStore(store).verify()
    assert report.ok
    assert not report.findings
    assert report.entries == (2 if frames_unsupported() is None else 1)  # the graph's, and its frame's
    assert not [name for _, _, names in os.walk(store) for name in names if name.startswith(".tmp")]
