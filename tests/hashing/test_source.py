"""Code by content: whatever a function reaches changes its digest, or is a reason why it has none."""

import copy
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
from warmgraph.hashing import Uncacheable, describes_operators, source_digest
from warmgraph.hashing import origin as fixed
from warmgraph.hashing.encoding.values import in_order
from warmgraph.hashing.source_code import described as described_operators

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


def test_that_an_instance_was_copied_is_no_part_of_a_class():
    """`copyreg` then notes on the class which slots it has."""
    text = "class f:\n    def g(self):\n        return 1\n"
    copied = module(text)
    copy.copy(copied.f())
    assert "__slotnames__" in vars(copied.f)
    assert source_digest(copied.f, "f") == digest(text)


def test_the_version_of_torch_may_be_asked_for():
    text = "import torch\n\ndef f(x):\n    return x * 2 if torch.__version__ >= {v!r} else x\n"
    assert digest(text.format(v="2.11")) == digest(text.format(v="2.11")) != digest(text.format(v="2.12"))


def test_a_set_is_the_same_however_its_items_lie():
    """Operators, functions and classes lie by their addresses: in another order in each process."""
    aten = torch.ops.aten
    items = [aten.mm.default, aten.sin, aten.cos.out, torch.float32, None, "text", int, dict, torch.relu, digest, 7]
    assert in_order(items) == in_order(items[::-1])
    numbers = {3, 70, 1}
    assert in_order(numbers) == list(numbers)  # the same everywhere, and code may iterate over it


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


CONFIG = "x = 1\nscale = {k}\nby = {{'n': {k}}}\nunused = {u}\n\ndef get(name):\n    return globals()[name]\n"
WAYS = {
    "handed to a function": "def g(x, m):\n    return x * m.scale\n\ndef f(x):\n    return g(x, cfg)\n",
    "returned by a function": "def g():\n    return cfg\n\ndef f(x):\n    return x * g().scale\n",
    "asked twice, for two things": "def g(x):\n    return x * cfg.scale\n\ndef f(x):\n    return g(x) * cfg.x\n",
    "an attribute of a class": "class C:\n    m = cfg\n\ndef f(x):\n    return x * C.m.scale\n",
    "an attribute of self": "class f:\n    m = cfg\n    def g(s, x):\n        return x * s.m.scale\n",
    "by a string": "def g(m, n):\n    return getattr(m, n)\n\ndef f(x):\n    return x * g(cfg, 'scale')\n",
    "by the key of a table": "T = {{'scale': 1}}\n\ndef f(x):\n    return [getattr(cfg, n) for n in T]\n",
    "by a string put together": "cfg.scale_1 = {k}\n\ndef f(x, n=1):\n    return x * getattr(cfg, f'scale_{{n}}')\n",
    "in its dictionary": "def f(x):\n    return x * vars(cfg)['scale'] + cfg.__dict__['x']\n",
    "in a dataclass": "@dataclasses.dataclass\nclass D:\n    m: object\n\nd = D(cfg)\n\n"
    "def f(x):\n    return d.m.scale\n",
    "hung on a function": "def g(x):\n    return x\n\ng.by = cfg.scale\n\ndef h(x, u):\n    return u.by\n\n"
    "def f(x):\n    return h(x, g)\n",
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_used_of_a_module_counts_however_the_code_comes_by_it(way):
    """A digest that forgets it gives edited code the old code's result."""

    def with_config(k, u=0):
        config = module(CONFIG.format(k=k, u=u))
        return digest(WAYS[way].format(k=k), cfg=config, dataclasses=dataclasses)

    assert with_config(2) == with_config(2, u=1) != with_config(3)


@pytest.mark.parametrize("member", ["__scale__ = {k}", "__match_args__ = ('a', 'b')[::{k} - 3 or 1]"])
def test_plain_members_with_two_underscores_count(member):
    """They steer what code does, as any other attribute may."""
    text = f"class f:\n    {member}\n"
    assert digest(text.format(k=2)) == digest(text.format(k=2)) != digest(text.format(k=4))


def test_what_lies_in_a_slot_or_beside_a_named_tuple_counts():
    """Neither a dataclass's fields nor a tuple's items are all that such an object may hold."""
    base = "class B:\n    __slots__ = ('h',)\n\n"
    slot = f"{base}@dataclasses.dataclass\nclass D(B):\n    a: int = 1\n\nd = D()\nd.h = {{k}}\n"
    pair = "class D(tuple):\n    _fields = ('a',)\n\nd = D((1,))\nd.h = {k}\n"
    for text in (slot, pair):
        two, same, three = (
            digest(f"{text.format(k=k)}\ndef f():\n    return d.h\n", dataclasses=dataclasses) for k in (2, 2, 3)
        )
        assert two == same != three


@pytest.mark.parametrize(
    "how", ["globals()['K']", "eval('K')", "os.environ['K']", "sys.modules['k'].K", "importlib.import_module('k').K"]
)
def test_a_look_up_that_cannot_be_followed_is_refused(how):
    """In a function of an operator as well: another process may have another value there."""
    with pytest.raises(Uncacheable, match="depends on more than its code"):
        digest(f"import os, sys, importlib\nK = 2\n\ndef f(x):\n    return x * {how}\n")


def test_a_module_that_makes_up_its_attributes_is_refused():
    """What it will answer lies nowhere to be seen."""

    class Lazy(types.ModuleType):
        def __getattr__(self, name):
            return 2

    with pytest.raises(Uncacheable, match="makes up its attributes"):
        digest("def f(x):\n    return lazy.scale\n", lazy=Lazy("lazy_made"))


def test_a_module_of_the_users_may_be_called_ops():
    """`ops.scale` is an operator only if `ops` is torch's."""
    ops = "def scale(x):\n    return x * {k}\n"
    package = types.ModuleType("made_package")

    def with_ops(text, k):
        package.ops = module(ops.format(k=k))
        return digest(text, ops=package.ops, package=package)

    for text in ("def f(x):\n    return ops.scale(x)\n", "def f(x):\n    return package.ops.scale(x)\n"):
        assert with_ops(text, 2) == with_ops(text, 2) != with_ops(text, 3)


@pytest.mark.parametrize("how", ["torch.ops.{n}.f(x)", "(lambda o: o.{n}.f(x))(torch.ops)", "O.{n}.f(x)"])
def test_operators_are_refused_however_the_code_comes_by_them(how, monkeypatch):
    """Where nobody says what they are made of."""
    monkeypatch.setattr(described_operators, "_of_operators", [])
    library = torch.library.Library(f"made_ops{next(COUNT)}", "DEF")
    library.define("f(Tensor x) -> Tensor")
    assert getattr(torch.ops, library.ns).f
    with pytest.raises(Uncacheable, match=r"operators of torch\.ops"):
        digest(f"def f(x):\n    return {how.format(n=library.ns)}\n", torch=torch, O=torch.ops)


def test_operators_are_part_of_a_function_as_they_are_told(monkeypatch):
    """By what `describes_operators` was given: fakes, backwards, files of a package."""
    monkeypatch.setattr(described_operators, "_of_operators", [])
    library = torch.library.Library(f"made_ops{next(COUNT)}", "DEF")
    library.define("f(Tensor x) -> Tensor")
    assert getattr(torch.ops, library.ns).f
    text, found = f"def f(x):\n    return torch.ops.{library.ns}.f(x)\n", []
    for told in ("one", "one", "two"):
        describes_operators(lambda operator, told=told: told)
        found.append(digest(text, torch=torch))
    assert found[0] == found[1] != found[2]


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


def test_code_may_ask_what_the_class_of_a_value_is_called():
    """`type` has a descriptor for names, which says nothing; the names of the classes that are reached do."""
    text = "class {name}:\n    def show(self):\n        return type(self).__name__\n\n"
    text += "def f(x):\n    return {name}().show()\n"
    assert digest(text.format(name="One")) == digest(text.format(name="One"))
    assert digest(text.format(name="One")) != digest(text.format(name="Two"))


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


class Number(enum.IntEnum):
    ONE, NINE, SEVENTEEN = 1, 9, 17  # they lie in the order in which they came


def _one_way_and_the_other(program):
    """Digests of `f` where a set of numbers lies one way and the other."""
    found = []
    for step in (1, -1):
        made = set()
        for number in [*Number][::step]:
            made.add(number)
        held = {"HOLDER": types.SimpleNamespace(names=made), "TABLE": {"names": made}}
        found.append(source_digest(module(program, SET=made, FROZEN=frozenset(made), **held).f, "f"))
    return found


@pytest.mark.parametrize(
    "body",
    [
        "[x * n for n in SET]",
        "sum(FROZEN)",
        "(lambda a, *b: a)(*SET)",
        "SET.copy().pop()",
        "sorted(SET, key=len) if 1 in SET else x",
        "[n for n in HOLDER.names]",
        "[n for n in TABLE['names']]",
        "(lambda given: [n for n in given])(SET)",
    ],
)
def test_code_that_goes_over_a_set_sees_how_it_lies(body):
    first, second = _one_way_and_the_other(f"def f(x):\n    return {body}\n")
    assert first != second


@pytest.mark.parametrize(
    "body",
    [
        "x if 1 in SET else -x",
        "[n for n in range(3) if n in SET and n not in FROZEN]",
        "[n for n in range(3) if n in HOLDER.names]",
        "len(SET)",
        "SET | FROZEN == SET",
    ],
)
def test_code_that_asks_what_is_in_a_set_does_not(body):
    first, second = _one_way_and_the_other(f"def f(x):\n    return {body}\n")
    assert first == second


@pytest.mark.parametrize("name", ["queue", "_thread"])
def test_a_module_of_pythons_under_another_name_is_pythons(monkeypatch, name):
    """`import six.moves.queue` leaves a spec of that name on `queue`, without a file."""
    spec = importlib.machinery.ModuleSpec(f"six.moves.{name}", loader=None)
    monkeypatch.setattr(importlib.import_module(name), "__spec__", spec)
    fixed._is_where_it_belongs.cache_clear()
    assert fixed.is_torch_or_stdlib(name)
    monkeypatch.setitem(sys.modules, name, module("x = 1\n"))
    fixed._is_where_it_belongs.cache_clear()
    assert not fixed.is_torch_or_stdlib(name)
    monkeypatch.undo()
    fixed._is_where_it_belongs.cache_clear()


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


def test_values_that_hold_themselves_end():
    """A list in itself is not a list in another one."""

    def of(value):
        return digest("def f(x):\n    return circle\n", circle=value)

    circle: list = []
    circle.append(circle)
    again: list = []
    again.append(again)
    assert of(circle) == of(again) != of([[]])


@dataclasses.dataclass
class Empty:
    """No fields."""


@pytest.mark.parametrize("held", [Empty(), types.SimpleNamespace(), type("Bare", (), {})()])
def test_an_object_that_holds_nothing_has_a_digest(held):
    assert digest("def f():\n    return held", held=held) == digest("def f():\n    return held", held=held)


class OfC(dict):
    """What its base holds no attribute says."""


@pytest.mark.parametrize("held", [OfC(a=1), memoryview(b"ab"), iter([1]), type("E", (Exception,), {})()])
def test_what_an_object_keeps_out_of_sight_has_none(held):
    with pytest.raises(Uncacheable, match="no stable identity"):
        digest("def f():\n    return held", held=held)


def test_data_without_end_is_refused():
    with pytest.raises(Uncacheable, match="more data than can be looked at"):
        digest("def f():\n    return held", held=[1.5] * 300_000)
