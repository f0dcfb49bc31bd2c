"""The report: complete, escaped, free of the network, of bounded pages; and the contact sheet."""

import html
import json
import re
import shutil
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import PIL.ImageFont
import pytest
from support.cli import fails, goalreel
from support.wait import until

from goalreel import Editor, Options, annotate, load_models, open_dataset
from goalreel.annotator.report.cards import EpisodeView, bars, ticks
from goalreel.annotator.report.sheet import Typeface, contact_sheet
from goalreel.annotator.report.write import PAGE_BYTES, PAGE_EPISODES, write_report
from goalreel.datasets.records import FOLDER, LOCAL
from goalreel.image import Image
from goalreel.types import (
    Attempt,
    Failure,
    Registration,
    Segment,
    Step,
    Storyboard,
    StoryboardStep,
    Task,
    Verdict,
)

NASTY = "<script>alert(1)</script> \"'><img src=x onerror=alert(2)> {{ 7 * 7 }} & 🥣 ضع القلم"


def picture(shade: int, size: tuple[int, int] = (64, 48), frame: str | None = None) -> Image:
    pixels = np.full((size[1], size[0], 3), shade, np.uint8)
    pixels[: size[1] // 2, :, 0] = 255 - shade
    return Image(pixels, frame)


def attempt(shade: int, *, success: bool, text: str = "as wanted", **more: object) -> Attempt:
    verdict = Verdict(success=success, reasoning=text, semantics=7.5, quality=6, **more)
    return Attempt(prompt=f"prompt {shade}", seed=shade, image=picture(shade), verdict=verdict)


def step(name: str, *attempts: Attempt, span: tuple[int, int] | None = (0, 20), **fields: object):
    """A step whose last attempt is chosen; `fields` are of the step, or of its plan."""
    segment = None if span is None else Segment(start=span[0], end=span[1])
    planned = {key: fields.pop(key) for key in ("doubts", "outcome") if key in fields}
    plan = Step(name=name, instruction=f"{name} is done", prompt=name, **planned)
    fields = {"status": "accepted", "chosen": len(attempts) - 1} | fields if attempts else fields
    return StoryboardStep(step=plan, segment=segment, attempts=attempts, **fields)


def view(
    *steps: StoryboardStep, text: str = "stack the blocks", index: int = 0, **fields: object
) -> EpisodeView:
    task = Task(id=str(index), instruction=text, image=picture(index % 256))
    board = Storyboard(task=task, steps=steps)
    return EpisodeView(index, f"episode {index}", text, board, **{"fps": 10.0, "length": 20} | fields)


def episode(index: int, text: str = "stack the blocks") -> EpisodeView:
    """Four steps, one of each status; 100 frames."""
    down = Failure(stage="edit", message=f"editor down {text}", reply="<b>busy</b>")
    blurred = attempt(50, success=False, text=f"too blurred {text}")
    steps = (
        step(f"{text} 0", blurred, attempt(200, success=True), span=(0, 25)),
        step(f"{text} 1", attempt(90, success=False), span=(25, 50), status="rejected"),
        step(
            f"{text} 2",
            Attempt(prompt="p", seed=1, failure=down),
            span=(50, 75),
            status="failed",
            chosen=None,
        ),
        step(f"{text} 3", span=(75, 100)),
    )
    ends = tuple(picture(n * 40, frame=f"observation.images.front#{25 * n + 24}") for n in range(4))
    return view(*steps, text=text, index=index, length=100, end_frames=ends)


def plain(index: int) -> EpisodeView:
    """The smallest complete episode: one accepted step."""
    return view(step("lift", attempt(index % 200, success=True)), text=f"lift block {index}", index=index)


def written(folder: Path, *views: EpisodeView, title: str = "x") -> str:
    """The index of a report."""
    return write_report(views, folder, title=title, summary={}).read_text(encoding="utf-8")


class Reader(HTMLParser):
    """What a browser would take from a page: elements with attributes, and text."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_small_report_is_one_page_that_carries_everything(tmp_path):
    summary = {"Preset": "hindsight"}
    index = write_report((episode(i) for i in range(3)), tmp_path, title="Demo", summary=summary)
    page = Reader(index)
    assert index == tmp_path / "index.html"
    assert not list(tmp_path.glob("page-*.html"))
    assert not (tmp_path / "thumbs").exists()
    images = [attrs["src"] for tag, attrs in page.tags if tag == "img" and "src" in attrs]
    # First frame; three attempts with a picture; four end frames; those of the enlarged one come by script.
    assert len(images) == 3 * (1 + 3 + 4)
    assert all(src and src.startswith("data:image/jpeg;base64,") for src in images)
    words = ["Preset", "hindsight", "too blurred", "prompt 200"]
    words += ["editor down", "7.5/10", "seed 50", "front · frame 99"]
    assert [word for word in words if word not in page.text] == []
    classes = {name for _, attrs in page.tags for name in (attrs.get("class") or "").split()}
    assert {"accepted", "rejected", "failed", "skipped"} <= classes


def test_what_a_dataset_says_is_escaped_and_no_page_points_outside(tmp_path):
    one, many = tmp_path / "one", tmp_path / "many"
    for folder, count in ((one, 2), (many, PAGE_EPISODES + 1)):
        views = (episode(i, NASTY) for i in range(count))
        write_report(views, folder, title=NASTY, summary={NASTY: NASTY})
    paths = [*one.glob("*.html"), *many.glob("*.html")]
    assert len(paths) == 1 + 3
    for path in paths:
        page, text = Reader(path), path.read_text(encoding="utf-8")
        assert sum(tag == "script" and "type" not in attrs for tag, attrs in page.tags) == 1
        assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
        assert NASTY in page.text
        assert "<b>busy" not in text
        assert not re.search(r"(\b(?:https?|ftp|wss?):|[\"'(=]\s*//)", re.sub(r"base64,[\w+/=]+", "", text))
        assert "default-src 'none'" in text
        for target in (attrs.get(name) for _, attrs in page.tags for name in ("href", "src")):
            if target and not target.startswith(("data:", "#")):
                assert (path.parent / target.split("#")[0]).is_file(), target
    assert {row["instruction"] for row in listed(many / "index.html")} == {NASTY}


def test_many_episodes_are_paged_and_linked(tmp_path):
    count = 2 * PAGE_EPISODES + 5
    rows = listed(write_report(map(plain, range(count)), tmp_path, title="x", summary={}))
    assert len(rows) == count
    for i, row in enumerate(rows):
        page = i // PAGE_EPISODES + 1
        assert (row["episode"], row["page"], row["pictured"]) == (i, page, True)
        assert f'id="episode-{i}"' in (tmp_path / f"page-{page:04d}.html").read_text(encoding="utf-8")
        assert (tmp_path / f"thumbs/episode_{i:06d}.jpg").is_file()
    middle = [(a.get("rel"), a["href"]) for t, a in Reader(tmp_path / "page-0002.html").tags if a.get("rel")]
    links = [("prev", "page-0001.html"), ("next", "page-0003.html")]
    assert [link for link in middle if link[0] != "icon"] == 2 * links
    assert not [a for t, a in Reader(tmp_path / "page-0003.html").tags if a.get("rel") == "next"]


def listed(index: Path) -> list[dict]:
    """The list of episodes as the page's script reads it."""
    text = index.read_text(encoding="utf-8")
    (found,) = re.findall(r'<script type="application/json" id="rows">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def test_a_second_report_replaces_the_first_and_nothing_else(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    written(tmp_path, *map(plain, range(PAGE_EPISODES + 3)))
    written(tmp_path, *map(plain, range(2)))
    assert {p.name for p in tmp_path.rglob("*") if p.is_file()} == {"notes.txt", "index.html"}


def test_pages_are_bounded_in_bytes(tmp_path):
    noise = (Image(np.random.default_rng(0).integers(0, 256, (700, 700, 3), np.uint8)),) * 4
    heavy = (replace(episode(i), end_frames=noise) for i in range(PAGE_EPISODES))
    write_report(heavy, tmp_path, title="x", summary={})
    sizes = [p.stat().st_size for p in tmp_path.glob("page-*.html")]
    assert len(sizes) > 1
    assert max(sizes) < PAGE_BYTES + 100_000


def test_episodes_stream_through(tmp_path):
    seen: list[weakref.ref[np.ndarray]] = []
    held = []

    def stream() -> Iterator[EpisodeView]:
        for i in range(2 * PAGE_EPISODES):
            held.append(sum(ref() is not None for ref in seen))
            one = plain(i)
            seen.append(weakref.ref(one.storyboard.task.image.pixels))
            yield one
            del one

    write_report(stream(), tmp_path, title="x", summary={})
    assert max(held) <= 1


def test_the_time_line_is_proportional_and_its_ticks_are_few_round_and_inside(tmp_path):
    found = list(bars(episode(0)))
    assert [(b.left, b.width) for b in found] == [(0, 25), (25, 25), (50, 25), (75, 25)]
    assert found[1].text == "stack the blocks 1 · 2.5–5.0 s · rejected"
    for seconds in (0.01, 0.5, 1, 7.3, 59, 3600, 1e6):
        marks = list(ticks(seconds))
        assert 2 <= len(marks) <= 7
        assert marks[0] == (0, "0 s")
        assert all(0 <= at <= 100 + 1e-6 for at, _ in marks)
    tried = view(step("lift", attempt(7, success=True), outcome="failed"))
    assert next(bars(tried)).text.endswith("accepted, failed attempt"), "it is not shown as done"
    assert "2.0 s · failed attempt · " in written(tmp_path, tried)


def test_what_is_odd_is_still_written(tmp_path):
    lost = Failure(stage="plan", message="not JSON <3 tries>", reply="Sure! <i>")
    board = Storyboard(task=Task(id="0", instruction="stack"), failure=lost)
    failed = EpisodeView(0, "a", "stack", board, 10, 5)
    page = Reader(write_report([failed], tmp_path, title="x", summary={}))
    assert failed.word == "failed"
    assert "plan: not JSON <3 tries>" in page.text
    assert "Sure! <i>" in page.text
    assert "No episodes." in written(tmp_path)
    odd = replace(plain(0), title="odd \ud800 name", instruction="x\x00y")
    assert "odd ? name" in written(tmp_path, odd)


def shares(pixels: np.ndarray, colour: tuple[int, int, int], tolerance: int = 12) -> float:
    """Fraction of pixels within `tolerance` of a colour."""
    return float((np.abs(pixels.astype(int) - colour).max(axis=2) <= tolerance).mean())


def test_a_contact_sheet_shows_every_goal_image_and_its_status():
    pixels = contact_sheet(episode(0)).pixels
    assert pixels.shape[1] == 1600
    assert (pixels[:10] == 255).all()
    assert (pixels[:, :20] == 255).all()
    # The goal images are shades 200 and 90; the first frame is shade 0: upper halves (255 - s, s, s).
    for shade in (0, 90, 200):
        assert shares(pixels, (255 - shade, shade, shade)) > 0.02, shade
    assert shares(pixels, (205, 50, 50)) == 0, "a rejected attempt has no place on the sheet"
    assert shares(pixels, (0xEF, 0xED, 0xE7), 2) > 0.05, "steps without a picture are grey fields"
    for colour in ((0x2B, 0x5D, 0x86), (0x9A, 0x23, 0x23), (0x53, 0x5A, 0x62)):
        assert shares(pixels, colour, 6) > 0.0001, colour


@pytest.mark.parametrize(
    "text",
    [
        "🥣🖍️ 👩‍🔧",
        "ضع القلم في الوعاء الأزرق",
        "把红色积木放进蓝色的碗里" * 30,
        "x" * 5000,
        "word " * 3000,
        "tab\tnew\nline \x00 \ud800",
    ],
    ids=["emoji", "arabic", "chinese", "long word", "long text", "control"],
)
def test_a_contact_sheet_takes_any_text(text):
    calm = contact_sheet(episode(0, "stack"))
    odd = view(step(text.encode("utf-8", "replace").decode(), span=None))
    sheet = contact_sheet(replace(odd, title=text, instruction=text))
    assert sheet.size[0] == 1600
    assert sheet.size[1] < calm.size[1] + 300
    assert (sheet.pixels[:, -20:] == 255).all(), "text ran over the margin"
    assert (sheet.pixels[25:120, 28:-28].min(axis=2) < 100).any(), "the instruction is not there"


def test_a_line_is_cut_where_its_font_changes(monkeypatch):
    latin, thai = (PIL.ImageFont.load_default(size) for size in (20, 21))

    def draws(font, character):  # a font of letters that lacks their marks
        return (font is thai) == ("ก" <= character <= "ๆ")

    monkeypatch.setattr("goalreel.annotator.report.sheet._draws", draws)
    face = Typeface(latin, (thai,))
    assert face.runs("1. ก็ได้ abc") == [(latin, "1. "), (thai, "ก็ได้"), (latin, " abc")]


def test_a_page_about_one_storyboard_says_its_instruction_once(tmp_path):
    about = {"planner": "hf:/models/big-planner?dtype=bfloat16 (its own prompt)", "critic": "difference"}
    text = write_report([episode(0)], tmp_path, title="stack the blocks", summary={}, about=about).read_text()
    assert text.partition("<body>")[2].count(">stack the blocks<") == 1
    assert text.index("attempt 2, accepted") < text.index(f'<dd dir="auto">{about["planner"]}</dd>')
    assert '<q dir="auto">prompt 50</q>' in text


def test_what_a_recording_shows_has_no_attempts_and_a_dataset_its_shape(tmp_path):
    """Nothing was drawn: a seed and a prompt would be made up."""
    verdict = Verdict(success=True, reasoning="2 % changed", pictures_only=True)
    seen = Attempt(prompt="prompt 0", seed=0, image=picture(7, frame="front#19"), verdict=verdict)
    steps = [
        step("lift", seen, span=(0, 10), status="observed"),
        step("lift", seen, span=(10, 20), status="observed", doubts=("two hands move",)),
    ]
    page = Reader(write_report([view(*steps), plain(1)], tmp_path, title="x", summary={}))
    observed = page.text.partition("lift block 1")[0]
    assert [text for text in ("seed 0", "prompt 0", "Attempt") if text in observed] == []
    assert page.text.count("1.0 s after the step ends") == 1, "which is where the first one's goal image is"
    cells = re.findall(r"<td>([^<]*)<", (tmp_path / "index.html").read_text())
    assert cells[:4] == ["2", "1 to 2", "2 s", "1 of 3"]
    assert "75 %" in page.text, "of the frames have words that are in no doubt"
    assert {"href": "#status=in%20doubt"} in [attrs for tag, attrs in page.tags if tag == "a"]


def test_a_reader_sees_round_scores_and_no_cells(tmp_path):
    said = "red block c10 r9 stays; blue block c2 r3 gone. The blue block is gone."
    tried = attempt(5, success=True, text=said, probability=0.98765)
    verdict = tried.verdict.model_copy(update={"semantics": 9.87983, "quality": 7})
    text = written(tmp_path, view(step("lift", tried.model_copy(update={"verdict": verdict}))))
    assert '<span dir="auto">The blue block is gone.</span>' in text
    assert "probability of success 0.99 · semantics 9.9/10 · quality 7/10" in text
    assert f'<pre dir="auto">{said}</pre>' in text, "the whole answer is there on demand"


def test_a_reader_hears_of_a_background_only_where_it_moved(tmp_path):
    """Where it stayed, two numbers near 0 tell a reader nothing; the record keeps them."""
    registrations = (
        Registration(shift=(0.0, -0.1)),
        Registration(shift=(4.0, 0.0), outcome="corrected"),
        Registration(reason="too few corners"),
    )
    drawn = attempt(9, success=False)
    attempts = [drawn.model_copy(update={"registration": each}) for each in registrations]
    page = written(tmp_path, view(step("a", *attempts, status="rejected", span=None), length=0))
    assert re.findall(r"Background (.*?)</span>", page) == [
        "moved by +4.0, +0.0 px, scaled by +0.0 %: corrected.",
        "not measurable: too few corners.",
    ]
    assert "Goal image: by" in page
    assert [words for words in ("Real end frame", "frames at") if words in page] == [], "nothing was recorded"


class Gate:
    """Renders as `editor` does, but holds episode 2 until it is opened."""

    def __init__(self, editor: Editor) -> None:
        self.editor, self.reached, self.open = editor, threading.Event(), threading.Event()

    def edit(self, edits):
        if any(edit.task_id == "episode_000002" for edit in edits):
            self.reached.set()
            assert self.open.wait(600)
        return self.editor.edit(edits)


def test_a_run_is_shown_while_it_is_going_on(video_dataset, tmp_path, monkeypatch):
    out, source = tmp_path / "out", open_dataset(video_dataset)
    models = load_models("hindsight", recordings=Options().recorded(source))
    gate = Gate(models.editor)
    work = (source, out, replace(models, editor=gate))
    run = threading.Thread(target=annotate, args=work, kwargs={"batch_size": 1, "in_flight": 1}, daemon=True)
    run.start()
    try:
        assert gate.reached.wait(600)
        until(lambda: len(list((out / FOLDER / "episodes").rglob("episode_*.json"))) == 2)
        goalreel("show", out)
        copied = shutil.copytree(out, tmp_path / "copied")
        (copied / LOCAL / "source").unlink()
        assert "not written yet: name the dataset that it is made from" in fails("show", copied)
        goalreel("show", copied, "--source", video_dataset)
    finally:
        gate.open.set()
        run.join(600)
    for report in ("out-report", "copied-report"):
        page = html.unescape((tmp_path / report / "index.html").read_text())
        assert "2 of 3" in page
        assert "Episode 1" in page
    monkeypatch.chdir(out)
    goalreel("show", ".")
    assert "2 of 3" not in (tmp_path / "out-report/index.html").read_text()
