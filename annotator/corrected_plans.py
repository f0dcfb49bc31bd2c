"""The steps of people who corrected an episode are its plan when it is annotated again."""

import logging
from collections.abc import Iterable
from pathlib import Path

from goalreel.datasets.corrections import corrections_path, logged_episodes
from goalreel.datasets.episode import episode_id
from goalreel.datasets.fingerprint import same_frames, same_words
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.datasets.stored_files import check_links
from goalreel.errors import DatasetError
from goalreel.files import copy, write_bytes
from goalreel.types import Plan

log = logging.getLogger(__name__)


def corrected_plans(records: Records, source: Source, episodes: Iterable[int]) -> dict[str, Plan]:
    """Read the plan that a person made of each episode (its id) whose recording is still the one they saw.

    Where its instruction has changed since, their steps stay.

    Raises:
        DatasetError: a log is damaged.
    """
    plans: dict[str, Plan] = {}
    for episode in episodes:
        if not records.is_corrected(episode):
            continue
        from goalreel.datasets.corrections.board import plan

        review = records.corrections(episode).read().replay.state
        recording = (records.recordings or {}).get(episode, review.recording)
        if not same_frames(review.recording, recording):
            log.warning("episode %d: its recording has changed, so its corrections are not used", episode)
            continue
        if not same_words(review.recording, recording):
            review = review.with_instruction(source.episode(episode).instruction)
        if (corrected := plan(review)) is not None:
            plans[episode_id(episode)] = corrected
    return plans


def take_corrections(records: Records, reviewed_out: Path) -> int:
    """Copy the corrections of another annotated dataset, pictures first, and count its corrected episodes.

    An episode that has corrections of its own keeps them.

    Raises:
        DatasetError: there are none, they are of another dataset, or the disk is full.
    """
    reviewed_records = Records(reviewed_out / FOLDER)
    episodes = [e for e in logged_episodes(reviewed_records.folder) if reviewed_records.is_corrected(e)]
    if not episodes:
        raise DatasetError(f"{reviewed_out}: holds no corrections: name what goalreel review was given")
    check_links(reviewed_records.folder)
    for episode in episodes:
        if records.is_corrected(episode):
            continue
        log_bytes = reviewed_records.corrections(episode).path.read_bytes()  # first: pictures may follow
        for picture in sorted(reviewed_records.pictures(episode)):
            copy(reviewed_records.folder / picture, records.folder / picture)
        write_bytes(corrections_path(records.folder, episode), log_bytes)
    return len(episodes)
