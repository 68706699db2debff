"""Group 6: lists, dicts, sets and tuples, and the user's own kinds of them with other methods, changed in the graph.

PyTorch's own: test_list.py (`ListSubclassTests`), test_dicts.py (`test_dict_subclass_*`, `test_default_dict*`,
`test_ordered_dict_subclass_*`), test_sets.py, test_tuple.py, test_misc.py (`test_deque_*`, `test_namedtuple*`,
`test_list_subclass_*`), test_repros.py (`test_list_aliasing`, `test_iter_next*`). Cases only.
"""

import collections

import torch
from harness import case

WITHOUT_KERNELS = True  # what is changed and replayed counts here, not how it is computed

X = torch.arange(4.0)


class Loud(list):
    """Counts what is appended; shows its items negated."""

    def __init__(self, *items):
        super().__init__(items)
        self.count = 0

    def append(self, item):
        self.count += 1
        super().append(item)

    def __getitem__(self, index):
        return -super().__getitem__(index)


class Doubling(dict):
    """Stores twice what it is given, and reads one more."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value * 2)

    def __getitem__(self, key):
        return super().__getitem__(key) + 1

    def __missing__(self, key):
        return torch.zeros(4)


class Ordered(collections.OrderedDict):
    """Remembers the last key that was set."""

    last = None

    def __setitem__(self, key, value):
        self.last = key
        super().__setitem__(key, value)


class Point(tuple):
    """A tuple with names of its own."""

    __slots__ = ()

    @property
    def x(self):
        return self[0]


@case()
def a_list_subclass(way):
    """Appended to and read by overridden methods; the list outside has the tensors as they are."""
    items = Loud(X + 1)

    def f(items, x):
        items.append(x * 2)
        return items[0] + len(items)

    out = way.compile(f)(items, X)
    return {"out": out, "items": items, "count": items.count}


@case()
def a_list_subclass_made_and_returned(way):
    """A new one comes back with its type, items and attributes."""

    def f(x):
        items = Loud(x)
        items.append(x + 1)
        items.extend([x + 2])
        return items

    out = way.compile(f)(X)
    return {"out": out, "count": out.count}


@case()
def a_dict_subclass(way):
    """Set, read and missed by overridden methods; rebuilt outside without calling them again."""
    table = Doubling()
    table["a"] = X

    def f(table, x):
        table["b"] = x + 1
        table["a"] = table["a"]
        return table["a"] + table["b"] + table["none"], sorted(table)

    return {"out": way.compile(f)(table, X), "table": table}


@case()
def an_ordered_dict_subclass(way):
    """The order after moves and deletions, and an attribute that `__setitem__` sets."""
    table = Ordered(a=X, b=X + 1, c=X + 2)

    def f(table, x):
        table["d"] = x * 3
        table.move_to_end("a")
        del table["b"]
        return sum(table.values())

    return {"out": way.compile(f)(table, X), "table": table, "last": table.last}


@case()
def a_dict_with_a_default(way):
    """`defaultdict` makes what is missing, `Counter` counts, `setdefault` and `update` add."""
    groups, counter = collections.defaultdict(list), collections.Counter()

    def f(groups, counter, x):
        groups["a"].append(x + 1)
        groups["a"].append(x + 2)
        counter.update(["a", "b", "a"])
        groups.setdefault("b", [x])
        return torch.stack(groups["a"]) * counter["a"]

    return {"out": way.compile(f)(groups, counter, X), "groups": groups, "counter": dict(counter)}


@case()
def a_tuple_subclass_and_a_named_tuple(way):
    """Read by property and by name, made and returned."""
    pair = collections.namedtuple("pair", "left right")

    def f(point, both):
        return pair(point.x + both.right, both._replace(left=point[1])), Point((point.x * 2, 1))

    out = way.compile(f)(Point((X, X + 1)), pair(X + 2, X + 3))
    return {"out": out, "x": out[1].x}


@case(torch_wrong="Dynamo forgets the `maxlen` of a deque that it is given")
def a_deque_that_is_full(way):
    """What falls out of it while tracing stays in; the deque outside is right."""
    recent = collections.deque([X], maxlen=2)

    def f(recent, x):
        recent.append(x + 1)
        recent.append(x + 2)
        return recent[0] * 10

    return {"out": way.compile(f)(recent, X), "recent": list(recent)}


@case()
def sets_deques_and_iterators(way):
    """A set, a bounded deque, and an iterator that Python goes on with afterwards."""
    seen, recent = {1}, collections.deque([X], maxlen=3)
    numbers = iter([10, 20, 30])

    def f(seen, recent, x):
        seen.add(2)
        seen.discard(1)
        recent.append(x + 1)
        recent.appendleft(x + 2)
        return recent[0] * next(numbers)

    out = way.compile(f)(seen, recent, X)
    return {"out": out, "seen": seen, "recent": list(recent), "next": next(numbers)}


@case()
def one_list_under_two_names(way):
    """Two arguments are the same list, which holds itself nowhere but one tensor twice."""
    items = [X.clone(), X.clone()]
    items.append(items[0])

    def f(a, b):
        a.append(b[0].add_(1))
        b[1] = a[2] * 2
        return len(a)

    return {"out": way.compile(f)(items, items), "items": items}


class Window(list):
    """Says that it is shorter, iterates backwards and contains one thing more."""

    def __len__(self):
        return 2

    def __iter__(self):
        return reversed(self[:])

    def __contains__(self, item):
        return item == "magic"

    def __eq__(self, other):
        return other == "equal"

    __hash__ = None


@case()
def a_list_subclass_that_overrides_everything(way):
    """Length, iteration, membership and equality are the class's own."""

    def f(items, x):
        total = x * len(items)
        for number, item in enumerate(items):
            total = total + item * number
        return total, "magic" in items, items == "equal"

    items = Window([X, X + 1, X + 2])
    return {"out": way.compile(f)(items, X), "kept": list.__len__(items)}


class Config(dict):
    """Attributes are keys, as in configuration libraries."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    __setattr__ = dict.__setitem__


@case()
def a_dict_whose_attributes_are_keys(way):
    """Read and set as attributes, in the graph."""
    config = Config(scale=2, inner=Config(shift=1))

    def f(config, x):
        config.scale += 1
        config.inner.out = x * config.scale + config.inner.shift
        return config.inner.out.sum(), hasattr(config, "none")

    compiled = way.compile(f)
    return {"outs": [compiled(config, X), compiled(config, X)], "config": config}


class Limited(set):
    """A set that refuses more than it may hold."""

    def add(self, item):
        if len(self) < 2:
            super().add(item)


@case(torch_wrong="Dynamo does not replay what an overridden `add` puts into a set")
def a_set_subclass(way):
    """The tensors are right; the set outside stays empty, as with Inductor."""
    names = Limited()

    def f(names, x):
        for name in ("A", "B", "C"):
            names.add(name)
        return x * len(names)

    return {"out": way.compile(f)(names, X), "names": names}


@case()
def a_user_dict(way):
    """`collections.UserDict` with a `__setitem__` of its own."""

    class Lower(collections.UserDict):
        def __setitem__(self, key, value):
            super().__setitem__(key.lower(), value)

    table = Lower()

    def f(table, x):
        for name in ("A", "B"):
            table[name] = x + len(table)
        return sum(table.values())

    return {"out": way.compile(f)(table, X), "table": table.data}
