"""Code by content: whatever a function reaches changes its digest, or is a reason why it has none."""

import functools
import logging
import sys
import types

import pytest
import torch
from warmgraph.hashing import Uncacheable, source_digest

COUNT = iter(range(10**6))


def module(text, **attributes):
    """A real module with source that `inspect` can read."""
    import linecache

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


def test_code_without_source_is_refused():
    """What was typed into exec() has no text."""
    space = {}
    exec("def f(x):\n    return x\n", space)
    with pytest.raises(Uncacheable, match="source"):
        source_digest(space["f"], "f")
