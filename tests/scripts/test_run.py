"""`warmgraph run`: the program is as without it, and its `torch.compile` calls use the cache; so do its children's."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RUN = [sys.executable, "-m", "warmgraph", "run"]

# Inductor's kernels are not what is tested: none is made, and g++ not run.
HEAD = """
import torch, torch._inductor.config
torch._inductor.config.fallback_by_default = True
def double(x):
    return x * 2 + 1
"""

SMALL = HEAD + "print(torch.compile(double)(torch.ones(3)).tolist())\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of programs with a store, shared by the tests: what one compiles, the next ones hit."""
    return tmp_path_factory.mktemp("programs")


@pytest.fixture
def start(folder: Path, environment: Callable[..., dict[str, str]]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Writes a program to the shared folder and runs a command there; returns what it came to."""

    def call(command: list[str], program: str | None = None, name: str = "small.py", **extra: object) -> Any:
        if program is not None:
            (folder / name).write_text(textwrap.dedent(program))
        variables = environment(WARMGRAPH_DIR=folder / "store", **extra)
        return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300)

    return call


# -- the program, as it is without us


FACTS = """
import os, sys
facts = (sys.argv, sys.path, __name__, __file__, __spec__, sys.flags, sys.warnoptions, sys.stdout.write_through)
print(facts, [name for name in sys.modules if name.startswith("warmgraph")], os.getcwd())
sys.exit(7)
"""


@pytest.mark.parametrize("options", [[], ["-u", "-O", "-W", "ignore", "-X", "faulthandler"]], ids=["plain", "options"])
def test_a_program_sees_what_it_sees_without_us(start: Any, options: list[str]) -> None:
    """Arguments, path, `__main__`, interpreter options, exit status; nothing of warmgraph is imported."""
    arguments = ["small.py", "--json", "-m", "--", "x y", "--help"]
    there = start([sys.executable, *options, *arguments], FACTS)
    here = start([sys.executable, *options, *RUN[1:], *arguments], FACTS)
    assert there.returncode == 7, there.stderr
    assert (here.returncode, here.stdout, here.stderr) == (7, there.stdout, there.stderr)


def test_a_module_sees_what_it_sees_without_us(start: Any, folder: Path) -> None:
    """`-m package.module ARGS` is `python -m package.module ARGS`, and its `--help` is its own."""
    (folder / "package").mkdir()
    (folder / "package" / "inner.py").write_text(FACTS)
    arguments = ["-m", "package.inner", "--help", "-m"]
    there, here = start([sys.executable, *arguments]), start([*RUN, *arguments])
    assert there.returncode == 7, there.stderr
    said = [re.sub(r" at 0x[0-9a-f]+", "", done.stdout) for done in (there, here)]
    assert (here.returncode, said[1]) == (7, said[0])


def test_a_traceback_has_no_frame_of_ours(start: Any) -> None:
    """An error of the program reads as it does without us, and exits with the same status."""
    program = "def f():\n    raise ValueError('no')\nf()\n"
    there, here = start([sys.executable, "small.py"], program), start([*RUN, "small.py"], program)
    assert (here.returncode, here.stderr) == (1, there.stderr)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_program_itself(
    folder: Path, environment: Callable[..., dict[str, str]], number: signal.Signals
) -> None:
    """There is no process in between: it ends by the signal, as a shell expects it (130 for Ctrl-C)."""
    (folder / "wait.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    # A shell may have started the tests with SIGINT ignored, which children inherit.
    heeding = "import signal, os, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    heeding += "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    command = [sys.executable, "-c", heeding, *RUN[1:], "wait.py"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=folder, env=environment(), text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == -number
    assert "warmgraph" not in errors


def test_another_sitecustomize_is_run(start: Any, folder: Path) -> None:
    """The one that Python would have found without ours."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text("import sys; sys.found = __file__\n")
    program = "import sys, sitecustomize; print(sys.found, sitecustomize.__file__)"
    done = start([*RUN, "small.py"], program, PYTHONPATH=folder / "site")
    place = str(folder / "site" / "sitecustomize.py")
    assert done.stdout.split() == [place, place], done.stderr


# -- what it compiles


def test_what_is_not_compiled_costs_little(start: Any) -> None:
    """Who imports torch gets neither Dynamo nor the backend with it, and may still set what they read."""
    names = ["torch", "torch._dynamo", "warmgraph.backend.backend"]
    done = start(
        [*RUN, "--summary", "none", "small.py"], f"import sys, torch; print(*[n in sys.modules for n in {names}])"
    )
    assert (done.stdout, done.stderr) == ("True False False\n", "")


CALLS = (
    HEAD
    + """
import warmgraph
torch.compiler.set_default_backend("inductor")
class Module(torch.nn.Module):
    def forward(self, x):
        return x.sin()
def said():
    counts = warmgraph.stats()
    return [counts[name] for name in ("hits", "misses", "bypasses", "failures")]
def call(name, function, *inputs):
    before = said()
    torch._dynamo.reset()
    function(*inputs or (torch.ones(3),))
    print(name, [now - then for now, then in zip(said(), before)])

call("default", torch.compile(double))
call("inductor", torch.compile(double, backend="inductor"))
call("decorator", torch.compile(fullgraph=True, dynamic=False)(double))
call("mode", torch.compile(double, mode="max-autotune-no-cudagraphs"))
call("options", torch.compile(double, options={"epilogue_fusion": False}))
module = Module()
module.compile()
call("module", module)
call("eager", torch.compile(double, backend="eager"))
call("aot_eager", torch.compile(double, backend="aot_eager"))
call("callable", torch.compile(double, backend=lambda gm, inputs: gm.forward))
call("cudagraphs", torch.compile(double, backend="cudagraphs"))
call("warmgraph", torch.compile(double, backend="warmgraph"))
call("aot_compile", lambda x: torch.compile(double, fullgraph=True).aot_compile(((x,), {})))
torch.compiler.set_default_backend("eager")
call("default eager", torch.compile(double))
torch.compiler.set_default_backend(None)
for wrong in ({"options": {"nonsense": 1}}, {"mode": "nonsense"}, {"backend": "nonsense"}):
    try:
        torch.compile(double, **wrong)(torch.ones(3))
    except Exception as error:
        print("error", type(error).__name__, str(error)[:36])
"""
)


@pytest.fixture
def warm(start: Any, folder: Path) -> list[str]:
    """The store has the graph of `double`, from the program above. Lines: what it printed, and its summary."""
    kept = folder / "calls.txt"
    if not kept.exists():
        done = start([*RUN, "calls.py"], CALLS, "calls.py")
        assert done.returncode == 0, done.stderr
        kept.write_text(done.stdout + "\n".join(re.findall(r"^warmgraph: .*", done.stderr, re.MULTILINE)))
    return kept.read_text().splitlines()


def test_every_way_to_name_inductor_is_taken_and_no_other(warm: list[str]) -> None:
    """Decorators, modules, modes and options; `eager`, `aot_eager`, functions and errors are as without us."""
    looked = {name: sum(map(int, counts.split(","))) for name, counts in re.findall(r"(.*) \[(.*)\]", "\n".join(warm))}
    taken = ["default", "inductor", "decorator", "mode", "options", "module", "cudagraphs", "warmgraph"]
    others = ["eager", "aot_eager", "callable", "default eager", "aot_compile"]
    assert looked == dict.fromkeys(taken, 1) | dict.fromkeys(others, 0)
    assert [line for line in warm if line.startswith("error")] == [
        "error RuntimeError Unexpected optimization option nonse",
        "error RuntimeError Unrecognized mode=nonsense, should b",
        "error InvalidBackend Invalid backend: 'nonsense', see `to",
    ]
    assert re.match(r"warmgraph: \S+ % of \d lookups were hits; .* 1 without CUDA graphs", warm[-1])


def test_what_was_compiled_is_found_again(start: Any, warm: list[str]) -> None:
    """In another process, without a compiler. The program names no backend, and nothing of warmgraph."""
    done = start([*RUN, "small.py"], SMALL, compiler=False)
    assert (done.returncode, done.stdout) == (0, "[3.0, 3.0, 3.0]\n"), done.stderr
    assert re.fullmatch(r"warmgraph: 100 % of 1 lookups were hits; .*\n", done.stderr)


FRAMES = (
    HEAD
    + """
import sys, warmgraph
options = {"epilogue_fusion": sys.argv[1] == "fused"}
result = torch.compile(double, options=options)(torch.ones(3)).tolist()
print(result, warmgraph.stats()["restored"], torch._dynamo.utils.counters["stats"]["calls_captured"])
"""
)


@pytest.mark.exhaustive
def test_frames_are_restored_instead_of_traced(start: Any) -> None:
    """In another process, where the options given to `torch.compile` are the same."""
    run = [*RUN, "frames.py"]
    options = ["fused", "fused", "apart", "apart"]
    done = [start([*run, option], FRAMES, "frames.py", WARMGRAPH_FRAMES=1) for option in options]
    assert [one.returncode for one in done] == [0] * 4, done[0].stderr
    traced, restored = "[3.0, 3.0, 3.0] 0 2\n", "[3.0, 3.0, 3.0] 1 0\n"
    assert [one.stdout for one in done] == [traced, restored, traced, restored]


# -- its children


SPAWNED = (
    HEAD
    + """
import multiprocessing, pickle
class Mine:
    pass
def compiled(method):
    import warmgraph
    torch._inductor.config.fallback_by_default = True
    result = torch.compile(double)(torch.ones(3)).tolist()
    print(method, result, [warmgraph.stats()[name] for name in ("hits", "misses")], flush=True)
    return Mine()
if __name__ == "__main__":
    for method in ("spawn", "fork"):
        context = multiprocessing.get_context(method)
        with context.Pool(1) as pool:
            assert type(pool.apply(compiled, (method,))) is Mine
            pool.close()
            pool.join()
    assert type(pickle.loads(pickle.dumps(Mine()))) is Mine
"""
)


@pytest.mark.exhaustive
def test_children_use_it_too(start: Any, warm: list[str]) -> None:
    """Workers, spawned or forked: each tells of its own graphs. Classes of `__main__` are pickled as ever."""
    done = start([*RUN, "spawned.py"], SPAWNED, "spawned.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "spawn [3.0, 3.0, 3.0] [1, 0]",
        "fork [3.0, 3.0, 3.0] [1, 0]",
    ]
    told = [line for line in done.stderr.splitlines() if line.startswith("warmgraph")]
    assert [line.count("100 % of 1 lookups") for line in told] == [1, 1, 0]
    assert re.fullmatch(r"warmgraph: nothing in this process \(\d+\) was compiled through it", told[2])


def test_a_child_elsewhere_is_left_alone(start: Any) -> None:
    """A child whose Python has no warmgraph runs as ever; so does one that finds the folder without being told."""
    alone = "import sys; sys.modules['warmgraph'] = None; import torch; print(torch._TorchCompileInductorWrapper.reset)"
    program = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {alone!r}]).returncode)"
    done = start([*RUN, "small.py"], program)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_TorchCompileInductorWrapper.reset" in done.stdout


RANK = (
    HEAD
    + """
import sys
import torch.distributed as dist
import torch.distributed.nn  # before there is a group, which it would keep, with threads that abort at exit
dist.init_process_group("gloo")
total = torch.compile(double)(torch.ones(3)).sum()
dist.all_reduce(total)
sys.stdout.write(f"rank {dist.get_rank()} {total.item()} {sys.argv[1:]}\\n")
dist.destroy_process_group()
"""
)
LAUNCH = ["--standalone", "--nproc-per-node", "2"]


@pytest.mark.exhaustive
def test_ranks_use_it_and_one_of_them_says_so(start: Any, warm: list[str]) -> None:
    """`warmgraph run -m torch.distributed.run ... train.py`: both ranks hit, rank 0 says so."""
    command = [*RUN, "-m", "torch.distributed.run", *LAUNCH, "rank.py", "--summary", "x"]
    done = start(command, RANK, "rank.py")
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} 18.0 ['--summary', 'x']" for rank in (0, 1)]
    told = re.findall(r"warmgraph, rank (\d): (\S+ %) of 1 lookups", done.stderr)
    assert told == [("0", "100 %")]


SAY = """
import os, sys
hooked = [type(finder).__name__ for finder in sys.meta_path[:1]]
summary = os.environ["WARMGRAPH_RUN"].split()[0]
sys.stdout.write(f"{os.environ['RANK']} {sys.argv} {hooked} {summary}\\n")  # one piece: the ranks share a pipe
"""
WARMGRAPH = str(Path(sys.executable).parent / "warmgraph")
FORMS = {
    "a script": [*LAUNCH, WARMGRAPH, "run", "--summary", "all", "say.py", "-x"],
    "no python": [*LAUNCH, "--no-python", WARMGRAPH, "run", "--summary", "all", "say.py", "-x"],
    "a module": [*LAUNCH, "-m", "warmgraph", "run", "--summary", "all", "say.py", "-x"],
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_torchrun_may_start_it(start: Any, form: list[str]) -> None:
    """In each of the ways in which `torchrun` starts a program."""
    if not Path(WARMGRAPH).exists():
        pytest.skip("warmgraph is not installed beside this Python")
    done = start([sys.executable, "-m", "torch.distributed.run", *form], SAY, "say.py")
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(done.stdout.splitlines()) == [f"{rank} ['say.py', '-x'] ['_AfterTorch'] all" for rank in "01"]


# -- the command line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.py"], "there is no file nowhere.py"),
        (["sh"], "sh is a command; if it is a Python program: warmgraph run /"),
        ([], "Missing argument"),
        (["--summary", "loud", "x.py"], "rank0"),
    ],
)
def test_what_cannot_be_run_exits_2(run: Any, arguments: list[str], said: str) -> None:
    """Told before anything is started, with what to do."""
    ran = run("run", *arguments)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


def test_a_wrong_setting_is_told_before_the_program_begins(start: Any) -> None:
    """Not after it has loaded its data."""
    done = start([*RUN, "small.py"], "print('begun')", WARMGRAPH_MODE="sometimes")
    assert (done.returncode, done.stdout) == (2, "")
    assert "WARMGRAPH_MODE" in done.stderr


def test_off_is_off(start: Any) -> None:
    """It says so, and runs the program."""
    done = start([*RUN, "small.py"], "print('begun')", WARMGRAPH_MODE="off")
    assert (done.returncode, done.stdout) == (0, "begun\n")
    assert done.stderr == "WARMGRAPH_MODE=off: the program runs without warmgraph\n"


def test_pythons_that_would_not_heed_it_are_refused(start: Any) -> None:
    """`python -E` and its like read no PYTHONPATH: better an error than a program that silently compiles."""
    done = start([sys.executable, "-E", *RUN[1:], "small.py"], "print('begun')")
    assert (done.returncode, done.stdout) == (2, "")
    assert "-E" in done.stderr
