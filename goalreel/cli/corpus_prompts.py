"""`goalreel corpus prompts`. What it needs is imported when it runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import Json
from goalreel.errors import InputError

if TYPE_CHECKING:
    from goalreel.annotator.prompts.bank import PromptBank

EPILOG = (
    "OUT/prompts.jsonl has a row a prompt, OUT/banks what they were written from, OUT/report.json the "
    "counts.\n\n"
    "Examples:\n\n"
    "- `goalreel corpus prompts --out prompts`\n\n"
    "- `goalreel corpus prompts --out some --count 500 --domains kitchen,laundry --seed 1`\n\n"
    "- `goalreel corpus prompts --out mine --banks prompts/banks`, after you edited those\n\n"
    "- `goalreel corpus prompts --out more --domains kitchen,greenhouse --model openai:MODEL@URL`"
)


def prompts(
    out: Annotated[Path, typer.Option(help="Folder of the prompts. Run again to go on.")],
    count: Annotated[int, typer.Option(min=1, help="How many prompts.")] = 40_000,
    banks: Annotated[
        Path | None, typer.Option(help="Folder of YAML banks, one a domain. [default: those of goalreel]")
    ] = None,
    domains: Annotated[
        str | None, typer.Option(help="Such as kitchen,workshop; with --model also new ones. [default: all]")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The chat model that extends the banks: <planner>.")
    ] = None,
    sub_categories: Annotated[
        int, typer.Option(min=1, help="With --model: the fewest sub-categories of a domain.")
    ] = 8,
    similarity: Annotated[
        float,
        typer.Option(min=0.3, max=1, help="Similarity of words from which prompts are near-duplicates."),
    ] = 0.75,
    seed: Annotated[int, typer.Option(min=0, help="The same seed and banks give the same prompts.")] = 0,
    json_output: Json = False,
) -> None:
    """Write instructions to plan from banks of words and templates, balanced and without duplicates."""
    with one_line_errors("interrupted; answers are kept: run the same command again to go on"):
        from dataclasses import asdict

        from goalreel.annotator.prompts.bank import SHIPPED, read_banks
        from goalreel.annotator.prompts.make import PromptConfig, make_prompts
        from goalreel.cli.console import print_json, progress_bars
        from goalreel.models.load import build_chat
        from goalreel.models.names import ModelName

        chosen = _choose(read_banks(banks or SHIPPED), domains, new=model is not None)
        chat = None
        if model is not None:
            chat = ModelName.parse(model).identity(), build_chat(model, role="planner")
        order = PromptConfig(chosen, count, seed, similarity, sub_categories)
        with progress_bars() as progress:
            report = make_prompts(order, out, chat=chat, progress=progress)
    if json_output:
        print_json({"out": str(out), **asdict(report)})
        raise typer.Exit(1 if report.failures else 0)
    for domain, number in report.domains.items():
        typer.echo(f"{number:8} {domain}")
    left_out = ", ".join(f"{number} {kind}" for kind, number in report.duplicates.items())
    typer.echo(f"{report.prompts:8} of {count} prompts; duplicates left out: {left_out}")
    if report.prompts < count:
        typer.echo("The banks hold no more prompts that differ: add to them, or name a --model", err=True)
    for name, reason in report.failures.items():
        typer.echo(f"{name}: {reason}", err=True)
    typer.echo(f"Look at {out / 'index.html'}")
    if report.failures:
        raise typer.Exit(1)


def _choose(banks: "dict[str, PromptBank]", domains: str | None, *, new: bool) -> "dict[str, PromptBank]":
    """The banks of the domains that are named; with `new`, an empty one for a domain without.

    Raises:
        InputError: a domain that has no bank, or can be no file's name.
    """
    from goalreel.annotator.prompts.bank import PromptBank
    from goalreel.cli.options import choose_names

    if domains is None:
        return banks
    names = list(dict.fromkeys(name.strip() for name in domains.split(",") if name.strip()))
    if bad := [name for name in names if not name.replace("-", "").replace("_", "").isalnum()]:
        raise InputError(f"{bad[0]!r} can be no domain: use letters, digits and hyphens")
    if new:
        banks = {name: PromptBank(about=name.replace("-", " "), sub_categories={}) for name in names} | banks
    return {name: banks[name] for name in choose_names(domains, list(banks), "domain")}
