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
"""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from goalreel.errors import InputError
from goalreel.files import read_mapping, write_bytes

SHIPPED = Path(str(files("goalreel.annotator.prompts.banks")))
SLOT = re.compile(r"\{([a-z][a-z_]*)(?: \d)?\}")
_FORM = "a bank has the keys about, vocabulary and sub_categories"

type _Phrase = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^{}<>\n]+$")
]
type Template = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=400)]
type Vocabulary = Mapping[str, Annotated[tuple[_Phrase, ...], Field(min_length=1)]]


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


def slot_problem(template: str, names: set[str]) -> str | None:
    """Why a template cannot be filled in from vocabularies of these names; None if it can."""
    if re.search(r"[{}<>]", SLOT.sub("", template)):
        return f"{template!r}: a slot is a name in braces, such as {{object}} or {{object 2}}"
    missing = [slot for slot in SLOT.findall(template) if slot not in names]
    return f"{template!r}: no vocabulary is called {missing[0]}" if missing else None


def read_banks(folder: Path) -> dict[str, PromptBank]:
    """Read all banks of a folder, by domain.

    Raises:
        InputError: there is none, or one cannot be read.
    """
    paths = sorted(folder.glob("*.yaml"))
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
