"""Which critiques are kept for GRPO: those about which a Critic's own replies differ (trap 6)."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

import torch
from support.cli import fails

from goalreel.chat.conversation import Conversation, NoReply, Reply
from goalreel.chat.verdict import verdict_reply
from goalreel.datasets.corpora.critic_rows import CRITIQUES, CritiqueRow
from goalreel.datasets.corpora.rows import read_rows
from goalreel.datasets.corpora.write import Corpus, write_corpus
from goalreel.errors import BackendError, DatasetError, InputError
from goalreel.image import Image
from goalreel.training import group_filter
from goalreel.training.group_filter import GroupSampling
from goalreel.types import Verdict

filter_groups = partial(group_filter.filter_groups, held_out=lambda task_id: None)

GROUP = 4
YES = verdict_reply(Verdict(success=True, reasoning="It lies in the bowl."))
NO = verdict_reply(Verdict(success=False, reasoning="It has not moved.", refined_prompt="Move it."))
LOST = NoReply("the server did not answer")
REFUSED = NoReply("the picture is too large", refused=True)
SAID: list[tuple[bool, Sequence[Reply], bool]] = [
    (True, [YES] * 4, False),
    (True, [NO] * 4, False),
    (True, [YES, NO, YES, YES], True),
    (False, [NO] * 4, False),
    (False, [YES] * 4, False),
    (False, [YES, YES, YES, NO], True),
    (False, ["I think it is fine"] * 4, False),
    (True, ["I think it is fine", YES, YES, YES], True),
    (True, [LOST, YES, YES, YES], False),
    (True, [LOST, LOST, NO, YES], True),
    (True, [LOST, YES, YES, YES, NO], True),
    (True, [REFUSED, YES, YES, YES, NO], False),
]
"""What is true of each row, what is said of it (the fifth on being asked again), and whether it teaches."""


class Critic:
    """Says of the n-th row what is written of it, and no more than that; dies at a call, if told so.

    `answers`: how many replies the call before that gets through.
    """

    def __init__(self, dies_at: int | None = None, answers: int | None = None) -> None:
        self.dies_at, self.answers = dies_at, answers
        self.told: Counter[int] = Counter()
        self.asked: list[int] = []
        self.seeds: list[int] = []

    def complete(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> list[Reply]:
        if len(self.seeds) == self.dies_at:
            raise BackendError("gone")
        self.seeds.append(torch.initial_seed())
        shown = [next(p for m in c for p in m.parts if isinstance(p, Image)) for c in conversations]
        numbers = [int(picture.pixels[0, 0, 0]) for picture in shown]
        self.asked += numbers
        replies = [self.reply(number) for number in numbers]
        if self.answers is None or len(self.seeds) != self.dies_at:
            return replies
        return replies[: self.answers] + [LOST] * len(replies[self.answers :])

    def reply(self, number: int) -> Reply:
        said = SAID[number][1]
        self.told[number] += 1
        return said[self.told[number] - 1] if self.told[number] <= len(said) else LOST


def rows(task_id: str = "episode-1") -> list[CritiqueRow]:
    return [
        CritiqueRow(
            task_id=task_id,
            step=number,
            attempt=0,
            source=Image(np.full((32, 32, 3), number, np.uint8)),
            candidate=Image(np.full((32, 32, 3), 200, np.uint8)),
            drawn=False,
            instruction="the red block is in the blue bowl",
            first_prompt="Put it there.",
            prompt="Put it there.",
            success=success,
            semantics=2,
            quality=8,
        )
        for number, (success, _, _) in enumerate(SAID)
    ]


def stored(folder: Path, made: Sequence[CritiqueRow]) -> Path:
    corpus = Corpus(CRITIQUES, "train", {"train-00000": range(1)}, lambda part: made, {"test": 1}, "test")
    write_corpus(corpus, folder, text=False)
    return folder


@pytest.fixture
def source(tmp_path) -> Path:
    return stored(tmp_path / "rl", rows())


def sampling(critic: Critic, name: str = "critic") -> GroupSampling:
    return GroupSampling(critic, name, replies=GROUP)


def steps(folder: Path) -> list[int]:
    return [row.step for row in read_rows(folder, CRITIQUES)]


TEACH = [number for number, (_, _, teaches) in enumerate(SAID) if teaches]


def test_rows_about_which_all_replies_are_right_or_all_wrong_are_left_out(source, tmp_path):
    critic = Critic()
    assert filter_groups(source, tmp_path / "out", sampling(critic)) == (len(TEACH), len(SAID))
    assert steps(tmp_path / "out") == TEACH
    first = [number for number in range(len(SAID)) for _ in range(GROUP)]
    assert critic.asked == [*first, 0, 8, 9, 9, 10]  # the lost ones again, beside one that was answered
    kept = {row.step: row for row in read_rows(tmp_path / "out", CRITIQUES)}
    assert kept == {row.step: row for row in rows() if row.step in TEACH}


@pytest.mark.parametrize("answers", [None, GROUP + 1], ids=["dies between shards", "dies within a shard"])
def test_a_broken_run_goes_on_and_ends_as_an_unbroken_one(answers, source, tmp_path, monkeypatch):
    monkeypatch.setattr(group_filter, "SHARD", 3)
    whole, broken, later = Critic(), Critic(dies_at=2, answers=answers), Critic()
    filter_groups(source, tmp_path / "whole", sampling(whole))
    with pytest.raises(BackendError):
        filter_groups(source, tmp_path / "broken", sampling(broken))
    filter_groups(source, tmp_path / "broken", sampling(later))
    assert steps(tmp_path / "broken") == steps(tmp_path / "whole") == TEACH
    shards = [sorted(p.name for p in (tmp_path / run).rglob("*.parquet")) for run in ("whole", "broken")]
    assert shards[0] == shards[1]
    if answers is None:
        assert broken.asked + later.asked == whole.asked
        assert broken.seeds + later.seeds == whole.seeds
        assert len(set(whole.seeds)) == 4


def test_another_critic_or_other_rows_do_not_go_on_with_it(source, tmp_path):
    filter_groups(source, tmp_path / "out", sampling(Critic()))
    with pytest.raises(DatasetError, match="choose another --out"):
        filter_groups(source, tmp_path / "out", sampling(Critic(), name="other"))
    other = stored(tmp_path / "other", rows()[2:])
    with pytest.raises(DatasetError, match="choose another --out"):
        filter_groups(other, tmp_path / "out", sampling(Critic()))


def test_what_cannot_be_filtered_is_one_line(source, tmp_path):
    def said(folder: Path, critic: str) -> str:
        return fails("corpus", "filter-groups", folder, "--critic", critic, "--out", tmp_path / "out")

    assert "no chat model" in said(source, "difference")
    assert "holds no corpus" in said(tmp_path, "hf:nano-critic")
    held = stored(tmp_path / "held", rows("tabletop-900000"))
    assert "held-out" in said(held, "hf:nano-critic")
    with pytest.raises(InputError, match=r"no row of .* is left: critic is right in all"):
        filter_groups(stored(tmp_path / "alike", rows()[:2]), tmp_path / "none", sampling(Critic()))
