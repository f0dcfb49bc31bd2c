"""An error in one line."""

import pytest

from goalreel.errors import UserError, first_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (UserError("no such folder: make it\nthe trace"), "no such folder: make it"),
        (ValueError("\n  two words  \nmore"), "two words"),
        (OSError(), "OSError"),
        (RuntimeError(" \n"), "RuntimeError"),
    ],
)
def test_an_error_has_a_line_even_without_words(error, line):
    assert first_line(error).strip() == line
