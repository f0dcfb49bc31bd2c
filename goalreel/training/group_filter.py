"""Filter critiques for GRPO: keep those that a Critic judges rightly in some of its replies, but not in all.

If all replies to a row earn the same, its group has no gradient (DAPO, arXiv 2503.14476, section 3.2). Only
verdicts are compared, since nothing is drawn here: rows with a share of right verdicts between 0 and 1 stay.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import batched
from pathlib import Path

import torch

from goalreel.chat.conversation import Chat, Conversation, NoReply, Reply
from goalreel.chat.dialects import OWN, Dialect, Mode
from goalreel.chat.json_reply import Problem
from goalreel.chat.verdict import parse_verdict
from goalreel.critics.chat import question
from goalreel.datasets.corpora.critic_rows import CRITIQUES, CritiqueRow, candidate_of
from goalreel.datasets.corpora.write import Corpus, write_corpus
from goalreel.errors import InputError
from goalreel.files import digest, file_digest
from goalreel.progress import OnCount
from goalreel.training.rows import Critiques, HeldOut, critique_shards

SHARD = 100
"""Rows a file: what a killed run may have to ask for again."""


@dataclass(frozen=True)
class GroupSampling:
    """A Critic, and how it is asked about each row. `chat` samples; a greedy one says the same every time."""

    chat: Chat
    name: str
    """The Critic's name in the corpus; another one does not go on with it."""
    replies: int = 8
    dialect: Dialect = OWN
    mode: Mode = "strict"


def filter_groups(
    source: Path,
    out: Path,
    sampling: GroupSampling,
    *,
    held_out: HeldOut,
    progress: OnCount = lambda done, total: None,
) -> tuple[int, int]:
    """Write the rows of `source` that can teach into the corpus `out`; returns how many, and of how many.

    Finished shards are kept: the same call goes on after a kill. `progress` counts rows.

    Raises:
        InputError: `source` holds no critiques, or held-out ones, or no row of it is left.
        DatasetError: `out` holds another corpus.
        BackendError: the Critic cannot be called; what is finished is kept.
    """
    rows = Critiques([source], held_out)
    parts = batched(range(len(rows)), SHARD)
    corpus = Corpus(
        kind=CRITIQUES,
        split="train",
        shards={f"train-{i:05d}": range(part[0], part[-1] + 1) for i, part in enumerate(parts)},
        make=partial(_teaching_rows, rows.row, sampling),
        request={
            "kind": "teaching critiques",
            "source": digest(*(file_digest(shard) for shard in critique_shards(source))),
            "critic": sampling.name,
            "replies": sampling.replies,
            "dialect": sampling.dialect.name,
            "mode": sampling.mode,
        },
        about=f"the {len(rows)} in another corpus: those that {sampling.name} judges rightly in some of "
        f"{sampling.replies} replies, not in all. Made by `goalreel corpus filter-groups`.",
    )
    summary = write_corpus(corpus, out, text=False, progress=progress)
    if not summary:
        raise InputError(
            f"no row of {source} is left: {sampling.name} is right in all replies to a row, or in none"
        )
    return summary, len(rows)


def _teaching_rows(
    row_of: Callable[[int], CritiqueRow], sampling: GroupSampling, part: range
) -> Iterator[CritiqueRow]:
    torch.manual_seed(part.start)  # a resumed run ends with the rows of an unbroken one
    rows = [row_of(number) for number in part]
    conversations = [
        question(candidate_of(row), mode=sampling.mode, dialect=sampling.dialect).conversation for row in rows
    ]
    replies = _replies(sampling.chat, [c for c in conversations for _ in range(sampling.replies)])
    for row, group in zip(rows, batched(replies, sampling.replies), strict=True):
        if _teaches(row, group):
            yield row


def _replies(chat: Chat, conversations: Sequence[Conversation]) -> list[Reply]:
    """Ask for a reply to each conversation; those without one are asked once more.

    Raises:
        BackendError: the Critic cannot be called, or no longer.
    """
    replies = list(chat.complete(conversations))
    unanswered = [i for i, reply in enumerate(replies) if _is_silent(reply)]
    if unanswered:
        # A server that died meanwhile looks like one that said nothing: asked anew, it shows. One that fails
        # at these rows alone answers what it has answered before.
        answered = [i for i, reply in enumerate(replies) if isinstance(reply, str)][:1]
        second_replies = chat.complete([conversations[i] for i in (*answered, *unanswered)])
        for i, reply in zip(unanswered, second_replies[len(answered) :], strict=True):
            replies[i] = reply
    return replies


def _is_silent(reply: Reply) -> bool:
    return isinstance(reply, NoReply) and not reply.refused and reply.cut_off is None


def _teaches(row: CritiqueRow, replies: Sequence[Reply]) -> bool:
    """Tell whether some replies are right and some are not.

    What a server failed to answer tells nothing.
    """
    return len(set(_passes(row, replies))) == 2


def _passes(row: CritiqueRow, replies: Iterable[Reply]) -> Iterator[bool]:
    for reply in replies:
        if isinstance(reply, NoReply):
            if reply.cut_off is not None:
                yield False
        else:
            verdict = parse_verdict(reply, row.drawn_by)
            yield not isinstance(verdict, Problem) and verdict.success == row.success
