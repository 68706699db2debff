"""Every input of a key, changed alone, changes the key: the part that should change, and no other."""

from __future__ import annotations

import enum

import pytest
import torch

from .cases import Wrapper, changed, of_inputs
from .fields import GRAPH
from .input_fields import HOOKS, INPUTS, SYMBOLS


@pytest.mark.parametrize("field", [*GRAPH, *INPUTS, *SYMBOLS, *HOOKS], ids=str)
def test_a_field_changed_alone_changes_its_part_and_no_other(field, record_property):
    """Both keys are taken anew; the unchanged graph keyed twice is the same."""
    if field.needs_gpu and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    before = field.before().key()
    assert changed(before, field.before().key()) == set()
    assert changed(before, field.after().key()) == field.parts
    record_property("key_field", [field.part, field.name])


class Mode(enum.Enum):
    FAST = 1


def test_a_users_enumeration_in_a_subclasss_metadata_counts_by_value(monkeypatch, record_property):
    """The program may have been edited; the member's name is the same."""
    before = of_inputs(Wrapper(torch.ones(3), Mode.FAST)).key()
    monkeypatch.setattr(Mode.FAST, "_value_", 2)
    assert changed(before, of_inputs(Wrapper(torch.ones(3), Mode.FAST)).key()) == {"inputs"}
    record_property("key_field", ["inputs", "enumeration in a subclass's metadata"])
