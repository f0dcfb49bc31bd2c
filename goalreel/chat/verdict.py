"""The form of a verdict in a Critic's reply: asked, read, written, and decided by its probability.

A reply is thoughts in one known form, a few words at most, and one object with the keys that were asked for
and no other. What stands after it, or in other tags, may take it back: the reply is a Problem. An acceptance
is a Problem after words that are not plain, with another prompt than the one that was judged, a low score, or
a probability that says no. So is a reply that repeats the form, as small models do.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from goalreel.chat.conversation import Token, TokenReply
from goalreel.chat.json_reply import OptionalText, ParsedReply, Problem, ReplyModel, read_model, tagged_reply
from goalreel.chat.plan import FAULTS
from goalreel.types import Score, Verdict

PASSING = 5
"""The lowest score that an accepted picture may have."""
FORM_PROMPT = "the whole prompt anew, or null"
"""Stands for the prompt in the form that a Critic is shown."""
_FORM_PROMPTS = (FORM_PROMPT, "the whole prompt anew, or the present one")
"""The same, and that of the dialect `interleavethinker`."""
_VERDICT = f'{{"previous_step_success": false, "refine_prompt": "{FORM_PROMPT}"%s}}'
_SCORES = ', "scores": {"success": 0, "over_editing": 0, "naturalness": 0, "artefacts": 0}'
_YES, _NO = ("true", "yes"), ("false", "no")
_WORD = re.compile(r"[^\W\d_]+|\d+|(?<!\w)!|[^\w\s.,:;!'’‘“”\"*#()`=→✅✓✔…–—\ufeff-]")
_FILLERS = re.compile(
    r"json format|\b(?:image|picture|frame|step)s? \d+"
    r"|\bas (?:asked|can be seen|instructed|requested|shown)\b"
)
_THOUGHT_NO = re.compile(
    r"(?:(?:\b|_)(?:answer|conclusion|decision|so|success|verdict)\W+"
    r"(?:(?:be|has|i|is|it|must|say|should|that|the|this|will|would)\W+)*"
    r"(?:failed|failure|fails?|false|no|rejected|reject|unsuccessful)\W*(?:refine_prompt\b[^}]*\}?\W*)?"
    r"|\A\W*(?:false|no|reject(?:ed)?)\W*"
    r"|\bi (?:have to |must |will |would )?reject(?: (?:it|(?:the|this) \w+))?\W*"
    r"|\bi (?:am unable to|can ?not|can['’]t) see (?:(?:any|either|first|second|the) )+(?:image|picture)s?"
    r"\W*)\Z"
)
"""The end of thoughts that reject, or see nothing."""
_PLAIN = frozenset(
    _WORD.findall("""
    a after all an analysis and answer are arm asked assessment assistant at based been before below both
    by can certainly clearly compared comparing complete completed conclusion correct correctly course
    decision done edit evaluation final finally first following frame frames from fully goal grasped gripper
    hand has have held here holds i image images in inside instructed instruction into is it its json
    judgement judging judgment lies look looked looking moved my now object of ok okay on onto opened
    output picture pictures place placed position
    properly put reached released requested response result right robot s scene second see shown shows so
    stands state step succeeded success successful successfully sure that the there therefore these this
    thus to two up verdict visible was we well were with yes
    """)
)
_NEGATIONS = frozenset(
    _WORD.findall("""
    but else error fail failed fails failure false hold incorrect keep leave missing never nicht no non none
    nor not nothing only pas reject rejected same stay unchanged without wrong wrongly
    """)
)
"""Words that may stand before an acceptance, and those that may not though its prompt has them."""


@dataclass(frozen=True)
class VerdictFormat:
    """A form of verdicts. `schema` and `example` take whether scores are asked for."""

    schema: Callable[[bool], Mapping[str, Any]]
    """The JSON schema, for back ends that can enforce one."""
    example: Callable[[bool], str]
    """The form that a model is shown."""
    parse: Callable[[str, str | None], Verdict | Problem]
    """Reads a reply about a picture that was drawn by a prompt, which an acceptance may repeat."""
    with_probability: Callable[[Verdict, TokenReply], Verdict | Problem] | None
    """Adds the probability of success from the tokens of the reply; None where the form has none."""


def _truth(value: object) -> object:
    if not isinstance(value, str):
        return value
    word = value.strip().casefold()
    return True if word in _YES else False if word in _NO else value


class _Verdict(ReplyModel, extra="forbid"):
    previous_step_success: Annotated[bool, BeforeValidator(_truth)]
    refine_prompt: OptionalText = None


class _Scores(ReplyModel, extra="forbid"):
    success: Score
    over_editing: Score
    naturalness: Score
    artefacts: Score


class _ScoredVerdict(_Verdict):
    scores: _Scores | None = None


def verdict_example(scores: bool) -> str:
    """The form of a verdict, as a model is shown it."""
    return _VERDICT % (_SCORES if scores else "")


def verdict_schema(scores: bool) -> dict[str, Any]:
    """The JSON schema of a Critic's answer."""
    return (_ScoredVerdict if scores else _Verdict).model_json_schema(mode="serialization")


def parse_verdict(reply: str, prompt: str | None = None) -> Verdict | Problem:
    """Read a Critic's reply about a picture that was drawn by `prompt`, which an acceptance may repeat.

    Semantics and quality are each the lower of two sub-scores, as in VIEScore (arXiv 2312.14867).
    """
    answer = read_model(_ScoredVerdict, reply, "previous_step_success", faults=FAULTS, alone=True)
    if isinstance(answer, Problem):
        return answer
    read, parsed = answer
    if read.refine_prompt in _FORM_PROMPTS:
        return Problem("it repeats the form: write the prompt itself, or null")
    success, scores = read.previous_step_success, read.scores
    semantics = min(scores.success, scores.over_editing) if scores else None
    quality = min(scores.naturalness, scores.artefacts) if scores else None
    if success and any(s is not None and s < PASSING for s in (semantics, quality)):
        return Problem(f"it accepts the picture but gives it a score below {PASSING}")
    if success and read.refine_prompt is not None and _words(read.refine_prompt) != _words(prompt or ""):
        return Problem("it accepts the picture but writes a new prompt: null where it accepts")
    return _doubt(success, parsed, prompt) or Verdict(
        success=success,
        reasoning=parsed.thinking or parsed.before,
        refined_prompt=None if success else read.refine_prompt,
        semantics=semantics,
        quality=quality,
    )


def _words(text: str) -> list[str]:
    return text.casefold().rstrip(". ").split()


def _doubt(success: bool, parsed: ParsedReply, prompt: str | None) -> Problem | None:
    """Refuse an acceptance after thoughts that reject, or words that are neither plain nor of its prompt."""
    if success and _THOUGHT_NO.search(parsed.thinking.casefold()):
        return Problem("it accepts the picture, and its thoughts end with a rejection")
    prompt_words = {word for word in _WORD.findall((prompt or "").casefold()) if word.isalnum()}
    plain = _PLAIN | prompt_words - _NEGATIONS
    before = _FILLERS.sub("", parsed.before.casefold())
    odd = [word for word in _WORD.findall(before) if word not in plain] if success else []
    if not odd:
        return None
    word = odd[0][:40]
    return Problem(f"it accepts the picture after the word {word!r}: write thoughts in <think></think>")


def verdict_reply(verdict: Verdict, repeated: str | None = None) -> str:
    """A Critic's reply without scores; `parse_verdict` reads it back. An acceptance repeats `repeated`."""
    prompt = repeated if verdict.success else verdict.refined_prompt
    answer = {"previous_step_success": verdict.success, "refine_prompt": prompt}
    return tagged_reply(verdict.reasoning, answer)


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


def probability_of_yes(reply: TokenReply, key: str, *, value: bool) -> float | None:
    """Compute P(yes) / (P(yes) + P(no)) where the value of `key` begins for the last time in a reply.

    All alternatives count that begin a yes or a no there; a token may also contain the key, or much more.

    Returns:
        0-1; None without tokens, where the text seems to give another value than `value`, which the parser
        read, where the token has no alternatives, or where no alternative begins a yes or a no.
    """
    place = re.compile(rf"""[{{,]\s*["']?{re.escape(key)}["']?\s*:[\s"']*(\w+)""")
    matches = list(place.finditer(reply.text))
    if not matches or _word_truth(matches[-1][1]) is not value:
        return None
    target, start = matches[-1].start(1), 0
    for token in reply.tokens:
        if start + len(token.text) > target:
            return _share(reply.text[:start], token, place)
        start += len(token.text)
    return None


def _share(prefix: str, token: Token, place: re.Pattern[str]) -> float | None:
    probabilities = {True: 0.0, False: 0.0}
    if len(token.alternatives) < 2:  # of a server without alternatives, the token would be certain
        return None
    for other, probability in token.alternatives.items():
        values = [m[1] for m in place.finditer(prefix + other) if m.start(1) >= len(prefix)]
        truth = _word_truth(values[-1]) if values else None
        if truth is not None:
            probabilities[truth] += probability
    total = sum(probabilities.values())
    return probabilities[True] / total if total > 0 else None


def _word_truth(word: str) -> bool | None:
    """The truth value that a word, or its beginning, stands for; None for neither."""
    word = word.casefold()
    if any(yes.startswith(word) for yes in _YES):
        return True
    return False if any(no.startswith(word) for no in _NO) else None


def _with_probability(verdict: Verdict, reply: TokenReply) -> Verdict | Problem:
    probability = probability_of_yes(reply, "previous_step_success", value=verdict.success)
    if probability is None:
        return verdict
    if verdict.success != (probability >= 0.5):
        return Problem(f"it says {verdict.success}, but its probability of True is {probability:.3f}")
    # Beyond three decimals lies a model's rounding, which another batch size changes.
    return verdict.model_copy(update={"probability": round(probability, 3)})


PUBLISHED_FORMAT = VerdictFormat(verdict_schema, verdict_example, parse_verdict, _with_probability)
"""The keys of InterleaveThinker's published checkpoints."""

OBSERVED_EXAMPLE = '{"holds": "yes, no or cannot tell", "reason": "what shows it, or what hides it"}'
_NO_REASON = re.compile(
    r"no\s*(?:[.,:;!]|\Z)|not\b|(?:i\s+)?(?:can ?not|can['’]t|could ?n[o'’]t|unable|unsure)"
    r"|(?:fail(?:ed|s)?|false|incorrect|reject(?:ed)?|un(?:clear|certain)|wrong)\b"
    r"|i(?: a|['’])m not (?:sure|certain)|it(?: i|['’])s (?:hard|impossible) to (?:say|see|tell)"
    r"|(?:it|that|the state|this) (?:does|has|is) ?n(?:o|['’])t (?:been )?(?:hold|met|reached|true|visible)\b"
    r"|(?:none|neither) of the (?:frame|image|picture)s show"
)
_OPENINGS = {"yes": "", "no": "The state does not hold: ", "cannot tell": "Cannot see: "}


def _normalized(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value).casefold().replace("_", " ")
    return " ".join(text.split()).strip(" .") if isinstance(value, str) else value


class _Observation(BaseModel, strict=True, extra="forbid"):
    holds: Annotated[Literal["yes", "no", "cannot tell"], BeforeValidator(_normalized)]
    reason: Annotated[str, Field(min_length=1, pattern=r"\S")]


def parse_observation(reply: str, prompt: str | None = None) -> Verdict | Problem:
    """Read the reply. Only a plain yes accepts; there is no prompt."""
    answer = read_model(_Observation, reply, "holds", alone=True)
    if isinstance(answer, Problem):
        return answer
    observation, parsed = answer
    success = observation.holds == "yes"
    reason = observation.reason.casefold().lstrip("-—: .,*")
    if success and (_NO_REASON.match(reason) or _THOUGHT_NO.search(reason)):
        return Problem("it says yes, and its reason says no")
    reasoning = f"{_OPENINGS[observation.holds]}{observation.reason.strip()}"
    return _doubt(success, parsed, prompt) or Verdict(success=success, reasoning=reasoning)


OBSERVED_FORMAT = VerdictFormat(
    lambda scores: _Observation.model_json_schema(), lambda scores: OBSERVED_EXAMPLE, parse_observation, None
)
"""The form for recorded frames: yes, no or cannot tell."""
