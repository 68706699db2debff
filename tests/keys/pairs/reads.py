"""What code that a graph reaches asks of the process while it is traced: names, files, settings, replaced functions."""

from __future__ import annotations

import builtins
import decimal
import fractions
import functools
import importlib.metadata
import json
import logging
import math
import os
import pkgutil
import random
import statistics
import sys
import time
import types
from importlib import import_module as load
from os import getenv as setting
from pathlib import Path

from harness import gradient_of_backward, pair

config = sys.modules["pairs_config"] = types.ModuleType("pairs_config")
ask, evaluate = getattr, eval


def scaled_by(read):
    """The gradient through an operator whose backward multiplies by `read()`."""
    return gradient_of_backward(lambda ctx, g: g * read())


# --- names: what is asked for is not spelled in the code ------------------------------------------------


@pair()
def an_attribute_asked_for_by_an_alias_of_getattr(v):
    """The code names `ask`, which is `getattr`."""
    config.scale = v
    return scaled_by(lambda: ask(config, "scale"))


@pair()
def an_attribute_whose_name_is_in_a_tuple(v):
    """The loop goes over a constant of the code that holds the names."""
    config.scale, config.shift = v, 1

    def read():
        product = 1
        for name in ("scale", "shift"):
            product *= getattr(config, name)
        return product

    return scaled_by(read)


@pair()
def an_attribute_whose_name_is_put_together(v):
    """A name of lower case that the code holds in upper case."""
    config.scale = v
    return scaled_by(lambda: getattr(config, "SCALE".lower()))


@pair()
def an_attribute_whose_name_ends_in_a_number(v):
    """Widths have a setting each, and one of them is asked for."""
    config.w4, bits = v, 4
    return scaled_by(lambda: getattr(config, f"w{bits}"))


class Linear:
    pass


LAYERS = [Linear]


@pair()
def an_attribute_named_like_a_class(v):
    """Rules that are found by the name of the class that they are for."""
    config.Linear = v
    return scaled_by(lambda: getattr(config, LAYERS[0].__name__))


@pair()
def all_settings_in_capitals(v):
    """Settings as Django has them: what a module holds under names in capitals."""
    config.SCALE = v
    return scaled_by(lambda: sum(value for name, value in vars(config).items() if name.isupper()))


@pair()
def an_attribute_that_a_pattern_matches(v):
    """A pattern of a `match` statement holds the names it asks for."""
    config.scale = v

    def read():
        match config:
            case types.ModuleType(scale=found):
                return found

    return scaled_by(read)


@pair(bypass="pkgutil")
def an_attribute_named_in_a_path(v):
    """The standard library finds an object by its full name."""
    config.scale = v
    return scaled_by(lambda: pkgutil.resolve_name("pairs_config:scale"))


@pair(bypass="importlib")
def a_module_that_is_loaded_by_an_alias_of_import_module(v):
    """A module is found by its name, and the code calls what finds it `load`."""
    config.scale = v
    return scaled_by(lambda: load("pairs_config").scale)


@pair(bypass="builtins.eval")
def a_global_that_an_alias_of_eval_reads(v):
    """The expression is a constant of the code, and what it names is not."""
    config.scale = v
    return scaled_by(lambda: evaluate("config.scale"))


@pair(bypass="__globals__")
def a_global_read_through_a_functions_globals(v):
    """A function's `__globals__` holds what no name in the code leads to."""
    globals()["SCALE"] = v
    return scaled_by(lambda: scaled_by.__globals__["SCALE"])


@pair(bypass="f_globals")
def a_global_read_through_a_frame(v):
    """The code looks at the frame that it runs in."""
    globals()["SCALE"] = v
    return scaled_by(lambda: sys._getframe().f_globals["SCALE"])


@pair()
def a_name_among_the_builtins(v):
    """A setting that a user installed where every module finds it."""
    builtins.pairs_scale = v
    return scaled_by(lambda: pairs_scale)  # noqa: F821 - that is the point


class Computed(types.ModuleType):
    @property
    def scale(self):
        return self._hidden


@pair()
def a_property_of_a_module(v):
    """A module was given a class with a property, as Python's manual proposes."""
    config.__class__, config._hidden = Computed, v
    return scaled_by(lambda: config.scale)


# --- state: what the process was set to -----------------------------------------------------------------


@pair(bypass="getenv")
def an_environment_variable_asked_for_by_another_name(v):
    """The code names `setting`, which is `os.getenv`."""
    os.environ["PAIRS_SCALE"] = str(v)
    return scaled_by(lambda: int(setting("PAIRS_SCALE")))


@pair(bypass="expandvars")
def an_environment_variable_inside_a_path(v):
    """The standard library puts variables into a path."""
    os.environ["PAIRS_SCALE"] = str(v)
    return scaled_by(lambda: int(os.path.expandvars("$PAIRS_SCALE")))


@pair(bypass="pathlib")
def what_a_file_says(v):
    """A file of settings in the folder that the process runs in."""
    Path("settings.json").write_text(json.dumps({"scale": v}))
    return scaled_by(lambda: json.loads(Path("settings.json").read_text())["scale"])


@pair(bypass="importlib")
def the_version_of_an_installed_package(v):
    """A library does otherwise for each version of another one."""
    folder = Path(f"pairs_plugin-{v}.0.dist-info")
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: pairs_plugin\nVersion: {v}.0\n")
    sys.path.insert(0, str(Path.cwd()))
    return scaled_by(lambda: float(importlib.metadata.version("pairs_plugin")))


@pair(bypass="it calls time.")
def the_time_zone(v):
    """The hour at which time began, here."""
    os.environ["TZ"] = f"HERE-{v}"
    time.tzset()
    return scaled_by(lambda: time.localtime(0).tm_hour)


@pair(bypass="sys.argv")
def the_arguments_of_the_process(v):
    """Settings from the command line."""
    sys.argv = ["program", f"--scale={v}"]
    return scaled_by(lambda: int(sys.argv[1].partition("=")[2]))


@pair()
def the_level_of_a_logger(v):
    """Debugging computes in another way."""
    log = logging.getLogger("pairs")
    log.setLevel(logging.DEBUG if v == 1 else logging.INFO)
    return scaled_by(lambda: 2 if log.isEnabledFor(logging.DEBUG) else 3)


@pair(bypass="global random")
def the_seed_of_pythons_random_numbers(v):
    """Noise of which a seed decides."""
    random.seed(v)
    return scaled_by(lambda: random.random())


@pair(bypass="decimal")
def the_precision_of_decimals(v):
    """How many digits a quotient has is a setting of the thread."""
    decimal.getcontext().prec = v
    return scaled_by(lambda: float(decimal.Decimal(1) / 7))


@functools.lru_cache
def remembered():
    return config.scale


@pair()
def what_a_cached_function_was_asked_before(v):
    """The cache was filled when the setting was another one."""
    config.scale = v
    remembered()
    config.scale = 5
    return scaled_by(lambda: remembered())


# --- functions that are not what their names say --------------------------------------------------------


@pair()
def a_function_that_one_of_the_standard_librarys_calls(v):
    """`fmean` calls `fsum`, and no name in the user's code says so."""
    sums = statistics.fsum
    statistics.fsum = lambda values: sums(values) * config.scale
    config.scale = v
    return scaled_by(lambda: statistics.fmean([1.0, 3.0]))


@pair()
def a_method_of_a_class_of_the_standard_library(v):
    """A method was replaced; the code names the class and the method."""
    fractions.Fraction.limit_denominator = (lambda self: 2) if v == 1 else (lambda self: 3)
    return scaled_by(lambda: fractions.Fraction(1, 2).limit_denominator())


@pair()
def a_function_of_the_standard_library(v):
    """The name leads to another function."""
    math.sqrt = math.exp if v == 1 else math.cos
    return scaled_by(lambda: math.sqrt(2.0))


def named(g):
    return g


@pair()
def the_name_of_a_function(v):
    """A rule is chosen by what a function is called."""
    named.__name__ = f"scale_{v}"
    return scaled_by(lambda: int(named.__name__.partition("_")[2]))


@pair()
def the_annotations_of_a_function(v):
    """Settings in annotations, as `Annotated` has them."""
    named.__annotations__ = {"g": v}
    return scaled_by(lambda: named.__annotations__["g"])


@functools.singledispatch
def rule(layer):
    return 5


@pair(bypass="no stable identity")
def what_a_single_dispatch_function_was_taught(v):
    """Rules for classes, added one by one."""
    rule.register(Linear, (lambda layer: 2) if v == 1 else (lambda layer: 3))
    return scaled_by(lambda: rule(Linear()))
