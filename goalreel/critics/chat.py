"""The Critic agent accepts a candidate or rewrites its prompt, by a chat model that sees before and after."""

from collections.abc import Sequence

from goalreel.chat.conversation import THOUGHTFUL, Chat, Question, ask, plain
from goalreel.chat.dialects import OWN, Dialect
from goalreel.chat.verdict import decided
from goalreel.errors import InputError
from goalreel.http.calls import probe
from goalreel.terms import Mode
from goalreel.types import Candidate, Failure, Verdict


class ChatCritic:
    """Judges with any chat model, asking at most `replies` times a candidate (`chat.conversation.ask`).

    `strict` goes through every fault before it decides and rejects in doubt (the RL checkpoint); `fast`
    looks whether the step's goal is reached (the SFT checkpoint). With `scores`, four sub-scores come in the
    same reply; a model that gives none still gives verdicts. The dialects `interleavethinker` and `observed`
    have neither scores nor modes, and `observed` no refined prompt and no probability. With `threshold`, a
    picture is accepted where the probability of success is at least that, if the model tells one.

    Raises:
        InputError: there is no such mode, the dialect has no scores or no probability, or `threshold` is
            not between 0 and 1.
    """

    def __init__(
        self,
        chat: Chat,
        *,
        mode: Mode = "strict",
        scores: bool = False,
        threshold: float | None = None,
        replies: int = 3,
        dialect: Dialect = OWN,
    ) -> None:
        if mode not in ("strict", "fast"):
            raise InputError(f"no mode {mode!r}: use strict or fast")
        if scores and not dialect.scored:
            raise InputError(
                "the published Critic gives no scores: give --no-critic-scores, or ?dialect=own with its name"
            )
        if threshold is not None and dialect.verdict_format.with_probability is None:
            raise InputError(
                "a critic of recorded frames says yes, no or cannot tell: leave the critic's threshold out"
            )
        if threshold is not None and not 0 <= threshold <= 1:
            raise InputError(f"the critic's threshold is a probability, between 0 and 1; got {threshold}")
        self.chat, self._replies, self._threshold, self._dialect = chat, replies, threshold, dialect
        self._mode: Mode = mode
        self._scores = scores

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict | Failure]:
        """Answer i judges candidate i; BackendError where the model cannot be called at all."""
        questions = [
            question(c, mode=self._mode, scores=self._scores, dialect=self._dialect) for c in candidates
        ]
        schema = self._dialect.verdict_format.schema(self._scores)
        answers = ask(self.chat, questions, stage="judge", replies=self._replies, schema=schema)
        decisions = [a if isinstance(a, Failure) else decided(a, self._threshold) for a in answers]
        unseen = {"unseen": True} if self.chat.blind else {}
        return [a if isinstance(a, Failure) else a.model_copy(update=unseen) for a in decisions]

    def probe(self) -> str | None:
        """Ask the chat model's server whether it is there, as `goalreel.http.calls.probe` says."""
        return probe(self.chat)


def question(
    candidate: Candidate, *, mode: Mode = "strict", scores: bool = False, dialect: Dialect = OWN
) -> Question[Verdict]:
    """Write what a ChatCritic asks about a candidate, which is also the text that a critic is trained on."""
    form = dialect.verdict_format
    conversation = dialect.judge(candidate, mode=mode, scores=scores)
    prompt = plain(candidate.drawn_by)
    again = THOUGHTFUL % form.example(scores)
    return Question(conversation, lambda reply: form.parse(reply, prompt), again, form.with_probability)
