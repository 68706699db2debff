"""What is answered at once while guards are built again is what torch would answer, and nothing stays behind."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch._dynamo import config, guards
from warmgraph.backend.torch_api.frames.quickly import ASKED, answering_at_once

_KEYS = st.text() | st.integers() | st.booleans() | st.binary() | st.none()


@st.composite
def expressions(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(["L", "G", "f(x)", "(-1)", "(a, b)"]))
    for name, key in draw(st.lists(st.tuples(st.sampled_from(["a", "_modules", "[]", "()"]), _KEYS), max_size=5)):
        text += f"[{key!r}]" if name == "[]" else name if name == "()" else f".{name}"
    return f"{text} is {draw(st.sampled_from(['None', 'L[0].config', 'x + 1']))}"


@given(expressions())
def test_texts_are_those_of_torch(text: str) -> None:
    torchs = guards._ast_unparse
    nodes = [node for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.expr)]
    with answering_at_once():
        assert [guards._ast_unparse(node) for node in nodes] == [torchs(node) for node in nodes]


def test_guard_functions_are_those_of_torch() -> None:
    whole = "L['args'][0]._modules['model']"
    parts = [f"{whole}.config is {whole}._modules['layers']._modules['{at}'].config" for at in range(5)]
    expected = guards.build_guard_function(parts, "L")
    with answering_at_once():
        assert guards.build_guard_function(parts, "L") == expected


def test_settings_are_those_in_force_and_go() -> None:
    before, torchs = dict(vars(config)), guards._ast_unparse
    with config.patch(max_saved_pointers_for_recursive_dict_tags_check=7):
        with pytest.raises(ZeroDivisionError), answering_at_once():
            assert {*ASKED} <= vars(config).keys()
            assert config.max_saved_pointers_for_recursive_dict_tags_check == 7
            raise ZeroDivisionError
        assert vars(config) == before
        assert config.max_saved_pointers_for_recursive_dict_tags_check == 7
    assert guards._ast_unparse is torchs
