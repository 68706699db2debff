"""The audit document as one HTML page that asks the network for nothing. How it looks is in the files beside.

Everything in the document is untrusted. It reaches the page as JSON in a data block that no text can leave, and from
there as text nodes only. The policy allows the two inline blocks by their digest, and nothing else to run or load.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

# In this order, in one function's scope.
SCRIPTS = ("dom.js", "charts.js", "waterfall.js", "tables.js", "sections.js", "listings.js", "page.js")

# The document bounds its lists and texts; these hold for one from elsewhere too.
_MOST_BYTES = 2_000_000
_TEXT_LIMITS = (2000, 400, 100, 20)

# Within JSON's strings only. With these no text ends the block or begins a comment in it.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def render(document: Mapping[str, Any], *, refresh: int | None = None) -> str:
    """The page. refresh: seconds after which it asks for `audit.json` beside it, when it is served live.

    Raises ValueError for a document that is not JSON.
    """
    style, script = _assets()
    connect = "" if refresh is None else " connect-src 'self';"
    values = {
        "live": "" if refresh is None else f' data-live="{int(refresh)}"',
        "policy": f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:;"
        f"{connect} base-uri 'none'; form-action 'none'",
        "style": style,
        "script": script,
        "data": embedded(document),
    }
    first, *rest = _text("page.html").split("{{")
    pieces = [first]
    for piece in rest:  # not one replace after another: data may hold what looks like a place
        name, _, after = piece.partition("}}")
        pieces += [values[name], after]
    return "".join(pieces)


def embedded(document: Mapping[str, Any]) -> str:
    """The document as JSON for a data block, long texts cut so that the page stays small."""
    text = ""
    for limit in _TEXT_LIMITS:
        text = _escaped(_cut(document, limit))
        if len(text) <= _MOST_BYTES:
            break
    return text


def _escaped(value: Any) -> str:
    try:
        # ASCII: line separators and lone surrogates are escaped by it as well.
        return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"not a document that a page can show: {error}") from error


def _cut(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= limit else f"{value[:limit]}… ({len(value) - limit:,} more characters)"
    if isinstance(value, Mapping):
        return {_cut(name, limit): _cut(item, limit) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cut(item, limit) for item in value]
    return value


@cache
def _assets() -> tuple[str, str]:
    script = "\n".join(_text(name) for name in SCRIPTS)
    return _text("page.css"), f'(() => {{\n"use strict";\n{script}}})();\n'


@cache
def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
