"""The Critic agent: accepts a candidate or rewrites its prompt, by a chat model that sees before and after.

InterleaveThinker (arXiv 2606.13679): the reply has the keys of its published checkpoints. How the model is
asked is the dialect's matter (`goalreel.planners.agents.dialects`).
"""

from collections.abc import Sequence

from goalreel.errors import InputError
from goalreel.planners.agents.ask import Question, ask
from goalreel.planners.agents.dialects import OWN, Dialect, Mode
from goalreel.planners.agents.dialects.own import verdict_example
from goalreel.planners.agents.json_reply import Problem
from goalreel.planners.agents.parsing import parse_verdict, verdict_schema
from goalreel.planners.agents.prompts import render
from goalreel.planners.chat.conversation import Chat, TokenReply
from goalreel.planners.chat.interleave import plain
from goalreel.planners.chat.token_probability import probability_of_yes
from goalreel.types import Candidate, Failure, Verdict

DECIMALS = 3
"""Of a probability. What lies behind them is a model's rounding, which another batch size changes."""


class ChatCritic:
    """Judges with any chat model, asking at most `replies` times a candidate (see `agents.ask`).

    `strict` goes through every fault before it decides and rejects in doubt (the RL checkpoint); `fast`
    looks whether the step's goal is reached (the SFT checkpoint). With `scores`, four sub-scores come in the
    same reply, as a second call would read both images again; a model that gives none still gives verdicts.
    In the dialect `interleavethinker` there are no scores, and the checkpoint has the mode, not the prompt.
    With `threshold`, a picture is accepted where the probability of success is at least that; where the model
    tells no probability, its word counts.

    Raises:
        ValueError: `replies` is less than 1.
        InputError: there is no such mode, the dialect has no scores, or `threshold` is not between 0 and 1.
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
        if replies < 1:
            raise ValueError(f"replies must be at least 1, got {replies}")
        if mode not in ("strict", "fast"):
            raise InputError(f"no mode {mode!r}: use strict or fast")
        if scores and not dialect.scored:
            raise InputError("the published Critic gives no scores: use a judge")
        if threshold is not None and not 0 <= threshold <= 1:
            raise InputError(f"the critic's threshold is a probability, between 0 and 1; got {threshold}")
        self._chat = chat
        self._replies = replies
        self._mode: Mode = mode
        self._scores = scores
        self._dialect = dialect
        self._threshold = threshold

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict | Failure]:
        """Answer i judges candidate i. `refined_prompt` is None where a rejection came without one.

        Raises:
            goalreel.errors.BackendError: the model cannot be called at all.
        """
        questions = [
            question(c, mode=self._mode, scores=self._scores, dialect=self._dialect) for c in candidates
        ]
        schema = verdict_schema(scores=self._scores)
        answers = ask(self._chat, questions, stage="judge", replies=self._replies, schema=schema)
        return [a if isinstance(a, Failure) else decided(a, self._threshold) for a in answers]


def question(
    candidate: Candidate, *, mode: Mode = "strict", scores: bool = False, dialect: Dialect = OWN
) -> Question[Verdict]:
    """Write what a ChatCritic asks about a candidate, which is also the text that a critic is trained on."""

    def again(problem: Problem) -> str:
        told = {"problem": problem.message, "example": verdict_example(scores=scores)}
        return plain(render("critic/again", told))

    return Question(dialect.judge(candidate, mode=mode, scores=scores), parse_verdict, again, _weigh)


def _weigh(verdict: Verdict, reply: TokenReply) -> Verdict:
    probability = probability_of_yes(reply, "previous_step_success", value=verdict.success)
    if probability is None:
        return verdict
    return verdict.model_copy(update={"probability": round(probability, DECIMALS)})


def decided(verdict: Verdict, threshold: float | None) -> Verdict:
    """Decide by the verdict's probability, where there is one and a threshold; else it stands as it is.

    What is turned around has no refined prompt: the Critic wrote none, or wrote it for a rejection.
    """
    if threshold is None or verdict.probability is None:
        return verdict
    success = verdict.probability >= threshold
    if success == verdict.success:
        return verdict
    return verdict.model_copy(update={"success": success, "refined_prompt": None})
