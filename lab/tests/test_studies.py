"""The studies in lab/studies/: each runs from nothing to its results, small."""

import json
import re

import numpy as np
import pytest

from goalreel.image import Image


def picture(path, value):
    path.write_bytes(Image(np.full((64, 64, 3), value, np.uint8)).png())
    return path


@pytest.mark.lab
@pytest.mark.process
def test_the_policy_study_goes_from_nothing_to_results_and_tables(tmp_path, capsys):
    pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
    from studies.policy import report, study

    study.main(
        tmp_path,
        scenes=2,
        checks=1,
        conditions="seen",
        backbone_steps=2,
        steps=2,
        sizes="0",
        repeats=1,
        split="validation",
        episodes=1,
        others=2,
        arms="text,picture",
        workers=1,
    )
    results = sorted((tmp_path / "results").glob("*.json"))
    runs = {"text", "picture", "picture_alone", "checks", "checks_alone", "predicted"}
    assert {path.name.partition("-")[0] for path in results} == runs
    assert json.loads(results[0].read_text())["values"]
    report.main(tmp_path, steps=2, split="validation", drawn=tmp_path / "curves.png")
    printed = capsys.readouterr().out
    titles = ("A1, the present", "G+ - G-, success", "| G - A1, reached |", "| G, all, 0 |", "cm off")
    assert all(title in printed for title in titles)
    assert (tmp_path / "curves.png").stat().st_size > 1000


@pytest.mark.process
@pytest.mark.slow
def test_the_ablation_runs_end_to_end_and_does_nothing_twice(tmp_path, monkeypatch):
    pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
    import nano_ablations

    from goalreel_lab.corpora.corpus import CorpusConfig, make_corpus
    from goalreel_lab.corpora.verdicts import critique_rows

    for kind in ("plans", "verdicts"):
        make_corpus(CorpusConfig(kind, "train", 3), tmp_path / kind)
    sharegpt = {kind: tmp_path / kind / "sharegpt" / f"{kind}.json" for kind in ("plans", "verdicts")}
    critiques, out = tmp_path / "critiques", tmp_path / "ablations"
    make_corpus(
        CorpusConfig("critiques", "train", 2, first=400, source="no editor"),
        critiques,
        text=False,
        make=lambda seeds, size: critique_rows(seeds, lambda sources, prompts: [None] * len(prompts), size),
    )

    def run() -> str:
        nano_ablations.main(
            critiques, sharegpt["verdicts"], sharegpt["plans"], "nano-critic", "diffusers:nano-editor",
            out, steps=1, sft_steps=1, rollout=1, split="validation", episodes=1,
        )  # fmt: skip
        return (out / "ablations.md").read_text()

    table = run()
    for name, _ in nano_ablations.ARMS.values():
        assert re.search(rf"^\| {name} \| \d+\.\d", table, re.MULTILINE), table
    monkeypatch.setattr(nano_ablations, "_goalreel", None)
    assert run() == table
