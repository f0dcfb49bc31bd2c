"""Scorers by their names: registered ones, those of packages, and chat models as judges."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from goalreel.errors import InputError
from goalreel.models import scorers
from goalreel.models.scorers import GROUP, build_scorer, find_scorer, register_scorer


class Even:
    """A scorer that scores nothing."""

    def score(self, candidates):
        return [None] * len(candidates)


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """A registry of the test's own."""
    monkeypatch.setattr(scorers, "_kinds", {})


def install(monkeypatch, name: str, value: str) -> None:
    def entry_points(**wanted) -> EntryPoints:
        return EntryPoints([EntryPoint(name, value, GROUP)]).select(**wanted)

    monkeypatch.setattr(scorers.metadata, "entry_points", entry_points)


def test_a_registered_scorer_is_built_by_its_name():
    register_scorer("even", lambda scores: True)(Even)
    assert isinstance(build_scorer("even"), Even)
    assert find_scorer("even").success_of(None) is True


def test_the_scorer_of_a_package_is_imported_when_it_is_asked_for(monkeypatch):
    install(monkeypatch, "mine", "goalreel.nowhere")
    assert find_scorer("other") is None
    with pytest.raises(InputError, match=r"the scorer 'mine' of goalreel.nowhere cannot be imported"):
        find_scorer("mine")


def test_an_unknown_scorer_names_those_there_are(monkeypatch):
    install(monkeypatch, "mine", "goalreel.nowhere")
    with pytest.raises(InputError, match="no scorer 'other': use mine or a chat model"):
        build_scorer("other")


def test_the_simulator_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(scorers.metadata, "entry_points", lambda **_: EntryPoints())
    with pytest.raises(InputError, match=r"simulator comes with goalreel-lab: .*install"):
        build_scorer("simulator")
