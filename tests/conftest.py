"""Fresh processes and fresh stores for every test. No test sees another's cache, or the user's."""

import collections
import contextlib
import fcntl
import gc
import importlib.util
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import hypothesis
import pytest
from warmgraph.cache import reset_settings

STARTED = time.monotonic()
ROOT = Path(__file__).resolve().parent.parent
WORKER = ROOT / "benchmarks" / "worker.py"

# A slow machine is no failure: no deadlines. Here, since a property takes the profile that is loaded at its import.
hypothesis.settings.register_profile("slow", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("slow")

# Here and in every process that is started here (the file says why).
STARTUP = ROOT / "tests" / "startup"
runpy.run_path(str(STARTUP / "sitecustomize.py"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(STARTUP), os.environ.get("PYTHONPATH")]))

# A shell that runs the tests in the background has SIGINT ignored, and so would every program that is started here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Runs of the same claim over many cases, or with minutes of compiling: of these files' tests `make test` runs one case
# in so many, and what is claimed once (0: nothing at all); `make exhaustive` runs the others.
ONE_IN = {
    "backend/artifact/test_damage.py": 5,
    "backend/compilers/test_conformance.py": 6,
    "backend/test_dynamic.py": 0,
    "backend/test_folders.py": 4,
    "backend/test_kinds.py": 0,  # all its cases share three processes
    "backend/test_models.py": 0,
    "backend/test_settings.py": 12,
    "backend/test_shared_ranks.py": 0,
    "backend/test_wrong_hits.py": 0,  # one process each for all of its cases
    "backend/torch_api/test_moved_names.py": 0,
    "backend/torch_api/test_surface.py": 12,
    "backend/verify/test_verified.py": 0,
    "constructs/test_constructs.py": 128,
    "constructs/test_first_calls.py": 0,
    "docs/test_commands.py": 40,
    "frames/test_calls.py": 3,
    "frames/test_data.py": 12,
    "frames/test_generated.py": 0,
    "frames/test_probes.py": 28,
    "frames/test_processes.py": 0,
    "frames/test_ranks.py": 0,
    "hooks/test_hooks.py": 0,
    "keys/pairs/test_pairs.py": 80,
    "keys/test_import_orders.py": 0,
    "keys/test_oracle.py": 0,
    "page/test_page.py": 6,
    "remote/test_faults.py": 0,
    "remote/test_network.py": 4,
    "remote/test_simulation.py": 0,
}


def pytest_collection_modifyitems(items):
    """Marks what is exhaustive, by the order of tests in their file."""
    seen = collections.Counter()
    for item in items:
        file = item.path.relative_to(ROOT / "tests").as_posix()
        every = ONE_IN.get(file, 1)
        if not every or (hasattr(item, "callspec") and seen[file] % every):
            item.add_marker(pytest.mark.exhaustive)
        seen[file] += hasattr(item, "callspec")


def pytest_addoption(parser):
    parser.addoption("--minutes", type=float, help="start no test after so many minutes; those left are skipped")


@pytest.hookimpl(tryfirst=True)  # before any fixture is set up
def pytest_runtest_setup(item):
    """CI has a limit, and machines differ by a factor of two: what a slow one does not reach is told as skipped."""
    minutes = item.config.getoption("--minutes")
    if minutes is not None and time.monotonic() - STARTED > minutes * 60:
        pytest.skip(f"not reached within --minutes={minutes:g}")


@pytest.fixture(autouse=True)
def own_settings(tmp_path, monkeypatch, inductor_cache):
    """A store of the test's own; what the developer's shell says does not reach it."""
    for name in [name for name in os.environ if name.startswith("WARMGRAPH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WARMGRAPH_DIR", str(tmp_path / "store"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(inductor_cache))
    reset_settings()
    yield
    reset_settings()


@pytest.fixture(autouse=True)
def no_classes_of_transformers(monkeypatch):
    """A test before may have loaded transformers: torch's trees then know its classes, and keys speak of them."""
    if "transformers" in sys.modules:
        from torch.utils._pytree import SUPPORTED_NODES

        for kind in [kind for kind in SUPPORTED_NODES if kind.__module__.startswith("transformers.")]:
            monkeypatch.delitem(SUPPORTED_NODES, kind)


@pytest.fixture(scope="session")
def together(tmp_path_factory):
    """A folder that all of pytest's own processes share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def inductor_cache(together):
    """Inductor's own folder for processes with a compiler: its probes and precompiled headers take seconds to make."""
    folder = together / "inductor"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def once(together):
    """`once(name, make)`: what `make` returns (plain values), made by whichever of pytest's processes comes first."""

    def once(name, make):
        made = together / f"{name}.json"
        with (together / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                made.write_text(json.dumps(make()))
            return json.loads(made.read_text())

    return once


def unset():
    """This process's environment, less what says something to torch or to us."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("WARMGRAPH_", "TORCH"))}


@pytest.fixture(scope="session")
def cleared():
    """The environment that `unset` leaves, for fixtures that outlive a test."""
    return unset()


@pytest.fixture(scope="session")
def fork_server():
    """`with fork_server(folder, *modules, env=None) as ask`: answers to tasks, of fresh processes (fork_server.py)."""

    @contextlib.contextmanager
    def fork_server(folder, *modules, env=None):
        command = [sys.executable, str(ROOT / "tests" / "fork_server.py"), str(folder), *modules]
        # Inductor's settings, where a module loads them, are read once for all children: no pool of workers in each.
        env = dict(os.environ if env is None else env, TORCHINDUCTOR_COMPILE_THREADS="1")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:

            def ask(task):
                process.stdin.write(json.dumps(task) + "\n")
                process.stdin.flush()
                answer = process.stdout.readline()
                assert answer, f"the server ended with {process.wait()}"
                return json.loads(answer)

            yield ask
            process.stdin.close()
            process.wait(60)

    return fork_server


@pytest.fixture(scope="session")
def load_module():
    """`load_module(path)`: a module of the tests' own, once; pytest's importlib mode puts no folder on the path."""

    def load_module(path):
        name = f"warmgraph_tests_{path.parent.name}_{path.stem}"
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, path)
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
        return sys.modules[name]

    return load_module


@pytest.fixture
def environment(tmp_path, inductor_cache):
    """Makes the environment of a fresh process: `environment(compiler=False, name="x", WARMGRAPH_MODE="off")`."""
    made = 0

    def make(*, compiler=True, **extra):
        nonlocal made
        made += 1
        place = tmp_path / f"process-{made}"
        (place / "bin").mkdir(parents=True)
        found = unset()
        found.update(
            WARMGRAPH_DIR=str(tmp_path / "store"),
            WARMGRAPH_STRICT="1",
            # Without a compiler a process is another host: nothing of Inductor's is there.
            TORCHINDUCTOR_CACHE_DIR=str(inductor_cache if compiler else place / "inductor"),
            TORCHINDUCTOR_COMPILE_THREADS="1",  # starting a pool of workers costs more than these kernels
            HF_HUB_OFFLINE="1",
            # Inductor's parallel atomics (a gradient of an embedding) round differently from run to run, with
            # or without a cache; bit-equality can be asked of one thread only.
            OMP_NUM_THREADS="1",
        )
        if not compiler:
            found["PATH"] = str(place / "bin")
        found.update({name: str(value) for name, value in extra.items()})
        return found

    return make


@pytest.fixture
def run_python(environment, tmp_path):
    """Runs a program text in a fresh process; returns what it printed, parsed as JSON if it can be."""

    def run(program, *arguments, expect=0, compiler=True, **extra):
        process = subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)],
            env=environment(compiler=compiler, **extra),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert process.returncode == expect, process.stderr[-4000:]
        lines = process.stdout.strip().splitlines()
        try:
            return json.loads(lines[-1]) if lines else None
        except ValueError:
            return process.stdout

    return run


@pytest.fixture(scope="session")
def run_in(inductor_cache):
    """Runs a program in a folder that holds a store for several processes; returns the JSON that it prints last."""

    def run_in(folder, program, *arguments, **extra):
        environment = unset() | {"WARMGRAPH_DIR": str(folder / "store"), "WARMGRAPH_STRICT": "1"}
        environment |= {"TORCHINDUCTOR_CACHE_DIR": str(inductor_cache)} | extra
        process = subprocess.run(
            [sys.executable, str(program), *arguments],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=550,
        )
        assert process.returncode == 0, process.stderr[-4000:]
        return json.loads(process.stdout.splitlines()[-1])

    return run_in


@pytest.fixture
def run_worker(environment, tmp_path):
    """Runs `benchmarks/worker.py` in a fresh process and returns the JSON it prints."""

    def run(*arguments, compiler=True, **extra):
        process = subprocess.run(
            [sys.executable, str(WORKER), "--watch", *map(str, arguments)],
            env=environment(compiler=compiler, **extra),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert process.returncode == 0, process.stderr[-4000:]
        return json.loads(process.stdout.strip().splitlines()[-1])

    return run


@pytest.fixture
def mounted(tmp_path):
    """Mounts a tmpfs with the given options, where that is permitted."""
    mounts = []

    def mount(options):
        folder = tmp_path / f"mount{len(mounts)}"
        folder.mkdir(mode=0o700)
        if os.geteuid() != 0:
            pytest.skip("mounting a file system needs root")
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
        mounts.append(folder)
        return folder

    yield mount
    for folder in mounts:
        subprocess.run(["umount", "-l", folder], check=True)


def pytest_collection_finish():
    """What was imported stays; no full collection need pass over it in each of thousands of tests."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter):
    """The list of every input of a key that was changed alone, one line per part (`tests/keys/`)."""
    fields = {}
    for report in terminalreporter.getreports("passed"):  # under xdist, from the workers' reports
        for name, value in report.user_properties:
            if name == "key_field":
                fields.setdefault(value[0], []).append(value[1])
    if fields:
        terminalreporter.section("inputs of a key, each changed alone")
    for part in sorted(fields):
        terminalreporter.write_line(f"{part} ({len(fields[part])}): {', '.join(sorted(fields[part]))}")
