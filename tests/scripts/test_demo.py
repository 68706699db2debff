"""demo: what it needs, what it refuses, what its processes get, and how results read. Runs no model."""

from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from warmgraph.scripts.demo import command as demo
from warmgraph.scripts.demo import runs as demo_runs
from warmgraph.scripts.demo.runs import RUNS, Result

WARM = {"hash": 0.019, "fetch": 0.009, "load": 0.028, "restore": 0.357}


def _results(agrees: bool = True) -> list[Result]:
    """Results as a slow machine would give them."""
    cells: list[tuple[float, dict[str, float], list[str], str]] = [
        (0.1234, {}, [], "close"),
        (123.4, {"hash": 0.123, "compile": 100.0}, ["miss"], "reference"),
        (12.34, WARM, ["hit"], "bit-equal"),
        (12.34, WARM, ["hit"], "bit-equal" if agrees else "DIFFER"),
    ]
    return [
        Result(run.name, run.what, first, "/usr/bin/g++", seconds, outcomes, agreement, agrees or run is not RUNS[3])
        for run, (first, seconds, outcomes, agreement) in zip(RUNS, cells, strict=True)
    ]


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that the demo needs is there."""
    monkeypatch.setattr(demo, "_check_needs", lambda: None)


@pytest.fixture
def done(ready: None, monkeypatch: pytest.MonkeyPatch) -> list[Path | None]:
    """The demo's processes ran; the folders that they were to keep."""
    kept: list[Path | None] = []
    monkeypatch.setattr(demo_runs, "run_all", lambda keep: kept.append(keep) or _results())
    return kept


@pytest.mark.parametrize("module", ["torch", "transformers"])
def test_a_missing_package_is_named(run: Any, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Without transformers (or torch) the demo says what to install and exits 1, before anything runs."""
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == module else find_spec("json"))
    ran = run("demo")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == f"Error: the demo needs {module}. TIP: pip install 'warmgraph[demo]'\n"


@pytest.mark.parametrize("compiler", [None, "my-c++"])
def test_a_missing_compiler_is_named(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiler: str | None
) -> None:
    """Without a C++ compiler the demo says so, names the one it looked for, and exits 1."""
    monkeypatch.setattr(demo, "find_spec", lambda name: find_spec("json"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    if compiler is not None:
        monkeypatch.setenv("CXX", compiler)
    ran = run("demo")
    assert (ran.status, ran.out) == (1, "")
    assert "C++ compiler" in ran.err
    assert repr(compiler or "g++") in ran.err or compiler is None
    assert "TIP: " in ran.err


def test_keep_must_be_new_or_empty(run: Any, done: list[Path | None], tmp_path: Path) -> None:
    """A folder with something in it is refused, since cold would not be cold; a file is, too; status 2."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for folder in (tmp_path / "full", tmp_path / "full" / "file", tmp_path / "full" / "file" / "below"):
        ran = run("demo", "--keep", folder)
        assert (ran.status, ran.out) == (2, "")
        assert f"--keep={str(folder)!r}" in ran.err
    assert done == []


def test_keep_keeps(run: Any, done: list[Path | None], tmp_path: Path) -> None:
    """A new folder is made and told of at the end; without --keep there is none to tell of."""
    ran = run("demo", "--keep", tmp_path / "kept")
    assert ran.status == 0
    assert (tmp_path / "kept").is_dir()
    assert f"WARMGRAPH_DIR={tmp_path / 'kept'} warmgraph ls" in ran.err
    assert "WARMGRAPH_DIR" not in run("demo").err
    assert done == [tmp_path / "kept", None]


def test_the_table_fits_in_80_columns(run: Any, done: list[Path | None]) -> None:
    """The table has a line for each process, none of it wider than 80 columns, and says how much faster warm is."""
    ran = run("demo")
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 80
    starts = [next(number for number, line in enumerate(lines) if line.startswith(run.name + "  ")) for run in RUNS]
    assert starts == list(range(starts[0], starts[0] + 4))
    assert "10.0 times as fast as cold" in ran.out


def test_it_ends_with_what_to_type_next(run: Any, done: list[Path | None]) -> None:
    """The last lines, on stderr, are what to type next."""
    said = run("demo").err
    assert 'torch.compile(model, backend="warmgraph")' in said
    assert said.rstrip().endswith("warmgraph journal")


def test_demo_json(run: Any, done: list[Path | None]) -> None:
    """`demo --json` is one object with a run for each process, and nothing else on either stream."""
    ran = run("demo", "--json")
    assert ran.json.keys() == {"version", "ok", "runs"}
    assert (ran.json["version"], ran.json["ok"]) == (1, True)
    fields = {"name", "what", "first_call", "compiler", "seconds", "outcomes", "agreement", "agrees", "frames"}
    assert [one.keys() for one in ran.json["runs"]] == [fields] * 4
    assert ran.err == ""


def test_a_difference_exits_1(run: Any, ready: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a warm process computes something else than the cold one, the table shouts and the status is 1."""
    monkeypatch.setattr(demo_runs, "run_all", lambda keep: _results(agrees=False))
    ran = run("demo")
    assert ran.status == 1
    assert "DIFFER" in ran.out
    assert run("demo", "--json").json["ok"] is False


# -- the processes


def test_a_process_gets_a_clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's cache, mode, namespace and Inductor settings do not reach the demo's processes."""
    for name in (
        "WARMGRAPH_MODE",
        "WARMGRAPH_NAMESPACE",
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES",
        "TORCH_COMPILE_DISABLE",
    ):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("OTHER", "kept")
    found = demo_runs.environment(RUNS[1], tmp_path, tmp_path / "store")
    foreign = {name: value for name, value in found.items() if name.startswith(demo_runs.FOREIGN)}
    assert foreign == {"WARMGRAPH_DIR": str(tmp_path / "store"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    assert found["OTHER"] == "kept"


def test_the_other_host_has_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last process sees no compiler, whether on PATH or in CXX."""
    monkeypatch.setenv("CXX", "/usr/bin/g++")
    found = demo_runs.environment(RUNS[3], tmp_path, tmp_path / "store")
    assert "CXX" not in found
    assert list(Path(found["PATH"]).iterdir()) == []


def _finished(status: int, said: bytes = b"") -> Any:
    """Instead of `subprocess.run`: a process that ended at once, and wrote what a worker writes if it was well."""

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        if status == 0:
            facts = {"pid": 1, "first_call": 0.5, "compiler": None}
            Path(command[-1] + ".json").write_text(json.dumps(facts))
        return subprocess.CompletedProcess(command, status, None, said)

    return run


def test_a_process_that_fails_is_told_of(run: Any, ready: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a process fails, its name, status and last words are on stderr, without escapes; the status is 1."""
    monkeypatch.setattr(demo_runs.subprocess, "run", _finished(3, b"Traceback\n\x1b[31mboom"))
    ran = run("demo")
    assert (ran.status, ran.out) == (1, "")
    assert "Error: the process 'eager' ended with status 3:" in ran.err
    assert "boom" in ran.err
    assert "\x1b" not in ran.err


def test_a_process_that_bypassed_the_cache_is_told_of(run: Any, ready: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the cold process left no miss in the journal, the demo says so and does not claim anything."""
    monkeypatch.setattr(demo_runs.subprocess, "run", _finished(0))
    ran = run("demo")
    assert (ran.status, ran.out) == (1, "")
    assert "'cold' was to be a miss, and was none" in ran.err


def test_progress_is_on_stderr(run: Any, ready: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each process a line says which it is and what it does, and after it how long its first call took."""
    monkeypatch.setattr(demo_runs.subprocess, "run", _finished(0))
    lines = run("demo").err.splitlines()
    assert lines[:3] == [
        f"[1/4] eager: {RUNS[0].what}",
        "[1/4] eager: first call 500 ms",
        f"[2/4] cold: {RUNS[1].what}",
    ]


def test_bits_are_compared(tmp_path: Path) -> None:
    """Warm must equal cold in every bit; eager need only be close; neither may be far."""
    torch = pytest.importorskip("torch")
    values = [torch.tensor([value], dtype=torch.float64) for value in (1.0 + 1e-9, 1.0, 1.0, 1.0 + 1e-9)]
    files = [tmp_path / f"{number}.pt" for number in range(4)]
    for value, file in zip(values, files, strict=True):
        torch.save([value], file)
    results = _results()
    demo_runs.compare(results, files)
    assert [result.agrees for result in results] == [True, True, True, False]
    assert [result.agreement for result in results] == [
        "close",
        "reference",
        "bit-equal",
        "DIFFER",
    ]
    torch.save([torch.tensor([2.0], dtype=torch.float64)], files[0])
    demo_runs.compare(results, files)
    assert not results[0].agrees


@pytest.mark.exhaustive
def test_it_runs(run: Any) -> None:
    """The real thing: GPT-2 is compiled once, and frames are restored in the processes after it."""
    ran = run("demo", "--json")
    assert ran.status == 0, ran.err
    runs = {one["name"]: one for one in json.loads(ran.out)["runs"]}
    assert [one["outcomes"] for one in runs.values()] == [[], ["miss"], ["hit"], ["hit"]]
    assert [one["agreement"] for one in runs.values()] == ["close", "reference", "bit-equal", "bit-equal"]
    assert [one["frames"] for one in runs.values()] == [[], ["traced"], ["restored"], ["restored"]]
