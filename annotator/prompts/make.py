"""Make a folder of prompts. A second run asks the model only what is missing, and ends with the same files.

OUT/prompts.jsonl    a row a prompt: see `goalreel.annotator.prompts.write.Prompt`
OUT/banks/           the banks that they were written from, to be edited
OUT/report.json      numbers, and OUT/index.html shows them
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from goalreel.annotator.corpus.make import agree, check_empty
from goalreel.annotator.prompts.ask import Writer, extend_banks
from goalreel.annotator.prompts.bank import PromptBank, write_bank
from goalreel.annotator.prompts.write import Duplicates, Prompt, write_prompts
from goalreel.annotator.report.write import templates
from goalreel.chat.conversation import Chat
from goalreel.errors import InputError
from goalreel.files import digest, exclusive, sweep, write_bytes
from goalreel.models.journal import Journal
from goalreel.progress import OnProgress

_HERE = Path(__file__).parent
_SHOWN = 2
"""Prompts of a sub-category on the page."""


@dataclass(frozen=True)
class PromptOrder:
    """What is asked for."""

    banks: Mapping[str, PromptBank]
    count: int = 40_000
    seed: int = 0
    similarity: float = 0.75
    """From which prompts are near-duplicates."""
    sub_categories: int = 8
    """Of each domain, where a model extends the banks."""


@dataclass(frozen=True)
class PromptReport:
    """What was written, and what was left out."""

    prompts: int
    asked_for: int
    domains: dict[str, int]
    sub_categories: dict[str, int]
    """DOMAIN/SUB-CATEGORY -> prompts."""
    templates: int
    """Of which there is a prompt."""
    phrases: int
    """That are in a prompt."""
    words: dict[int, int]
    """Words of a prompt -> prompts."""
    duplicates: dict[str, int]
    """`exact` and `near` -> prompts left out."""
    seed: int
    model: str | None
    failures: dict[str, str]
    """What the model gave no usable answer to, and why."""

    @classmethod
    def of(
        cls,
        prompts: Sequence[Prompt],
        order: PromptOrder,
        duplicates: Duplicates,
        model: str | None,
        failures: dict[str, str],
    ) -> "PromptReport":
        """Count."""
        words = Counter(len(each.prompt.split()) for each in prompts)
        names = {
            f"{domain}/{name}": 0 for domain, bank in order.banks.items() for name in bank.sub_categories
        }
        return cls(
            prompts=len(prompts),
            asked_for=order.count,
            domains=dict.fromkeys(order.banks, 0) | Counter(each.domain for each in prompts),
            sub_categories=names | Counter(f"{each.domain}/{each.sub_category}" for each in prompts),
            templates=len({each.template for each in prompts}),
            phrases=len({phrase for each in prompts for phrase in each.vocabulary.values()}),
            words=dict(sorted(words.items())),
            duplicates={kind: duplicates.counts[kind] for kind in ("exact", "near")},
            seed=order.seed,
            model=model,
            failures=failures,
        )


def make_prompts(
    order: PromptOrder,
    out: Path,
    *,
    chat: tuple[str, Chat] | None = None,
    progress: OnProgress = lambda stage, done, total: None,
) -> PromptReport:
    """Write prompts, their banks and a report into `out`; with `chat` (its name and it) extend the banks.

    Raises:
        InputError: the banks hold no template.
        DatasetError: `out` holds other prompts or other files, another run writes there, or the disk is full.
        UserError: the model cannot be called; a second run resumes.
    """
    if not any(bank.sub_categories for bank in order.banks.values()) and chat is None:
        raise InputError("the banks hold no sub-category: add some, or name a --model that writes them")
    check_empty(out)
    with exclusive(out / ".lock", out):
        sweep(out)
        agree(out, _settings(order, chat))
        failures: dict[str, str] = {}
        banks, journal = order.banks, Journal(out / "answers")
        if chat is not None:
            banks, failures = extend_banks(
                banks, order.sub_categories, Writer(chat[1], chat[0], journal), progress
            )
            order = replace(order, banks=banks)
        duplicates = Duplicates(order.similarity)
        prompts: list[Prompt] = []
        for prompt in write_prompts(banks, order.count, order.seed, duplicates):
            prompts.append(prompt)
            if not len(prompts) % 500:
                progress("prompts", len(prompts), order.count)
        report = PromptReport.of(prompts, order, duplicates, chat[0] if chat else None, failures)
        for domain, bank in banks.items():
            write_bank(bank, out / "banks" / f"{domain}.yaml")
        lines = (each.model_dump_json(exclude_none=True) + "\n" for each in prompts)
        write_bytes(out / "prompts.jsonl", "".join(lines).encode())
        _write_report(report, prompts, out)
    return report


def _settings(order: PromptOrder, chat: tuple[str, Chat] | None) -> dict[str, Any]:
    banks = (f"{domain}\n{bank.model_dump_json()}" for domain, bank in order.banks.items())
    settings = {name: value for name, value in vars(order).items() if name != "banks"}
    return {**settings, "banks": digest(*banks), "model": chat[0] if chat else None}


def _write_report(report: PromptReport, prompts: Sequence[Prompt], out: Path) -> None:
    examples: dict[str, list[str]] = {}
    for each in prompts:
        prompts_of = examples.setdefault(f"{each.domain}/{each.sub_category}", [])
        if len(prompts_of) < _SHOWN:
            prompts_of.append(each.prompt)
    style = (_HERE.parent / "report" / "report.css").read_text(encoding="utf-8")
    page = templates(_HERE).get_template("index.html.j2")
    text = page.render(report=report, examples=examples, style=style)
    write_bytes(out / "report.json", (json.dumps(asdict(report), indent=1) + "\n").encode())
    write_bytes(out / "index.html", text.encode("utf-8", "replace"))
