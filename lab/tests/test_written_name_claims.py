"""Untrue words: what a simulator contradicts, and what it does not."""

from dataclasses import replace

import pytest

from goalreel.types import Segment
from goalreel_lab.written_names import (
    ClaimCounts,
    Contact,
    NameClaim,
    WrittenName,
    claim_counts,
    untruth,
)

RED, BLUE = frozenset({"red"}), frozenset({"blue"})
CONTACTS = [Contact("red", 20, 40), Contact("blue", 70, 90)]


def name(claim: NameClaim, start: int, end: int) -> WrittenName:
    return WrittenName("...", Segment(start=start, end=end), claim)


@pytest.mark.parametrize(
    ("claim", "span", "why"),
    [
        (NameClaim(RED, held=True), (0, 22), None),
        (NameClaim(RED, held=True), (0, 12), "nothing touched"),
        (NameClaim(RED, held=True), (0, 50), "not held"),
        (NameClaim(BLUE, held=True), (0, 22), "another object"),
        (NameClaim(RED, holds=lambda frame: frame >= 40), (22, 60), None),
        (NameClaim(RED, holds=lambda frame: frame >= 40), (22, 42), None),
        (NameClaim(RED, holds=lambda frame: frame >= 50), (22, 45), "relation"),
        (NameClaim(None), (0, 50), None),
        (NameClaim(None), (45, 60), "nothing touched"),
        (NameClaim(frozenset()), (0, 50), "no such object"),
        (NameClaim(None, contact=False), (45, 60), None),
        (NameClaim(None, contact=False), (0, 60), "touched"),
    ],
)
def test_a_name_is_untrue_where_the_simulator_contradicts_it(claim, span, why):
    assert untruth(name(claim, *span), CONTACTS, slack=5) == why


def test_a_contact_is_covered_by_a_true_name_of_its_object():
    grasp, wrong = name(NameClaim(RED, held=True), 0, 22), name(NameClaim(RED), 60, 100)
    assert claim_counts([grasp, wrong], CONTACTS, slack=5) == ClaimCounts(2, 1, 2, 1)
    right = replace(wrong, claim=NameClaim(BLUE))
    assert claim_counts([grasp, right], CONTACTS, slack=5) == ClaimCounts(2, 0, 2, 2)
    assert claim_counts([], CONTACTS, slack=5) == ClaimCounts(0, 0, 2, 0)
