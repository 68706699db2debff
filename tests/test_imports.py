"""The house: imports point one way, private torch sits in one room, the cache starts without torch."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("hashing", "cache", "backend", "scripts")
ALLOWED = {
    "hashing": {"hashing"},
    "cache": {"cache"},
    "backend": {"backend", "hashing", "cache"},
    "scripts": {"scripts", "backend", "hashing", "cache"},
    "warmgraph": {"backend", "cache", "hashing", "scripts", "warmgraph"},
}
TORCH_API = ROOT / "backend" / "torch_api"
FILES = [path for room in (*ROOMS, "warmgraph") for path in sorted((ROOT / room).rglob("*.py"))]


def imported(path):
    """Absolute dotted names of everything that a file imports, wherever in the file."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            here = ("warmgraph", *path.relative_to(ROOT).parent.parts)
            package = here[: len(here) - node.level + 1] if node.level else ()
            module = ".".join([*package, *([node.module] if node.module else [])])
            names += [module, *[f"{module}.{a.name}" for a in node.names]]
    return names


def test_each_folder_of_the_product_is_in_the_wheel():
    folders = {path.parent.relative_to(ROOT).parts for path in FILES if path.name == "__init__.py"}
    listed = re.search(r"^packages = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE)
    found = {".".join(parts if parts[0] == "warmgraph" else ("warmgraph", *parts)) for parts in folders}
    assert found == set(re.findall(r'"(.+)"', listed[1]))


def home(path):
    return path.relative_to(ROOT).parts[0]


def name_of(path):
    return str(path.relative_to(ROOT))


def room_of(name):
    parts = name.split(".")
    if parts[0] != "warmgraph":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else "warmgraph"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_point_one_way(path):
    """scripts -> backend -> {hashing, cache}; hashing and cache never see each other."""
    rooms = {room_of(name) for name in imported(path)} - {None}
    assert rooms <= ALLOWED[home(path)]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_another_room_is_entered_by_its_door(path):
    """Only a package's `__init__` is public; no room reaches into another's modules."""
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "warmgraph" and len(parts) > 2 and parts[1] in ROOMS and parts[1] != home(path):
            module = ROOT / parts[1] / f"{parts[2]}.py"
            assert not module.is_file() or len(parts) == 3, name


# Imported, not used: so that the demo does not count it to the first call.
EXCUSED = {"scripts/demo/worker.py": {"torch._dynamo"}}

# Private by their names, and what torch's documentation tells users to write: advice names them.
DOCUMENTED = re.compile(
    r"torch\._(dynamo\.(config|mark_dynamic|mark_static_address|reset)|inductor\.config|functorch\.config)\b"
)
# Names of torch as data for keys: what user code may read of it. `hashing` imports no other room.
NAMES_AS_DATA = {"hashing/torch_names.py", "hashing/source_code/purity.py"}


def private_torch(source):
    """Every private name of torch in a program: imported, as an attribute, or in a text that is no docstring."""
    tree = ast.parse(source)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node, clean=False)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if is_private(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (name for a in node.names if is_private(name := f"{node.module}.{a.name}"))
        elif isinstance(node, ast.Attribute) and is_private(ast.unparse(node)):
            yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            text = DOCUMENTED.sub("", node.value)
            yield from re.findall(r"\btorch(?:\.\w+)*\._[a-zA-Z]\w*|\b_(?:inductor|dynamo|functorch)\.\w+", text)


def is_private(name):
    first, *parts = name.split(".")
    public = first != "torch" or parts[:1] == ["ops"]  # operators are the words of graphs
    return not public and any(re.match(r"_[a-zA-Z]", part) for part in parts)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_private_torch_is_named_in_one_room(path):
    """`backend/torch_api/`: a new torch is read against one folder."""
    if TORCH_API in path.parents or name_of(path) in NAMES_AS_DATA:
        return
    assert set(private_torch(path.read_text())) - EXCUSED.get(name_of(path), set()) == set()


@pytest.mark.parametrize(
    "planted",
    [
        "import torch._inductor",
        "from torch._dynamo import config",
        "from torch import _guards",
        "torch._C._get_tracing_state()",
        "def f():\n    return torch.fx._pytree",
        "import_module('torch._inductor.lowering')",
        "name = f'torch._functorch.{x}'",
        "getattr(torch, '_inductor.codecache')",
    ],
)
def test_private_torch_elsewhere_is_found(planted):
    assert list(private_torch(planted))


# What each may import, of the packages and modules beside it: those before it.
ORDER = {
    "hashing": "torch_names origin key encoding source_code parts cache_hash build",
    "cache": "typing process format config stores profiles tiers journal transfer remote factory",
    "backend": """
        torch_api process_cache reporting typing pgo artifact key verify cudagraphs compilers frames engine backend vllm
    """,
}


@pytest.mark.parametrize("room", ORDER)
def test_packages_of_a_room_are_imported_in_one_order(room):
    order = ORDER[room].split()
    for path in sorted((ROOT / room).rglob("*.py")):
        here = path.relative_to(ROOT / room).parts[0].removesuffix(".py")
        if here == "__init__":
            continue
        used = {name.split(".")[2] for name in imported(path) if name.startswith(f"warmgraph.{room}.")}
        late = {other for other in used if other in order and order.index(other) > order.index(here)}
        assert not late, f"{name_of(path)} imports {late}"


@pytest.mark.parametrize("room", ROOMS)
def test_a_level_holds_about_ten_things(room):
    for folder in [ROOT / room, *(path for path in (ROOT / room).rglob("*") if path.is_dir())]:
        if folder.name not in ("__pycache__", "startup"):
            things = [path for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
            assert len(things) <= 19, folder


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_says_what_it_is_and_stays_readable(path):
    """A docstring on the first line; about 300 lines at most."""
    text = path.read_text()
    assert text.startswith('"""')
    assert len(text.splitlines()) <= 330


def test_the_cache_and_the_command_line_start_without_torch():
    """Their tools are for hosts that have no torch, and for scripts that have no second."""
    program = (
        "import sys, warmgraph, warmgraph.cache, warmgraph.scripts\n"
        "warmgraph.scripts.main(['config', '--json'])\n"
        "sys.exit(any(name.split('.')[0] == 'torch' for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_top_level_names_are_not_taken():
    """Users have modules called `cache` and `backend` of their own."""
    program = "import importlib.util as u, sys; sys.exit(any(u.find_spec(n) for n in ('cache', 'backend', 'hashing')))"
    subprocess.run([sys.executable, "-c", program], check=True, cwd="/")
