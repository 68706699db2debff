"""The list of cases, read from the groups' sources: names, expectations, sentences. Imports no group, and no torch.

`python tests/constructs/listing.py` writes it into docs/constructs.md.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent.parent / "docs" / "constructs.md"
MARK = "<!-- below: written by tests/constructs/listing.py -->\n"

# Groups that share their processes: starting one costs more than most cases.
SHARDS = (
    (
        "mutation",
        "aliases",
        "optimizers",
        "backward",
        "storage",
        "geometry",
        "outputs",
        "fakes",
        "containers",
        "effects",
        "gradients",
        "cached",
        "switches",
    ),
    (
        "subclasses",
        "wrappers",
        "backends",
        "comptime",
        "pytrees",
        "transforms",
        "hooks",
        "functions",
        "operators",
        "regions",
        "values",
        "passing",
        "amp",
        "control",
        "opaques",
        "thin",
    ),
)


@dataclass(frozen=True)
class Listed:
    """What a case's decorator and docstring say. See `harness.case` for the keywords."""

    group: str
    name: str
    sentence: str
    bypass: str | None = None
    uncompiled: str | None = None
    compiler: str | None = None
    torch_wrong: str | None = None
    fields: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        return f"{self.group}/{self.name}"

    @property
    def outcome(self) -> str:
        if self.uncompiled is not None:
            return _cell(f"not compiled: {self.uncompiled}")
        return "hit" if self.bypass is None else f"bypass: `{self.bypass}`"

    @property
    def departure(self) -> str:
        fields = f" ({', '.join(self.fields)})" if self.fields else ""
        return "" if self.torch_wrong is None else _cell(self.torch_wrong + fields)


def cases_of(group: str) -> list[Listed]:
    """The cases in one group's file, in order; none if there is no such file."""
    path = HERE / f"{group}.py"
    if not path.is_file():
        return []
    found = []
    for node in ast.parse(path.read_text()).body:
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", None) == "case":
                said = {word.arg: ast.literal_eval(word.value) for word in decorator.keywords}
                sentence = " ".join((ast.get_docstring(node) or "").split())
                found.append(Listed(group, node.name, sentence, **said))
    return found


def document() -> str:
    """The sections of docs/constructs.md, one per group: what PyTorch tests of it, and a row per case."""
    return "\n".join(_section(group) for shard in SHARDS for group in shard if cases_of(group))


def _section(group: str) -> str:
    text = ast.get_docstring(ast.parse((HERE / f"{group}.py").read_text())) or ""
    rows = [
        f"| `{case.name}` | {_cell(case.sentence)} | {case.outcome} | {case.departure} |" for case in cases_of(group)
    ]
    head = ["| case | claim | outcome | where torch.compile departs from eager |", "|---|---|---|---|"]
    return "\n".join([f"## {group}", "", text.replace(" Cases only.", ""), "", *head, *rows, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


ALL = [case for shard in SHARDS for group in shard for case in cases_of(group)]

if __name__ == "__main__":
    DOCS.write_text(DOCS.read_text().partition(MARK)[0] + MARK + "\n" + document())
