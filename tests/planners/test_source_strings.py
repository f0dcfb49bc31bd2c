"""Texts are read out of Python source as data: what would stop or harm the reader when run does nothing."""

import pytest

from goalreel.chat.dialects.source_strings import MAX_BYTES, string_constants
from goalreel.errors import InputError

SOURCE = '''
"""A docstring is no name's."""
import a_module_that_is_not_there
raise SystemExit("it was run")

SHORT = "one"
JOINED = ("two "
          "and " 'three')
ADDED = "four" + " and " + "five"
LONG = """
first line
  "second" line {mark}
"""
TYPED: str = r"raw \\d"
A = B = "both"
FILLED = f"a {b[0]} and {c}"
NUMBER = 3
BUILT = "x".join(["y"])
HALF = "x" + str(1)
SHORT = "not this one"
pair, other = "a", "b"
DECLARED: str


class Prompts:
    INNER = "in a class"


def ask():
    message = "in a function"
'''


def test_every_text_that_a_name_is_given(tmp_path):
    path = tmp_path / "source.py"
    path.write_text(SOURCE)
    assert string_constants(path) == {
        "SHORT": "one",
        "JOINED": "two and three",
        "ADDED": "four and five",
        "LONG": '\nfirst line\n  "second" line {mark}\n',
        "TYPED": "raw \\d",
        "A": "both",
        "B": "both",
        "FILLED": "a {b[0]} and {c}",
        "INNER": "in a class",
        "message": "in a function",
    }


def test_what_is_no_source_is_said(tmp_path):
    path = tmp_path / "source.py"
    with pytest.raises(InputError, match="cannot be read"):
        string_constants(path)
    with pytest.raises(InputError, match="cannot be read"):
        string_constants(tmp_path)
    for broken in (
        b"def (",
        b"a = '\x00'",
        b"\xff\xfe",
        b"x = " + b"(" * 100_000,
        b"x = " + b"-" * 100_000 + b"1",
    ):
        path.write_bytes(broken)
        with pytest.raises(InputError, match="is no Python source") as caught:
            string_constants(path)
        assert "\n" not in str(caught.value)
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(InputError, match="larger than 4 MB"):
        string_constants(path)


def test_a_text_of_very_many_parts_is_said_to_be_none(tmp_path):
    path = tmp_path / "source.py"
    for parts in (1_500, 20_000):
        path.write_text("X = " + " + ".join(["'a'"] * parts))
        with pytest.raises(InputError, match="is no Python source"):
            string_constants(path)
