"""Ask a judge a benchmark's questions. Every reply is kept on disk, so that nothing is asked twice.

    OUT/judge/KEY.json     one raw reply, by judge, conversation and try

A reply that cannot be read is asked for again, at most TRIES times in all; then the mark is None.
"""

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goalreel.chat.conversation import Chat, Conversation, NoReply
from goalreel.errors import BackendError, UserError
from goalreel.files import digest, read_file, write_bytes
from goalreel.models.load import build_chat
from goalreel.models.names import ModelName
from goalreel.models.registry import chats, find
from goalreel.progress import OnProgress
from goalreel_lab.published.answers import Answers
from goalreel_lab.published.benchmark import BenchAnswer, Benchmark, Inquiry, JudgeFacts, Marked, Sample

log = logging.getLogger(__name__)

TRIES = 3
"""Replies asked for until one can be read."""
DEAF = 16
"""Questions without any reply, from the first on, that end the run: an address of something else."""


@dataclass(frozen=True)
class BenchJudge:
    """A chat model that judges, and how it is asked."""

    chat: Chat
    name: str
    """In reports and in the journal's keys: with its options, without credentials."""
    temperature: float | None
    """None where the model's own settings say it."""
    concurrency: int = 16
    """Calls at a time, or conversations a call where `local`."""
    local: bool = False
    """It runs in this process, and takes several conversations a call rather than calls side by side."""


def build_judge(name: str, facts: JudgeFacts, *, concurrency: int = 16) -> BenchJudge:
    """Build the chat model `name`, asked as the paper's judge where the name does not say otherwise.

    Raises:
        UserError, OSError, ModuleNotFoundError: it cannot be built (see `goalreel.models.load`).
    """
    parsed = ModelName.parse(name)
    kind = chats.get(find("critic", parsed, recordings=False).name)
    options = kind.options.model_fields if kind is not None else ()
    paper = {
        "temperature": f"{facts.temperature:g}",
        "max_tokens": str(facts.max_tokens),
        "max_new_tokens": str(facts.max_tokens),
    }
    whole = parsed.filled({key: value for key, value in paper.items() if key in options})
    chat = build_chat(whole.text, role="critic")
    temperature = whole.options.get("temperature", "checkpoint")
    return BenchJudge(
        chat,
        whole.public(),
        None if temperature == "checkpoint" else float(temperature),
        concurrency,
        kind is not None and kind.shared,
    )


def judge_all(
    benchmark: Benchmark, answers: Answers, judge: BenchJudge, folder: Path, progress: OnProgress
) -> list[Marked]:
    """Ask the judge all that the benchmark wants to know; replies are kept in `folder`.

    Raises:
        UserError: the judge cannot be called; what it said is kept, and a second run goes on.
        InputError: the judge's prompts are not there.
    """
    asker, marked = Asker(judge, folder), []
    progress("judge", 0, len(answers))
    for start in range(0, len(answers), 2 * judge.concurrency):
        some = answers[start : start + 2 * judge.concurrency]
        marks: list[dict[str, Any]] = [{} for _ in some]
        while open_inquiries := _open(benchmark, some, marks):
            fresh_marks = asker.ask([(sample, inquiry) for sample, _, inquiry in open_inquiries])
            for (_, sample_marks, inquiry), mark in zip(open_inquiries, fresh_marks, strict=True):
                sample_marks[inquiry.name] = mark
        marked += [Marked(s, answer.light(), m) for (s, answer), m in zip(some, marks, strict=True)]
        progress("judge", len(marked), len(answers))
    return marked


def _open(
    benchmark: Benchmark, some: Sequence[tuple[Any, Any]], marks: Sequence[dict[str, Any]]
) -> list[tuple[str, dict[str, Any], Inquiry]]:
    """List what is still to be asked: (the sample's id, its marks, the inquiry)."""
    return [
        (sample.id, sample_marks, inquiry)
        for (sample, answer), sample_marks in zip(some, marks, strict=True)
        for inquiry in benchmark.inquiries(sample, answer, sample_marks)
        if inquiry.name not in sample_marks
    ]


@dataclass
class Asker:
    """Asks a judge what its journal in `folder` does not know. Safe to kill at any moment."""

    judge: BenchJudge
    folder: Path
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _answered: bool = field(default=False, init=False)
    _failed: int = field(default=0, init=False)
    """Calls in a row that came to nothing."""
    _heard: bool = field(default=False, init=False)
    """The judge has ever replied, in this run or before."""
    _unheard: int = field(default=0, init=False)

    def ask(self, inquiries: Sequence[tuple[str, Inquiry]]) -> list[Any]:
        """Give the mark of each (sample's id, inquiry); None where the judge gave none that can be read."""
        recalled = [self.recall(inquiry) for _, inquiry in inquiries]
        marks = [mark for _, mark in recalled]
        for number in range(TRIES):
            still = [i for i, (settled, _) in enumerate(recalled) if not settled and marks[i] is None]
            replies = self._replies([inquiries[i] for i in still], number)
            for i, reply in zip(still, replies, strict=True):
                marks[i] = None if reply is None else inquiries[i][1].read(reply)
        return marks

    def recall(self, inquiry: Inquiry) -> tuple[bool, Any]:
        """Read the journal alone: whether asking calls nobody, and the mark."""
        replies = [_read(self._path(inquiry.conversation, number)) for number in range(TRIES)]
        marks = [None if reply is None else inquiry.read(reply) for reply in replies]
        self._heard = self._heard or any(reply is not None for reply in replies)
        mark = next((mark for mark in marks if mark is not None), None)
        return mark is not None or None not in replies, mark

    def _replies(self, inquiries: Sequence[tuple[str, Inquiry]], number: int) -> list[str | None]:
        paths = [self._path(inquiry.conversation, number) for _, inquiry in inquiries]
        replies = {path: _read(path) for path in paths}
        missing = {p: inquiry for p, inquiry in zip(paths, inquiries, strict=True) if replies[p] is None}
        for path, reply in self._fresh(missing):
            replies[path] = reply
        return [replies[path] for path in paths]

    def _fresh(self, missing: dict[Path, tuple[str, Inquiry]]) -> Iterator[tuple[Path, str | None]]:
        items = list(missing.items())
        size = self.judge.concurrency
        if self.judge.local:
            for start in range(0, len(items), size):
                yield from self._call(items[start : start + size])
            return
        pool = ThreadPoolExecutor(size)
        try:
            for pairs in pool.map(lambda item: self._call([item]), items):
                yield from pairs
        finally:
            pool.shutdown(cancel_futures=True)

    def _call(self, items: Sequence[tuple[Path, tuple[str, Inquiry]]]) -> list[tuple[Path, str | None]]:
        """Make one call; what it answers is on disk before it returns."""
        try:
            replies = self.judge.chat.complete([inquiry.conversation for _, (_, inquiry) in items])
        except BackendError as e:
            self._missed(e)
            return [(path, None) for path, _ in items]
        pairs: list[tuple[Path, str | None]] = []
        for (path, (sample, inquiry)), reply in zip(items, replies, strict=True):
            if isinstance(reply, NoReply):
                self._silent(reply.reason)
                log.warning("%s, %s: the judge gave no reply: %s", sample, inquiry.name, reply.reason)
            else:
                self._keep(path, sample, inquiry.name, reply)
            pairs.append((path, None if isinstance(reply, NoReply) else reply))
        return pairs

    def _keep(self, path: Path, sample: str, name: str, reply: str) -> None:
        record = {"judge": self.judge.name, "sample": sample, "inquiry": name, "reply": reply}
        write_bytes(path, json.dumps(record, ensure_ascii=False, indent=1).encode())
        with self._lock:
            self._answered, self._heard, self._failed = True, True, 0

    def _missed(self, error: BackendError) -> None:
        """Let one call pass that came to nothing; not the first, and not many in a row."""
        with self._lock:
            self._failed += 1
            dead = not self._answered or self._failed >= self.judge.concurrency
        if dead:
            reason = str(error) or type(error).__name__
            raise UserError(
                f"{reason}: all replies so far are kept; run the same command again to resume"
            ) from error
        log.warning("the judge could not be called: %s", error)

    def _silent(self, reason: str) -> None:
        """Let a question pass that got no reply; not DEAF of them before the first reply."""
        with self._lock:
            self._unheard += 1
            deaf = not self._heard and self._unheard >= DEAF
        if deaf:
            raise UserError(f"the judge does not answer ({reason}): check its name and address")

    def _path(self, conversation: Conversation, number: int) -> Path:
        parts: list[str | bytes] = [self.judge.name, str(number)]
        for message in conversation:
            parts.append(message.role)
            for part in message.parts:
                parts += [part] if isinstance(part, str) else [repr(part.size), part.pixels.tobytes()]
        return self.folder / f"{digest(*parts)}.json"


def _read(path: Path) -> str | None:
    try:
        return str(json.loads(read_file(path))["reply"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as e:
        log.warning("%s: damaged, asking again (%s)", path, type(e).__name__)
        return None


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
