"""Estimate the calls, tokens and cost of judging, before a judge is asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from goalreel.chat.conversation import Conversation
from goalreel_lab.published.benchmark import BenchAnswer, Benchmark, Sample
from goalreel_lab.published.judging import Asker

LOOKED_AT = 32
"""Samples that are looked at; the others are taken to be like them."""
TOKENS_A_MEGAPIXEL = 1000
CHARACTERS_A_TOKEN = 4
REPLY_TOKENS = 200
"""A guess: no judge says beforehand how long it will think."""


@dataclass(frozen=True)
class Estimate:
    """Calls that the journal does not answer, and the tokens they send; no calls only where all is known.

    What depends on a reply still to come, such as CoMM's third question, is not counted.
    """

    calls: int
    prompt_tokens: int

    def dollars(self, price_in: float, price_out: float) -> float:
        """Cost at these prices for a million tokens, with REPLY_TOKENS a reply."""
        return (self.prompt_tokens * price_in + self.calls * REPLY_TOKENS * price_out) / 1e6

    def text(self, price_in: float | None = None, price_out: float | None = None) -> str:
        """Write one line."""
        text = f"about {self.calls:,} calls with {self.prompt_tokens:,} prompt tokens in all"
        if price_in is None and price_out is None:
            return text
        cost = self.dollars(price_in or 0.0, price_out or 0.0)
        return f"{text}: ${cost:,.2f} at your prices and {REPLY_TOKENS} tokens a reply"


def estimate(benchmark: Benchmark, answers: Sequence[tuple[Sample, BenchAnswer]], asker: Asker) -> Estimate:
    """Look at some samples, evenly spread, and take the others to be like them.

    Where the journal answers all of these, the others are looked at too: nobody is to be called unasked.
    """
    step = max(1, -(-len(answers) // LOOKED_AT))
    looked = range(0, len(answers), step)
    new = [inquiry for index in looked for inquiry in _new(benchmark, answers, index, asker)]
    if not new:
        looked = range(len(answers))
        new = [
            inquiry for index in looked if index % step for inquiry in _new(benchmark, answers, index, asker)
        ]
    share = len(answers) / max(1, len(looked))
    return Estimate(round(len(new) * share), round(sum(map(_tokens, new)) * share))


def _new(
    benchmark: Benchmark, answers: Sequence[tuple[Sample, BenchAnswer]], index: int, asker: Asker
) -> list[Conversation]:
    """List what is to be asked about one answer, as far as the journal's marks tell."""
    sample, answer = answers[index]
    marks: dict[str, Any] = {}
    while True:
        inquiries = [i for i in benchmark.inquiries(sample, answer, marks) if i.name not in marks]
        recalled = [asker.recall(inquiry) for inquiry in inquiries]
        new = [i.conversation for i, (settled, _) in zip(inquiries, recalled, strict=True) if not settled]
        if new or not inquiries:
            return new
        marks |= {inquiry.name: mark for inquiry, (_, mark) in zip(inquiries, recalled, strict=True)}


def _tokens(conversation: Conversation) -> float:
    parts: Sequence = [part for message in conversation for part in message.parts]
    characters = sum(len(part) for part in parts if isinstance(part, str))
    pixels = sum(part.size[0] * part.size[1] for part in parts if not isinstance(part, str))
    return characters / CHARACTERS_A_TOKEN + pixels / 1e6 * TOKENS_A_MEGAPIXEL
