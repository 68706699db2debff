"""What the lines of a key may look like: every kind of line and every token in it belongs to a listed field."""

from __future__ import annotations

import re

# fields: kind of node, function, method, operator, overload, arguments, constants, outputs, attributes, annotations
_TARGET = r"(?:op|packet|hop|builtin|descriptor|attribute|python|method) \S+ \(.*\) \{.*\}|wrapped .* \(.*\) \{.*\}"
_ATTRIBUTE = r"attribute (?:lifted b\d+|graph \d+|<constant .*>)"
_NODE = rf"%\d+ (?:placeholder(?: default .+)?|{_ATTRIBUTE}|output .+|{_TARGET})(?: custom .+)?"
_GRAPH = rf" *(?:graph \d+:|{_NODE}|cudagraphs \[.*\]|checkpoint .+)"

# fields: Parameter, dtype, device, size, stride, offset, and the flags, in this order
_FLAGS = r"(?:requires_grad)?(?: ?leaf)?(?: ?inference)?(?: ?conj)?(?: ?neg)?(?: ?pinned)?"
_SIZES = r"size \[[^]]*\] stride \[[^]]*\]"
_TENSOR = rf"(?:Tensor|Parameter) <?(?:dtype )?torch\.\w+>? \S+ {_SIZES}"
_PLAIN = rf"{_TENSOR} offset \S+ ?{_FLAGS}"
# fields: subclass, subclass's metadata, subclass's own size, and those of what is inside
_SUBCLASS = rf"<subclass \S+(?: code \w+)? {_TENSOR} \[{_FLAGS}\] context .+ \{{.*\}}>"
# fields: value and type of a constant; size of a storage that is resized; static input; view of a shared storage
_VALUE = rf"(?:{_PLAIN}|{_SUBCLASS})(?: storage \d+ bytes)?|Sym(?:Int|Float|Bool) .+|constant .+"
# fields: shared storage, overlap in it, its size, its bases
_STORAGE = r"one storage: \[[\d, ]+\] overlap .+?(?: bytes \d+ bases .+)?"
_INPUT = rf"(?:p\d+ (?:{_VALUE})(?: static \"\w+\")?(?: view)?|b\d+ (?:{_PLAIN}|{_SUBCLASS})|{_STORAGE})"

# fields: source, size-like, hint override, ends of the range
_FACT = r"\"(?:integer|range|size_like|hint_override)\": (?:\[[^]]*\]|[^,]+)"
_SYMBOL = rf"\$u?\d+ (?:None|\".*\") \{{{_FACT}(?:, {_FACT})*\}}"

# fields: which of the pair, how arguments are taken apart, and a graph
_HOOK = rf"(?:pack|unpack) \[.*\]:|{_GRAPH}"

LINES = {
    name: re.compile(pattern)
    for name, pattern in (("graph", _GRAPH), ("inputs", _INPUT), ("symbols", _SYMBOL), ("hooks", _HOOK))
}
