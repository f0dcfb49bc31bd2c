"""`goalreel corpus prompts`: banks, and what is written from them."""

import json
import re
from itertools import combinations, pairwise

import pytest
from support.cli import fails, goalreel, invoke, results

pytest.importorskip("datasketch")

from goalreel.annotator.prompts import SHIPPED, Duplicates, read_banks, take_turns, write_prompts
from goalreel.errors import InputError

BANK = """
about: stacking blocks
vocabulary:
  block: [red cube, orange cone, blue arch, green tile]
sub_categories:
  towers:
    templates:
      - Put the {block} on the {block 2}.
      - Take a {block} from the {box} and put it down.
    vocabulary:
      box: [tin, crate, wooden box]
  rows:
    templates: ["{block} and {block 2} belong side by side."]
"""


@pytest.fixture
def banks(tmp_path):
    folder = tmp_path / "banks"
    folder.mkdir()
    (folder / "blocks.yaml").write_text(BANK)
    return folder


@pytest.fixture(scope="module")
def shipped():
    return read_banks(SHIPPED)


def rows(out):
    return [json.loads(line) for line in (out / "prompts.jsonl").read_text().splitlines()]


def test_the_banks_that_ship_write_sentences(shipped):
    banks = shipped
    robots = {"kitchen", "workshop", "laundry", "laboratory", "assembly", "warehouse", "tidying"}
    assert {*robots, "tabletop-games", "robotics", "art", "science", "workflows", "daily-life"} < {*banks}
    assert len(banks) == 16
    assert sum(len(bank.sub_categories) for bank in banks.values()) >= 75
    written = list(write_prompts(banks, 700))
    assert len({row.id for row in written}) == 700
    assert len({row.template for row in written}) > 600
    for row in written:
        assert re.fullmatch(r"[A-Z][^{}]*[.?]", row.prompt), row
        assert "  " not in row.prompt
        assert not re.search(r"\ba [aeio]|\b(the|an?) (the|an?)\b", row.prompt), row


def test_turns_are_balanced_and_a_seed_gives_the_same_prompts_whatever_their_number(shipped):
    written = list(write_prompts(shipped, 480, seed=1))
    counts = {}
    for row in written:
        counts.setdefault(row.domain, {}).setdefault(row.sub_category, []).append(row)
    assert {sum(map(len, parts.values())) for parts in counts.values()} == {30}
    for parts in counts.values():
        sizes = [len(part) for part in parts.values()]
        assert max(sizes) - min(sizes) <= 1
    assert list(take_turns([iter("ab"), iter(""), iter("xyz")])) == list("axbyz")
    assert list(write_prompts(shipped, 50, seed=1)) == written[:50]
    assert {row.prompt for row in written[:50]} != {row.prompt for row in write_prompts(shipped, 50, seed=4)}


def parts(text):
    words = re.findall(r"[\w'-]+", text.casefold())
    return {*words, *pairwise(words), *zip(words, words[1:], words[2:], strict=False)}


def test_no_two_prompts_are_near_duplicates(shipped):
    banks = {"laundry": shipped["laundry"]}
    found = Duplicates(0.6)
    texts = [parts(row.prompt) for row in write_prompts(banks, 300, duplicates=found)]
    assert len(texts) == 300
    assert max(len(a & b) / len(a | b) for a, b in combinations(texts, 2)) < 0.6
    assert found.counts["near"] > 0
    found = Duplicates()
    assert [found.admit(t) for t in ("Put it down.", "put it down", "Put it up.")] == [True, False, True]
    assert found.counts == {"exact": 1}


def test_a_row_says_where_it_comes_from(banks, tmp_path):
    out = tmp_path / "out"
    report = results("corpus", "prompts", "--out", out, "--banks", banks, "--count", 100, "--seed", 5)
    written = rows(out)
    # Of four blocks 12 pairs on each other and 12 side by side, and 4 x 3 blocks from boxes: no more differ.
    assert report["prompts"] == len(written) == 36
    assert report["sub_categories"] == {"blocks/towers": 24, "blocks/rows": 12}
    first = next(row for row in written if row["template"] == "blocks/towers/1")
    chosen = first["vocabulary"]
    assert first["prompt"] == f"Put the {chosen['block']} on the {chosen['block 2']}."
    assert chosen["block"] != chosen["block 2"]
    assert (first["domain"], first["sub_category"], first["seed"]) == ("blocks", "towers", 5)
    assert sum(row["prompt"].startswith("Take an orange cone") for row in written) == 3
    assert all(row["prompt"][0].isupper() for row in written)
    assert json.loads((out / "report.json").read_text())["prompts"] == 36
    again = ("corpus", "prompts", "--count", 100, "--seed", 5, "--banks")
    goalreel(*again, banks, "--out", out)
    goalreel(*again, out / "banks", "--out", tmp_path / "b")
    assert rows(out) == rows(tmp_path / "b") == written
    line = fails(*again[:-1], "--count", 8, "--out", out, "--banks", banks)
    assert "made with other options: choose another --out" in line


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("on the {block 2}", "on the {bowl}", "no vocabulary is called bowl"),
        ("on the {block 2}", "on the {Block}", "a slot is a name in braces"),
        ("[tin, crate", "[yes, crate", "Input should be a valid string"),
        ("about: stacking blocks", "subject: x", "about: Field required"),
        ("templates: [", "template: [", "Field required"),
    ],
)
def test_a_wrong_bank_is_named_with_what_is_wrong(banks, old, new, message):
    (banks / "blocks.yaml").write_text(BANK.replace(old, new, 1))
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_banks(banks)
    assert "blocks.yaml: " in str(caught.value)


def test_domains_are_chosen_by_name(tmp_path):
    report = results(
        "corpus", "prompts", "--out", tmp_path / "o", "--domains", "laundry,kitchen", "--count", 7
    )
    assert report["domains"] == {"kitchen": 4, "laundry": 3}
    line = fails("corpus", "prompts", "--out", tmp_path / "p", "--domains", "greenhouse")
    assert "no domain 'greenhouse': choose from " in line
    assert "holds no bank" in fails("corpus", "prompts", "--out", tmp_path / "p", "--banks", tmp_path / "o")
    assert invoke("corpus", "prompts", "--out", tmp_path, "--similarity", 2).exit_code == 2
