"""What a program of goalreel sets for its whole process."""

import gc
import os

import pytest

from goalreel.program import prepare_process

VARIABLE = "PYDANTIC_DISABLE_PLUGINS"


@pytest.mark.parametrize(("setting", "result"), [(None, "__all__"), ("some-plugin", "some-plugin")])
def test_plugins_of_pydantic_are_left_out_unless_the_environment_says_which(setting, result, monkeypatch):
    monkeypatch.setenv(VARIABLE, setting or "")
    if setting is None:
        monkeypatch.delenv(VARIABLE)
    thresholds = gc.get_threshold()
    try:
        prepare_process()
        assert os.environ[VARIABLE] == result
    finally:
        gc.set_threshold(*thresholds)
