"""A record serves the program that made it: no other file loaded, none edited, the same packages installed."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import types

import pytest
from warmgraph.backend.frames import program as of_program
from warmgraph.backend.frames.program import differing, program
from warmgraph.backend.torch_api.frames.plain import NotServed

MAIN = """
import json, os
import torch, warmgraph
import mine
from warmgraph.cache import journal_dir, read, settings
torch._inductor.config.fallback_by_default = True
warmgraph.configure(frames=True)
torch.compile(mine.f, backend="warmgraph")(torch.ones(2))
warmgraph.flush()
events = [e for e in read(journal_dir(settings())) if e["pid"] == os.getpid()]
print(json.dumps([[e["outcome"], e["detail"]] for e in events if e["outcome"] in ("restored", "traced")]))
"""
FILES = {
    "main.py": MAIN,
    "mine.py": "import helper\ndef f(x): return x * 2 + helper.ONE\n",
    "helper.py": "ONE = 1.0\nOTHER = 2.0  # nothing asks for it\n",
}


@pytest.fixture(autouse=True)
def no_file_is_gone(monkeypatch):
    """Other tests of this process make modules out of text, and leave them loaded."""
    for name, module in list(sys.modules.items()):
        held = vars(module) if isinstance(module, types.ModuleType) else {}
        if str(held.get("__file__")).startswith("/made/"):
            monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def job(environment, tmp_path):
    """The events of frames in one run of the program, whose files are given where they are other ones."""

    def run(folder="job", *arguments, **files):
        home = tmp_path / folder
        home.mkdir(exist_ok=True)
        for name, text in FILES.items():
            (home / name).write_text(files.get(name.removesuffix(".py"), text))
        process = subprocess.run(
            [sys.executable, "-B", str(home / "main.py"), *arguments],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert process.returncode == 0, process.stderr[-4000:]
        [event] = json.loads(process.stdout.splitlines()[-1])
        return event

    return run


@pytest.mark.exhaustive
def test_any_edit_of_a_file_that_is_loaded_is_told(job):
    assert job() == ["traced", None]
    assert job("elsewhere", "--output", "other") == ["restored", None]
    edited = FILES["helper.py"].replace("2.0", "3.0")
    assert job(helper=edited) == ["traced", "the program: helper changed since"]
    assert job(helper=edited) == ["restored", None]
    assert job() == ["restored", None], "back again"
    outcome, why = job(helper=FILES["helper.py"].replace("1.0", "1.5"))
    assert outcome == "traced"
    assert "ONE" in why, "what is known of an edit says more than its file"


def test_what_differs_is_named():
    was = {"__main__": "1", "a": "2", "installed": "3"}
    assert differing(was, dict(was)) is None
    assert differing(was, {**was, "a": "4"}) == "the program: a changed since"
    assert differing(was, {"__main__": "1", "installed": "4"}) == "the program: a, installed changed since"
    assert differing(was, was | dict.fromkeys("vwxyz", "0")) == "the program: v, w, x and 2 more changed since"


def test_torch_and_packages_count_by_what_is_installed():
    found = program()
    assert "installed" in found
    assert __name__.rpartition(".")[2] in " ".join(found)
    assert not [name for name in found if name.partition(".")[0] in ("torch", "warmgraph", "pytest", "json")]


def test_a_module_that_is_loaded_again_is_read_again(tmp_path, monkeypatch):
    file = tmp_path / "wg_reloaded.py"
    file.write_text("A = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("wg_reloaded")
    one = program()["wg_reloaded"]
    file.write_text("A = 22")
    assert program()["wg_reloaded"] == one, "an edit while it runs is not loaded"
    importlib.reload(module)
    assert program()["wg_reloaded"] != one


def test_kernels_that_were_compiled_just_now_do_not_count(tmp_path, monkeypatch):
    """They may lie beside the program (`/tmp`), and a warm process has others than a cold one."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, file in (("cabc.kernel", "ca/cabc.main.so"), ("wg_own", "wg_own.cpython-311-x86_64-linux-gnu.so")):
        module = types.ModuleType(name)
        module.__file__ = str(tmp_path / file)
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_bytes(b"1")
        monkeypatch.setitem(sys.modules, name, module)
    found = program()
    assert "wg_own" in found
    assert "cabc.kernel" not in found


def test_a_package_counts_by_its_files_and_not_by_where_it_lies(tmp_path, monkeypatch):
    def installed(folder, digest, prefix="/one"):
        place = tmp_path / folder / "site-packages"
        info = place / "pack-1.0.dist-info"
        info.mkdir(parents=True)
        lines = [f"../../bin/pack,sha256={prefix},9", f"pack/a.py,sha256={digest},3", "pack/__pycache__/a.pyc,,"]
        (info / "RECORD").write_text("\n".join(lines))
        monkeypatch.setattr(sys, "path", [str(place)])
        return of_program._installed.__wrapped__()  # not what this process has kept

    one = installed("one", "aaa")
    assert installed("other", "aaa", "/other") == one
    assert installed("edited", "bbb") != one


def test_a_program_without_a_file_is_not_served(monkeypatch):
    main = type(sys)("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(of_program, "_known", {})
    monkeypatch.setattr(sys, "orig_argv", ["python"])
    with pytest.raises(NotServed, match="typed in"):
        program()
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", "print(1)"])
    one = program()["__main__"]
    monkeypatch.setattr(of_program, "_known", {})
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", "print(2)"])
    assert program()["__main__"] != one
