"""Python literals are read as Python reads them, and nothing but data is."""

import ast
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalreel.chat.python_literals import MAX_NESTING, read_literal
from goalreel.json_object import RepeatedKeyError

TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t'\"\\{}[]:,"), max_size=20
)
LEAVES = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXT
VALUES = st.recursive(LEAVES, lambda v: st.lists(v, max_size=3) | st.dictionaries(TEXT, v, max_size=3))


@given(VALUES)
def test_what_python_writes_is_read_back(value):
    assert read_literal(repr(value)) == value == ast.literal_eval(repr(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': true, 'b': null, \"c\": False,}", {"a": True, "b": None, "c": False}),
        ("{'a': 'one\nline, it\\'s', 'b': [-1.5e3]}", {"a": "one\nline, it's", "b": [-1500.0]}),
        ("  [1, [2, ], {}]\n", [1, [2], {}]),
        ("'\\u00e9\\x41'", "éA"),
    ],
)
def test_what_models_write_is_read(text, value):
    assert read_literal(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').getcwd()",
        "{'a': open}",
        "{'a': f'{1}'}",
        "{'a': b'x'}",
        "{'a': 'x' 'y'}",
        "{'a': '''x'''}",
        "{'a', 'b'}",
        "{1: 'a'}",
        "{**{}}",
        "{'a': 1 + 2}",
        "{'a': 01}",
        "{'a': 12j}",
        "{'a': (1, 2)}",
        "{'a': 'x}",
        "{'a': '\\d'}",
        "{'a': '\\U00ffffff'}",
        "[x for x in 'abc']",
        "{'a': 1} # b",
        "{'a': True or False}",
        "",
        "[" * (MAX_NESTING + 1) + "]" * (MAX_NESTING + 1),
        "[" * 40_000,
        "-" * 40_000 + "1",
        "{'a': 1" + " -1" * 20_000 + "}",
        "{'a': 1}" + "[1]" * 20_000,
        "{'a': " + "9" * 5_000 + "}",
    ],
    ids=lambda t: t[:24],
)
def test_anything_else_is_no_data(text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError):
            read_literal(text)


def test_a_key_given_twice_is_said():
    with pytest.raises(RepeatedKeyError, match="a"):
        read_literal("[{'a': 1, 'b': {}, 'a': 2}]")
    assert read_literal("[{'a': 1}, {'a': 2}]") == [{"a": 1}, {"a": 2}]
