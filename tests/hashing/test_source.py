"""Code by content: whatever a function reaches changes its digest, or is a reason why it has none."""

import dataclasses
import enum
import functools
import importlib
import linecache
import logging
import sys
import types
import typing

import pytest
import torch
from warmgraph.hashing import Uncacheable, fixed, source_digest

COUNT = iter(range(10**6))


def module(text, **attributes):
    """A real module with source that `inspect` can read."""
    name = f"made_{next(COUNT)}"
    made = types.ModuleType(name)
    made.__file__ = f"/made/{name}.py"
    linecache.cache[made.__file__] = (len(text), None, text.splitlines(keepends=True), made.__file__)
    sys.modules[name] = made
    vars(made).update(attributes)
    exec(compile(text, made.__file__, "exec"), vars(made))
    return made


def digest(text, **attributes):
    return source_digest(module(text, **attributes).f, "f")


BASE = "def helper(x):\n    return x * {k}\n\nK = {g}\n\ndef f(x, by={d}):\n    return helper(x) + K + by\n"


def test_the_same_code_has_the_same_digest_wherever_it_lies():
    """Module names and addresses do not matter."""
    assert digest(BASE.format(k=2, g=1, d=5)) == digest(BASE.format(k=2, g=1, d=5))


@pytest.mark.parametrize("change", [{"k": 3}, {"g": 2}, {"d": 6}], ids=["a helper", "a global", "a default"])
def test_what_a_function_reaches_is_part_of_it(change):
    """Functions it calls, globals it reads, defaults it has."""
    plain = {"k": 2, "g": 1, "d": 5}
    assert digest(BASE.format(**plain)) != digest(BASE.format(**plain | change))


def test_closures_are_followed_into_functions():
    """A captured function is code, a captured number a constant."""

    def make(scale, inner):
        return lambda x: inner(x) * scale

    def double(x):
        return x + x

    def triple(x):
        return x * 3

    digests = {source_digest(make(scale, inner), "f") for scale, inner in ((1, double), (2, double), (1, triple))}
    assert len(digests) == 3


def test_two_lambdas_on_one_line_are_two():
    """inspect gives both the whole line."""
    first, second = (lambda x: x * 2), (lambda x: x * 3)
    assert source_digest(first, "f") != source_digest(second, "f")


def test_methods_and_bases_are_part_of_a_class():
    """A subclass's behaviour is what it inherits as well."""
    base = "class Base:\n    def g(self):\n        return {k}\n\n"
    text = base + "class f(Base):\n    def h(self):\n        return self.g()\n"
    assert digest(text.format(k=1)) == digest(text.format(k=1))
    assert digest(text.format(k=1)) != digest(text.format(k=2))


def test_a_module_is_what_is_used_of_it():
    """`helpers.scale` counts, the rest of `helpers` does not."""
    text = "def f(x):\n    return helpers.scale(x)\n"
    helpers = "def scale(x):\n    return x * {k}\n\ndef other():\n    return {o}\n"

    def with_helpers(**values):
        return digest(text, helpers=module(helpers.format(**values)))

    assert with_helpers(k=2, o=1) == with_helpers(k=2, o=9)
    assert with_helpers(k=2, o=1) != with_helpers(k=3, o=1)


def test_modules_that_hold_each_other_end():
    """The walk does not go in circles."""
    one, other = module("def scale(x):\n    return x\n"), module("x = 1\n")
    one.other, other.one = other, one
    text = "def f(x):\n    return one.other.one.scale(x)\n"
    assert digest(text, one=one) == digest(text, one=one)


def test_recursion_and_caches_and_loggers_are_no_obstacle():
    """Ordinary code stays describable."""
    text = (
        "log = logging.getLogger('x')\n\n"
        "@functools.lru_cache\ndef table(n):\n    return {k} * n\n\n"
        "def f(n):\n    log.info('n')\n    return f(n - 1) if n else torch.sin(table(n))\n"
    )
    names = {"logging": logging, "functools": functools, "torch": torch}
    assert digest(text.format(k=1), **names) == digest(text.format(k=1), **names)
    assert digest(text.format(k=1), **names) != digest(text.format(k=2), **names)


@pytest.mark.parametrize("value", [object(), torch.ones(2), iter([])], ids=["an object", "a tensor", "an iterator"])
def test_what_cannot_be_seen_is_refused_by_name(value):
    """With the function it belongs to."""
    with pytest.raises(Uncacheable, match="backward of op"):
        source_digest(module("def f(x):\n    return x, thing\n", thing=value).f, "backward of op")


def test_what_exec_made_is_seen_as_well():
    """A dataclass's methods, a namedtuple's, what was typed at a prompt: bytecode says what they do."""

    def typed(by):
        space = {}
        exec(f"def f(x):\n    return x * {by}\n", space)
        return source_digest(space["f"], "f")

    assert typed(2) == typed(2) != typed(3)


def test_a_file_that_was_edited_since_it_was_imported_does_not_matter(tmp_path, monkeypatch):
    """What runs is what was imported; another process that reads the new file must not be served its code."""
    path = tmp_path / "edited_helper.py"
    path.write_text("def f(x):\n    return x * 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    imported = importlib.import_module("edited_helper")
    before = source_digest(imported.f, "f")
    path.write_text("def f(x):\n    return x * 3   # new\n")
    linecache.checkcache()
    assert source_digest(imported.f, "f") == before


def test_neither_comments_nor_how_often_it_ran_matter():
    """The interpreter rewrites the bytecode of what runs often; the digest is of what was compiled."""
    plain, commented = (module(f"def f(x):\n    return x * 2{end}\n").f for end in ("", "  # twice"))
    before = source_digest(plain, "f")
    assert source_digest(commented, "f") == before
    for number in range(5000):
        plain(number)
    assert source_digest(plain, "f") == before


# Pairs that differ in one place that is easy to overlook: {k} is the place.
EASY_TO_OVERLOOK = {
    "a user's function with torch's name": (
        "@functools.wraps(torch.nn.functional.gelu)\ndef inner(x):\n    return x * {k}\n\n"
        "def f(x):\n    return inner(x)\n"
    ),
    "a function that torch decorates": (
        "@torch.no_grad()\ndef inner(x):\n    return x * {k}\n\ndef f(x):\n    return inner(x)\n"
    ),
    "what a method is bound to": "TABLE = {{'by': {k}}}\nlook = TABLE.get\n\ndef f(x):\n    return x * look('by')\n",
    "what an operator is bound to": "times = ({k}).__mul__\n\ndef f(x):\n    return times(x)\n",
    "an attribute of a function": "def f(x):\n    return x * f.by\n\nf.by = {k}\n",
    "an enum's value": ("class By(enum.Enum):\n    SCALE = {k}\n\ndef f(x, by=By.SCALE):\n    return x * by.value\n"),
    "a dataclass's field": (
        "@dataclasses.dataclass\nclass Config:\n    by: float = 1\n\n"
        "config = Config({k})\n\ndef f(x):\n    return x * config.by\n"
    ),
    "a dataclass's default": (
        "@dataclasses.dataclass\nclass Config:\n    by: list = dataclasses.field(default_factory=lambda: {k})\n\n"
        "def f(x):\n    return x * Config().by\n"
    ),
    "a named tuple's default": (
        "class Config(typing.NamedTuple):\n    by: int = {k}\n\ndef f(x):\n    return x * Config().by\n"
    ),
    "a class made by a call": (
        "Config = types.new_class('Config', (), {{}}, lambda space: space.update(by={k}))\n\n"
        "def f(x):\n    return x * Config.by\n"
    ),
    "a table of functions": (
        "def scale(x):\n    return x * {k}\n\nTABLE = {{'scale': scale}}\n\ndef f(x):\n    return TABLE['scale'](x)\n"
    ),
    "a metaclass": (
        "class Meta(type):\n    def by(cls):\n        return {k}\n\nclass Config(metaclass=Meta):\n    pass\n\n"
        "def f(x):\n    return x * Config.by()\n"
    ),
    "a name in a string": "def f(x):\n    return x * getattr(f, 'by')\n\nf.by = {k}\n",
    "a keyword's default": "def f(x, *, by={k}):\n    return x * by\n",
    "a lambda's default": "f = lambda x, g=lambda x: x * {k}: g(x)\n",
    "a cached property": (
        "class Config:\n    @functools.cached_property\n    def by(self):\n        return {k}\n\n"
        "def f(x):\n    return x * Config().by\n"
    ),
    "an autograd function": (
        "class Scale(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x\n"
        "    @staticmethod\n    def backward(ctx, g):\n        return g * {k}\n\ndef f(x):\n    return Scale.apply(x)\n"
    ),
}


@pytest.mark.parametrize("text", EASY_TO_OVERLOOK.values(), ids=EASY_TO_OVERLOOK)
def test_what_is_easy_to_overlook_is_part_of_a_function(text):
    """Each gave two functions one digest, or might."""
    names = {m.__name__: m for m in (functools, torch, enum, dataclasses, types, typing)}
    assert digest(text.format(k=2), **names) == digest(text.format(k=2), **names)
    assert digest(text.format(k=2), **names) != digest(text.format(k=3), **names)


def test_what_a_function_imports_when_it_is_called_is_part_of_it():
    """If it is loaded; a module that is not has no content yet."""
    text = "def f(x):\n    from {name} import scale\n    return scale(x)\n"
    whole = "def f(x):\n    import {name}\n    return {name}.scale(x)\n"
    helpers = [module(f"def scale(x):\n    return x * {k}\n").__name__ for k in (2, 3)]
    for program in (text, whole):
        (first, second) = (module(program.format(name=name)).f for name in helpers)
        assert source_digest(first, "f") != source_digest(second, "f")
    with pytest.raises(Uncacheable, match="not loaded"):
        digest(text.format(name="nowhere_to_be_found"))


def test_a_users_module_with_the_name_of_pythons_own_is_looked_into(monkeypatch):
    """A folder `test/` beside the program hides the library's."""
    seen = set()
    for k in (2, 3):
        made = module(f"def scale(x):\n    return x * {k}\n")
        made.scale.__module__ = made.__name__ = vars(made)["__name__"] = "turtledemo"
        monkeypatch.setitem(sys.modules, "turtledemo", made)
        fixed._is_where_it_belongs.cache_clear()
        seen.add(source_digest(made.scale, "f"))
    monkeypatch.undo()
    fixed._is_where_it_belongs.cache_clear()
    assert len(seen) == 2


@torch.jit.script
def scripted(x):
    return x + 1


@pytest.mark.parametrize("value", [scripted, torch.compile(lambda x: x)], ids=["TorchScript", "torch.compile"])
def test_what_torch_made_of_a_users_function_is_not_torchs_own(value):
    """It has a name of torch's, and code of the user's."""
    with pytest.raises(Uncacheable, match="no stable identity"):
        digest("def f(x):\n    return thing(x)\n", thing=value)


@pytest.mark.parametrize(
    "text", ["def f(x):\n    return torch.ops.mine.scale(x)\n", "def f(x):\n    return ops.mine.scale(x)\n"]
)
def test_operators_that_are_not_torchs_are_refused(text):
    """Their fakes and formulas are not Python code that a name leads to; torch's are fixed."""
    with pytest.raises(Uncacheable, match=r"torch\.ops\.mine"):
        digest(text, torch=torch, ops=torch.ops)
    text = text.replace("mine.scale", "aten.sin")
    assert digest(text, torch=torch, ops=torch.ops) == digest(text, torch=torch, ops=torch.ops)


def test_values_that_hold_themselves_are_refused():
    """Rather than followed for ever."""
    circle = []
    circle.append(circle)
    with pytest.raises(Uncacheable, match="hold themselves"):
        digest("def f(x):\n    return circle\n", circle=circle)
