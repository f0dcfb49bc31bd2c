"""`goalreel corpus import`: training data that others published, as a corpus."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import Json, PublishedDialect, PublishedPrompts
from goalreel.errors import InputError

if TYPE_CHECKING:
    from goalreel.chat.dialects import Dialect, DialectName

EPILOG = (
    "FILE is told by its fields: `evaluation` makes critiques (InterleaveThinker's critic_rl.jsonl), "
    "`messages` or `conversations` make conversations (ShareGPT, as LLaMA-Factory reads it), and `step_info` "
    "makes planner rows of guides (CoMM), each cut at a random step.\n\n"
    "Examples:\n\n"
    "- `goalreel corpus import Train-Data/critic_rl.jsonl --images DATA --out corpora/rl`\n\n"
    "- `goalreel corpus import Train-Data/planner_sft.json --images DATA --out corpora/planner`\n\n"
    "- `goalreel corpus import comm/train_data.pth --images comm/images --out corpora/guides`"
)


def read_dialect(name: "DialectName", prompts: Path | None) -> "Dialect":
    """Make the dialect that a corpus is written in.

    Raises:
        InputError: the prompts of InterleaveThinker are not at hand: other words would train it wrongly.
    """
    from goalreel.chat.dialects import dialect

    wording = dialect(name, prompts)
    if wording.note is not None:
        raise InputError(
            "the prompts of InterleaveThinker's checkpoints are needed: "
            "git clone https://github.com/zhengdian1/InterleaveThinker, and give --prompts"
        )
    return wording


def import_published(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .json, .jsonl or .pth file of rows.")],
    out: Annotated[Path, typer.Option(help="Folder of the corpus. Run again to resume.")],
    images: Annotated[
        Path | None,
        typer.Option(help="Folder that the paths of the pictures start from. [default: FILE's folder]"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the cuts of guides.")] = 0,
    dialect: PublishedDialect = "own",
    prompts: PublishedPrompts = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    json_output: Json = False,
) -> None:
    """Turn published training data into a corpus; a row that cannot be used is counted and left out."""
    with one_line_errors("interrupted; finished shards are kept: run the same command again to resume"):
        from goalreel.cli.console import print_json, progress_bars
        from goalreel.datasets.corpora.published import ImportConfig, import_corpus

        wording = read_dialect(dialect, prompts)
        order = ImportConfig(file, images or file.parent, seed, wording)
        with progress_bars() as progress:
            report = import_corpus(
                order, out, workers=workers, progress=lambda done, total: progress("rows", done, total)
            )
    if json_output:
        return print_json(
            {"out": str(out), "kind": report.kind, "rows": report.rows, "dropped": dict(report.dropped)}
        )
    typer.echo(f"{report.rows} {report.kind}", err=True)
    for reason, count in report.dropped.items():
        typer.echo(f"left out {count}: {reason}", err=True)
    typer.echo(str(out))
