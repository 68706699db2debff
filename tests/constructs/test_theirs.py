"""docs/constructs.md says which test of ours stands for each of PyTorch's on its caches. Here: whether it exists."""

import re
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.append(str(HERE))

from listing import ALL, DOCS, MARK, SHARDS  # noqa: E402

ABOVE = DOCS.read_text().partition(MARK)[0]
# `group/case` and `tests/.../file.py::test_name`, in the tables above the list of cases.
CASES = sorted(set(re.findall(r"`([a-z]+/\w+)`", ABOVE)))
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", ABOVE)))


@pytest.mark.parametrize("word", CASES)
def test_a_case_that_is_named_exists(word):
    """By its group and its name."""
    assert word in {case.word for case in ALL}


@pytest.mark.parametrize(("path", "name"), TESTS, ids=lambda value: value)
def test_a_test_that_is_named_exists(path, name):
    """In the file that is said, as a function."""
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


def test_the_tables_name_many():
    """An empty list would pass the others."""
    assert len(CASES) > 40
    assert len(TESTS) > 25


def test_every_file_of_cases_is_in_a_shard():
    """A group that no shard has would never run."""
    groups = {path.stem for path in HERE.glob("*.py") if "\n@case(" in path.read_text()}
    assert groups == {group for shard in SHARDS for group in shard}
