"""Words of models as a page shows them to a reader. Records keep every word and every digit."""

import re
from collections import Counter
from collections.abc import Iterable

from goalreel.claims import NOBODY
from goalreel.types import STATUSES, Attempt, Registration, Storyboard, Verdict, Word

_CELL = re.compile(r"\bc\d+ r\d+\b")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def reader_text(text: str) -> str:
    """A model's reason without the sentences that list places by cell; all of it if there is no other.

    >>> reader_text("red block c10 r9 stays; blue block c2 r3 gone. The blue block is gone.")
    'The blue block is gone.'
    """
    if not _CELL.search(text):
        return text
    return " ".join(s for s in _SENTENCE_END.split(text) if not _CELL.search(s)) or text


def verdict_text(verdict: Verdict, registration: Registration | None) -> str:
    """Return what was said of a picture, by whom if no Critic did, and a note on its background.

    >>> verdict_text(Verdict(success=True, reasoning="2.0% changed.", pictures_only=True), None)
    'Picture checks: 2.0% changed.'
    """
    text = reader_text(verdict.reasoning)
    sentence = f"Picture checks: {text}" if verdict.pictures_only and text else text
    return " ".join(filter(None, (sentence, background_note(registration, text))))


def attempt_text(attempt: Attempt) -> str:
    """Return what was said of an attempt, or why it failed, and a note on its background."""
    if attempt.verdict is not None:
        return verdict_text(attempt.verdict, attempt.registration)
    text = f"{attempt.failure.stage}: {attempt.failure.message}" if attempt.failure else ""
    return " ".join(filter(None, (text, background_note(attempt.registration, text))))


def end_line(board: Storyboard) -> str:
    """Say in a sentence what is known of the end: whether the whole instruction has come true."""
    if doubt := board.end_doubt:
        what, _, reason = doubt.partition(": ")
        return f"{what[0].upper()}{what[1:]}: {reader_text(reason)}".rstrip(".") + "."
    if board.end_checked == NOBODY:
        return "The end was not judged against the whole instruction."
    return f"The end fulfils the whole instruction, says {board.end_checked}."


def draws_line(board: Storyboard) -> str:
    """Say which of several drawn storyboards this is; empty if one was drawn."""
    picked = f"Kept {board.kept} of {board.drawn}: a critic that picks also picks its own mistakes."
    return picked if board.drawn > 1 else ""


def status_counts(words: Iterable[Word]) -> str:
    """Count the steps of each status, or of each word for what they are worth.

    >>> status_counts(["accepted", "rejected", "accepted", "in doubt"])
    '1 in doubt, 2 accepted, 1 rejected'
    """
    counts = Counter(words)
    order: tuple[Word, ...] = ("in doubt", "verified", *STATUSES)
    return ", ".join(f"{counts[known]} {known}" for known in order if counts[known])


def rounded(score: float) -> str:
    """A score with one digit behind the point, or none where that is 0.

    >>> rounded(9.87983), rounded(7.0)
    ('9.9', '7')
    """
    return f"{score:.1f}".removesuffix(".0")


def background_note(registration: Registration | None, text: str = "") -> str:
    """Return a note on an attempt's background; "" where it stayed, or where `text` says so."""
    if registration is None or registration.line == text:
        return ""
    stayed = registration.shift is not None and registration.outcome == "kept"
    return "" if stayed else registration.line
