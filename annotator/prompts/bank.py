"""Banks: what one domain's prompts are written from. One YAML file a domain, which people edit.

about: preparing food in a home kitchen
vocabulary:                            # for all sub-categories
  vessel: [saucepan, mixing bowl]
sub_categories:
  cutting:
    vocabulary:
      food: [carrot, red onion]
    templates:
      - Slice the {food} and put the pieces in the {vessel}.

A slot is a name in the vocabulary; `{food 2}` is another phrase of the same list. A phrase has to fit each
slot of its name, so templates write the articles.

A chat model may extend banks: sub-categories for a domain, then templates and phrases for each. Its answers
are in a journal, so that a second run asks only what is missing.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import batched
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from goalreel.chat.ask import Question, ask
from goalreel.chat.conversation import Chat, Message
from goalreel.chat.interleave import plain
from goalreel.chat.json_reply import Problem, read_model
from goalreel.chat.prompts import render
from goalreel.errors import BackendError, InputError, UserError
from goalreel.files import find, read_mapping, write_bytes
from goalreel.models.journal import Journal
from goalreel.progress import OnCount, OnProgress
from goalreel.types import Failure

SHIPPED = Path(str(files("goalreel.annotator.prompts.banks")))
SLOT = re.compile(r"\{([a-z][a-z_]*)(?: \d)?\}")
_FORM = "a bank has the keys about, vocabulary and sub_categories"

_PHRASE, _TEMPLATE = r"[^{}<>\n]{1,200}", 400
type _Phrase = Annotated[str, StringConstraints(strip_whitespace=True, pattern=f"^{_PHRASE}$")]
type Template = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_TEMPLATE)]
type Vocabulary = Mapping[str, Annotated[tuple[_Phrase, ...], Field(min_length=1)]]

_BATCH = 16
"""Questions in one call: what a killed run may have to ask again."""
_REPLIES = 3
_NAME = 80


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SubCategory(_Part):
    """Templates, and the phrases for their slots."""

    vocabulary: Vocabulary = {}
    templates: Annotated[tuple[Template, ...], Field(min_length=1)]
    model: str | None = None
    """The chat model that wrote some of it."""


class PromptBank(_Part):
    """All that a domain's prompts are written from."""

    about: str
    vocabulary: Vocabulary = {}
    sub_categories: Mapping[str, SubCategory]

    def phrases(self, name: str, template: str) -> dict[str, Sequence[str]]:
        """The phrases for each slot of a template of the sub-category `name`, by what is in the braces."""
        vocabulary = {**self.vocabulary, **self.sub_categories[name].vocabulary}
        return {slot[0][1:-1]: vocabulary[slot[1]] for slot in SLOT.finditer(template)}

    @model_validator(mode="after")
    def _check_slots(self) -> Self:
        for name, part in self.sub_categories.items():
            for template in part.templates:
                if problem := slot_problem(template, {*self.vocabulary, *part.vocabulary}):
                    raise ValueError(f"{name}: {problem}")
        return self


def slot_problem(template: str, names: Collection[str]) -> str | None:
    """Say why a template cannot be filled in from vocabularies of these names; None if it can."""
    if re.search(r"[{}<>]", SLOT.sub("", template)):
        return f"{template!r}: a slot is a name in braces, such as {{object}} or {{object 2}}"
    missing = [slot for slot in SLOT.findall(template) if slot not in names]
    return f"{template!r}: no vocabulary is called {missing[0]}" if missing else None


def read_banks(folder: Path) -> dict[str, PromptBank]:
    """Read all banks of a folder, by domain.

    Raises:
        InputError: there is none, or one cannot be read.
    """
    paths = find(folder, "*.yaml")
    if not paths:
        raise InputError(f"{folder}: holds no bank: give a folder of YAML files, one a domain")
    return {path.stem: _read(path) for path in paths}


def _read(path: Path) -> PromptBank:
    try:
        return PromptBank.model_validate(read_mapping(path, _FORM))
    except ValidationError as e:
        fault = e.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, fault["loc"]))
        message = fault["msg"].removeprefix("Value error, ")
        raise InputError(f"{path}: {where + ': ' if where else ''}{message}") from None


def write_bank(bank: PromptBank, path: Path) -> None:
    """Write a bank as people edit it."""
    import yaml

    values: dict[str, Any] = bank.model_dump(mode="json", exclude_defaults=True)
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=110)
    write_bytes(path, text.encode())


class _Topic(BaseModel):
    """Question to a model about a domain, or about one of its sub-categories."""

    model_config = ConfigDict(frozen=True)

    turn: str
    values: dict[str, str | int | list[str]]


class _Names(BaseModel):
    sub_categories: tuple[str, ...]


class _Slot(BaseModel):
    slot: str
    phrases: tuple[str, ...]


class _Phrases(BaseModel):
    vocabulary: tuple[_Slot, ...]
    templates: tuple[str, ...]

    def usable(self) -> dict[str, tuple[str, ...]]:
        """The phrases that can be used, by slots that can be."""
        usable: dict[str, tuple[str, ...]] = {}
        for entry in self.vocabulary:
            phrases = dict.fromkeys(" ".join(phrase.split()) for phrase in entry.phrases)
            fitting = tuple(phrase for phrase in phrases if re.fullmatch(_PHRASE, phrase))
            if fitting and SLOT.fullmatch(f"{{{entry.slot}}}"):
                usable[entry.slot] = (*usable.get(entry.slot, ()), *fitting)
        return usable


@dataclass(frozen=True)
class Writer:
    """A chat model, what banks and rows call it, and where its answers are kept."""

    chat: Chat
    name: str
    journal: Journal

    def answers[M: BaseModel](
        self, kind: type[M], topics: Sequence[_Topic], progress: OnCount
    ) -> list[M | Failure]:
        """Ask about each topic for an answer of a kind.

        Raises:
            UserError: the model cannot be called; its answers are kept.
        """

        def fresh(some: Sequence[_Topic]) -> list[M | Failure]:
            questions = [_question(kind, each) for each in some]
            schema = kind.model_json_schema()
            return ask(self.chat, questions, stage="plan", replies=_REPLIES, schema=schema)

        answers: list[M | Failure] = []
        try:
            for some in batched(topics, _BATCH):
                answers += self.journal.ask(self.name, kind, fresh, some)
                progress(len(answers), len(topics))
        except BackendError as e:
            raise UserError(f"{e}: what it answered is kept, run the same command again to go on") from e
        return answers


def extend_banks(
    banks: Mapping[str, PromptBank],
    sub_categories: int,
    writer: Writer,
    progress: OnProgress = lambda stage, done, total: None,
) -> tuple[dict[str, PromptBank], dict[str, str]]:
    """Extend each bank to `sub_categories` sub-categories at least, and write more into each of them.

    Returns:
        The banks, and the model's failures by domain, or by domain and sub-category.

    Raises:
        UserError: the model cannot be called; its answers are kept.
    """
    missing = {domain: sub_categories - len(bank.sub_categories) for domain, bank in banks.items()}
    short = [domain for domain, count in missing.items() if count > 0]
    topics = [_about_domain(domain, banks[domain], missing[domain]) for domain in short]
    names = dict(zip(short, writer.answers(_Names, topics, partial(progress, "domains")), strict=True))
    failures = {domain: answer.line for domain, answer in names.items() if isinstance(answer, Failure)}
    places = [
        (domain, name)
        for domain, bank in banks.items()
        for name in (*bank.sub_categories, *_new_names(bank, names.get(domain), missing[domain]))
    ]
    topics = [_about_sub_category(domain, name, banks[domain]) for domain, name in places]
    answers = writer.answers(_Phrases, topics, partial(progress, "sub-categories"))
    parts = {domain: dict(bank.sub_categories) for domain, bank in banks.items()}
    for (domain, name), answer in zip(places, answers, strict=True):
        if isinstance(answer, Failure):
            failures[f"{domain}/{name}"] = answer.line
        else:
            parts[domain][name] = _merge(banks[domain], name, answer, writer.name)
    extended = {
        domain: bank.model_copy(update={"sub_categories": parts[domain]}) for domain, bank in banks.items()
    }
    return extended, failures


def _new_names(bank: PromptBank, answer: _Names | Failure | None, count: int) -> list[str]:
    names = answer.sub_categories if isinstance(answer, _Names) else ()
    clean = dict.fromkeys(" ".join(plain(name).replace("/", " ").split())[:_NAME] for name in names)
    return [name for name in clean if name and name not in bank.sub_categories][:count]


def _about_domain(domain: str, bank: PromptBank, count: int) -> _Topic:
    names = list(bank.sub_categories)
    values = {"domain": plain(domain), "about": plain(bank.about), "count": count, "known": names}
    return _Topic(turn="banks/sub_categories", values=values)


def _about_sub_category(domain: str, name: str, bank: PromptBank) -> _Topic:
    part = bank.sub_categories.get(name)
    values: dict[str, str | int | list[str]] = {
        "domain": plain(domain),
        "about": plain(bank.about),
        "name": name,
        "templates": [] if part is None else list(part.templates),
        "slots": sorted({*bank.vocabulary, *(part.vocabulary if part else ())}),
    }
    return _Topic(turn="banks/phrases", values=values)


def _question[M: BaseModel](kind: type[M], topic: _Topic) -> Question[M]:
    def read(reply: str) -> M | Problem:
        fields = {*kind.model_fields, "slot", "phrases"}
        answer = read_model(kind, reply, next(iter(kind.model_fields)), fields)
        if isinstance(answer, Problem):
            return answer
        if isinstance(answer[0], _Phrases):
            known = topic.values["slots"]
            slots = {*(known if isinstance(known, list) else ()), *answer[0].usable()}
            problems = [slot_problem(template, slots) for template in answer[0].templates]
            if all(problems):
                return Problem(next(filter(None, problems), "it holds no template"))
        return answer[0]

    message = Message("user", (plain(render(topic.turn, topic.values)),))
    return Question((message,), read, "in full, with the JSON alone.")


def _merge(bank: PromptBank, name: str, answer: _Phrases, model: str) -> SubCategory:
    """The sub-category with what a model wrote; its templates without a vocabulary are left out."""
    part = bank.sub_categories.get(name)
    vocabulary = {} if part is None else dict(part.vocabulary)
    for slot, phrases in answer.usable().items():
        known = vocabulary.get(slot, bank.vocabulary.get(slot, ()))
        vocabulary[slot] = tuple(dict.fromkeys((*known, *phrases)))
    slots = {*bank.vocabulary, *vocabulary}
    templates = (" ".join(text.split()) for text in answer.templates)
    usable = [text for text in templates if 0 < len(text) <= _TEMPLATE and slot_problem(text, slots) is None]
    written = dict.fromkeys((*(part.templates if part else ()), *usable))
    return SubCategory(vocabulary=vocabulary, templates=tuple(written), model=model)
