"""Constants as plain data, and back."""

from __future__ import annotations

import sys
from typing import Any

import msgpack
import pytest
from warmgraph.backend.torch_api.frames.plain import from_plain, to_plain


@pytest.mark.parametrize("value", ["weight", "two words", "", "\ud800", 2**70, -0.5, (1, ("a", None)), slice(1, None)])
def test_what_was_written_is_read(value: Any) -> None:
    packed = msgpack.packb(to_plain(value), unicode_errors="surrogatepass")
    assert from_plain(msgpack.unpackb(packed, unicode_errors="surrogatepass")) == value


def test_names_are_interned_as_pythons_are() -> None:
    """A guard that looks for an attribute or a key under another string of that text takes a tenth longer."""
    read = from_plain(msgpack.unpackb(msgpack.packb(to_plain("an_attribute_of_nobody"))))
    assert read is sys.intern("an_attribute_of" + "_nobody")
