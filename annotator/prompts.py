"""Instructions to plan, written from banks of words and templates: balanced, without duplicates.

A bank is what one domain's prompts are written from, a YAML file that people edit:

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

Domains take turns, in each its sub-categories, and in each of these its templates. One that has nothing new
to say any more leaves its turns to the others. The same seed gives the same prompts.

OUT/prompts.jsonl    a row a prompt: see `Prompt`
OUT/banks/           the banks that they were written from, to be edited
OUT/report.json      numbers
"""

import json
import random
import re
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from math import prod
from pathlib import Path
from typing import Annotated, Any, Self
from zlib import crc32

from datasketch import MinHash, MinHashLSH
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from goalreel.annotator.corpus.make import check_empty, check_settings
from goalreel.errors import InputError
from goalreel.files import digest, exclusive, find, read_mapping, sweep, write_bytes
from goalreel.progress import OnProgress

SHIPPED = Path(__file__).parent / "banks"
SLOT = re.compile(r"\{([a-z][a-z_]*)(?: \d)?\}")
_FORM = "a bank has the keys about, vocabulary and sub_categories"

type _Phrase = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^[^{}<>\n]{1,200}$")]
type Template = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=400)]
type Vocabulary = Mapping[str, Annotated[tuple[_Phrase, ...], Field(min_length=1)]]

_TRIES = 300
"""Duplicates in a row after which a template has nothing new to say."""
_COMBINATIONS = 50_000
"""Combinations of a template that may be tried."""
_PERMUTATIONS = 128
_WEIGHTS = (0.02, 0.98)
"""Weights of false positives and false negatives."""
_MARGIN = 0.85
"""Low enough to leave none of 6,000 prompts undetected."""
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeio]|u(?!n[iv]|s[aeu]))")
"""An "a" that has to be "an"; words in capitals are left alone."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SubCategory(_Part):
    """Templates, and the phrases for their slots."""

    vocabulary: Vocabulary = {}
    templates: Annotated[tuple[Template, ...], Field(min_length=1)]


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


class Prompt(BaseModel):
    """A row of prompts.jsonl: an instruction to plan, and where it comes from."""

    model_config = ConfigDict(frozen=True)

    id: str
    prompt: str
    domain: str
    sub_category: str
    template: str
    """DOMAIN/SUB-CATEGORY/NUMBER, counted from 1."""
    vocabulary: dict[str, str]
    """Slot -> phrase."""
    seed: int


class Duplicates:
    """Finds prompts that say again what another one says.

    Two are near-duplicates if their runs of one, two and three words have a Jaccard similarity of
    `threshold`: of 0.75, if they differ in one word and have at least 15.
    """

    def __init__(self, threshold: float = 0.75) -> None:
        self.threshold = threshold
        self.counts = Counter[str]()
        """`exact` and `near` -> how many were found."""
        self._parts: dict[str, frozenset[str]] = {}
        # The index only estimates; as each pair that it finds is compared exactly, it had better miss none.
        self._index = MinHashLSH(threshold=_MARGIN * threshold, num_perm=_PERMUTATIONS, weights=_WEIGHTS)
        self._empty = MinHash(num_perm=_PERMUTATIONS, hashfunc=crc32)

    def admit(self, text: str) -> bool:
        """Tell if nothing like it was admitted before, and remember it then."""
        words = re.findall(r"[\w'-]+", text.casefold())
        key = " ".join(words)
        if key in self._parts:
            self.counts["exact"] += 1
            return False
        runs = (words[at : at + size] for size in (1, 2, 3) for at in range(len(words) - size + 1))
        parts = frozenset(" ".join(run) for run in runs)
        sketch = self._empty.copy()
        sketch.update_batch(part.encode() for part in parts)
        others = (self._parts[str(other)] for other in self._index.query(sketch))
        if any(len(parts & other) / len(parts | other) >= self.threshold for other in others):
            self.counts["near"] += 1
            return False
        self._index.insert(key, sketch)
        self._parts[key] = parts
        return True


def write_prompts(
    banks: Mapping[str, PromptBank], count: int, seed: int = 0, duplicates: Duplicates | None = None
) -> Iterator[Prompt]:
    """Yield up to `count` prompts; the first ones are the same for a larger `count`."""
    found = Duplicates() if duplicates is None else duplicates

    def of_part(domain: str, bank: PromptBank, name: str) -> Iterator[Prompt]:
        count = len(bank.sub_categories[name].templates)
        return take_turns([_template_prompts(domain, bank, name, n, seed, found) for n in range(count)])

    domains = [
        take_turns([of_part(domain, bank, name) for name in bank.sub_categories])
        for domain, bank in banks.items()
    ]
    return islice(take_turns(domains), count)


def take_turns[T](sources: Sequence[Iterator[T]]) -> Iterator[T]:
    """Yield one item of each source in turn, until all are at their end.

    >>> list(take_turns([iter("abc"), iter("x")]))
    ['a', 'x', 'b', 'c']
    """
    waiting = deque(sources)
    while waiting:
        source = waiting.popleft()
        for item in islice(source, 1):
            yield item
            waiting.append(source)


def _template_prompts(
    domain: str, bank: PromptBank, name: str, number: int, seed: int, duplicates: Duplicates
) -> Iterator[Prompt]:
    part = bank.sub_categories[name]
    template = part.templates[number]
    phrases = bank.phrases(name, template)
    total = prod(map(len, phrases.values()))
    order = random.Random(f"{seed} {domain} {name} {template}")
    failed = 0
    for combination in order.sample(range(total), min(total, _COMBINATIONS)):
        if failed == _TRIES:
            return
        chosen = _combination(combination, phrases)
        text = _fill(template, chosen)
        if text is None or not duplicates.admit(text):
            failed += 1
            continue
        failed = 0
        yield Prompt(
            id=digest(text)[:12],
            prompt=text,
            domain=domain,
            sub_category=name,
            template=f"{domain}/{name}/{number + 1}",
            vocabulary=chosen,
            seed=seed,
        )


def _combination(number: int, phrases: Mapping[str, Sequence[str]]) -> dict[str, str]:
    chosen = {}
    for slot, options in phrases.items():
        number, at = divmod(number, len(options))
        chosen[slot] = options[at]
    return chosen


def _fill(template: str, chosen: Mapping[str, str]) -> str | None:
    """The sentence; None where two slots of one name hold the same phrase."""
    if len({(slot.split()[0], phrase) for slot, phrase in chosen.items()}) < len(chosen):
        return None
    text = _ARTICLE.sub(r"\1n ", SLOT.sub(lambda slot: chosen[slot[0][1:-1]], template))
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class PromptConfig:
    """The prompts to write."""

    banks: Mapping[str, PromptBank]
    count: int = 40_000
    seed: int = 0
    similarity: float = 0.75
    """From which prompts are near-duplicates."""


@dataclass(frozen=True)
class PromptReport:
    """Counts of what was written, and of what was left out."""

    prompts: int
    asked_for: int
    domains: dict[str, int]
    sub_categories: dict[str, int]
    """DOMAIN/SUB-CATEGORY -> prompts."""
    templates: int
    """Templates with a prompt."""
    phrases: int
    """Phrases in a prompt."""
    words: dict[int, int]
    """Words of a prompt -> prompts."""
    duplicates: dict[str, int]
    """`exact` and `near` -> prompts left out."""
    seed: int


def make_prompts(
    config: PromptConfig, out: Path, *, progress: OnProgress = lambda stage, done, total: None
) -> PromptReport:
    """Write prompts, their banks and a report into `out`.

    Raises:
        DatasetError: `out` holds other prompts or other files, another run writes there, or the disk is full.
    """
    check_empty(out)
    with exclusive(out / ".lock", out):
        sweep(out)
        banks = (f"{domain}\n{bank.model_dump_json()}" for domain, bank in config.banks.items())
        check_settings(out, {**vars(config), "banks": digest(*banks)})
        duplicates = Duplicates(config.similarity)
        prompts: list[Prompt] = []
        for prompt in write_prompts(config.banks, config.count, config.seed, duplicates):
            prompts.append(prompt)
            if not len(prompts) % 500:
                progress("prompts", len(prompts), config.count)
        report = _count(prompts, config, duplicates)
        for domain, bank in config.banks.items():
            write_bank(bank, out / "banks" / f"{domain}.yaml")
        lines = (each.model_dump_json() + "\n" for each in prompts)
        write_bytes(out / "prompts.jsonl", "".join(lines).encode())
        write_bytes(out / "report.json", (json.dumps(asdict(report), indent=1) + "\n").encode())
    return report


def _count(prompts: Sequence[Prompt], config: PromptConfig, duplicates: Duplicates) -> PromptReport:
    words = Counter(len(each.prompt.split()) for each in prompts)
    names = {f"{domain}/{name}": 0 for domain, bank in config.banks.items() for name in bank.sub_categories}
    return PromptReport(
        prompts=len(prompts),
        asked_for=config.count,
        domains=dict.fromkeys(config.banks, 0) | Counter(each.domain for each in prompts),
        sub_categories=names | Counter(f"{each.domain}/{each.sub_category}" for each in prompts),
        templates=len({each.template for each in prompts}),
        phrases=len({phrase for each in prompts for phrase in each.vocabulary.values()}),
        words=dict(sorted(words.items())),
        duplicates={kind: duplicates.counts[kind] for kind in ("exact", "near")},
        seed=config.seed,
    )
