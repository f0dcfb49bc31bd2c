"""The report: complete, escaped, free of the network, of bounded pages; and the contact sheet."""

import json
import re
import weakref
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import PIL.ImageFont
import pytest

from goalreel.annotator.report.cards import EpisodeView, bars, ticks
from goalreel.annotator.report.sheet import Typeface, contact_sheet
from goalreel.annotator.report.write import PAGE_BYTES, PAGE_EPISODES, write_report
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


def attempt(shade: int, *, success: bool, text: str = "as wanted") -> Attempt:
    verdict = Verdict(success=success, reasoning=text, semantics=7.5, quality=6)
    return Attempt(prompt=f"prompt {shade}", seed=shade, image=picture(shade), verdict=verdict)


def board(index: int, text: str) -> Storyboard:
    """Four steps, one of each status; 100 frames."""
    down = Failure(stage="edit", message=f"editor down {text}", reply="<b>busy</b>")
    blurred = attempt(50, success=False, text=f"too blurred {text}")
    parts = (
        {"attempts": (blurred, attempt(200, success=True)), "status": "accepted", "chosen": 1},
        {"attempts": (attempt(90, success=False),), "status": "rejected", "chosen": 0},
        {"attempts": (Attempt(prompt="p", seed=1, failure=down),), "status": "failed"},
        {},
    )
    steps = (
        StoryboardStep(
            step=Step(name=f"{text} {n}", instruction=f"{text} holds {n}", prompt=text),
            segment=Segment(start=25 * n, end=25 * n + 25),
            **part,
        )
        for n, part in enumerate(parts)
    )
    task = Task(id=str(index), instruction=text, image=picture(index % 256))
    return Storyboard(task=task, steps=tuple(steps))


def episode(index: int, text: str = "stack the blocks") -> EpisodeView:
    storyboard = board(index, text)
    ends = tuple(picture(n * 40, frame=f"observation.images.front#{25 * n + 24}") for n in range(4))
    return EpisodeView(index, f"episode {index}", text, storyboard, 10.0, 100, ends)


def plain(index: int) -> EpisodeView:
    """The smallest complete episode: one accepted step."""
    step = StoryboardStep(
        step=Step(name="lift", instruction="the block is up", prompt="lift"),
        segment=Segment(start=0, end=20),
        attempts=(attempt(index % 200, success=True),),
        status="accepted",
        chosen=0,
    )
    task = Task(id=str(index), instruction=f"lift block {index}", image=picture(index % 256, (16, 16)))
    return EpisodeView(
        index, f"episode {index}", task.instruction, Storyboard(task=task, steps=(step,)), 10, 20
    )


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

    def with_class(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for _, attrs in self.tags if name in (attrs.get("class") or "").split()]


def test_a_small_report_is_one_page_that_carries_everything(tmp_path):
    index = write_report(
        (episode(i) for i in range(3)), tmp_path, title="Demo", summary={"Preset": "hindsight"}
    )
    page = Reader(index)
    assert index == tmp_path / "index.html"
    assert not list(tmp_path.glob("page-*.html"))
    assert not (tmp_path / "thumbs").exists()
    images = [attrs["src"] for tag, attrs in page.tags if tag == "img" and "src" in attrs]
    # First frame; three attempts with a picture; four end frames; those of the enlarged one come by script.
    assert len(images) == 3 * (1 + 3 + 4)
    assert all(src and src.startswith("data:image/jpeg;base64,") for src in images)
    words = (
        "Preset",
        "hindsight",
        "too blurred",
        "prompt 200",
        "editor down",
        "7.5/10",
        "seed 50",
        "front · frame 99",
    )
    assert [word for word in words if word not in page.text] == []
    for status in ("accepted", "rejected", "failed", "skipped", "rejected", "accepted"):
        assert page.with_class(status), status


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
    index = write_report(map(plain, range(count)), tmp_path, title="x", summary={})
    rows = listed(index)
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
    write_report(map(plain, range(PAGE_EPISODES + 3)), tmp_path, title="x", summary={})
    write_report(map(plain, range(2)), tmp_path, title="x", summary={})
    left = {p.name for p in tmp_path.rglob("*") if p.is_file()}
    assert left == {"notes.txt", "index.html"}


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
            view = plain(i)
            seen.append(weakref.ref(view.storyboard.task.image.pixels))
            yield view
            del view

    write_report(stream(), tmp_path, title="x", summary={})
    assert max(held) <= 1


def test_the_time_line_is_proportional_and_its_ticks_are_few_round_and_inside():
    found = list(bars(episode(0)))
    assert [(b.left, b.width) for b in found] == [(0, 25), (25, 25), (50, 25), (75, 25)]
    assert found[1].text == "stack the blocks 1 · 2.5–5.0 s · rejected"
    for seconds in (0.01, 0.5, 1, 7.3, 59, 3600, 1e6):
        marks = list(ticks(seconds))
        assert 2 <= len(marks) <= 7
        assert marks[0] == (0, "0 s")
        assert all(0 <= at <= 100 + 1e-6 for at, _ in marks)


def test_a_failed_attempt_is_not_shown_as_done(tmp_path):
    view = episode(0)
    first = view.storyboard.steps[0]
    tried = first.model_copy(update={"step": first.step.model_copy(update={"outcome": "failed"})})
    steps = (tried, *view.storyboard.steps[1:])
    view = replace(view, storyboard=view.storyboard.model_copy(update={"steps": steps}))
    assert next(bars(view)).text.endswith("accepted, failed attempt")
    assert "2.5 s · failed attempt · " in write_report([view], tmp_path, title="t", summary={}).read_text()


def test_an_episode_that_failed_says_why(tmp_path):
    lost = Failure(stage="plan", message="not JSON <3 tries>", reply="Sure! <i>")
    board = Storyboard(task=Task(id="0", instruction="stack"), failure=lost)
    view = EpisodeView(0, "a", "stack", board, 10, 5)
    page = Reader(write_report([view], tmp_path, title="x", summary={}))
    assert view.word == "failed"
    assert "plan: not JSON <3 tries>" in page.text
    assert "Sure! <i>" in page.text


def test_what_is_odd_is_still_written(tmp_path):
    assert "No episodes." in Reader(write_report([], tmp_path, title="x", summary={})).text
    view = replace(plain(0), title="odd \ud800 name", instruction="x\x00y")
    assert "odd ? name" in Reader(write_report([view], tmp_path, title="x", summary={})).text


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
    task = Task(id="0", instruction="stack", image=picture(3))
    name = text.encode("utf-8", "replace").decode()
    step = StoryboardStep(step=Step(name=name, instruction=name, prompt=name))
    sheet = contact_sheet(EpisodeView(0, text, text, Storyboard(task=task, steps=(step,)), 10, 5))
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
    assert "prompt <ins>200</ins></q>" in text, "what is new in a prompt"
    assert '<q dir="auto">prompt 50</q>' in text


def test_what_a_recording_shows_has_no_attempts_and_a_dataset_its_shape(tmp_path):
    """Nothing was drawn: a seed and a prompt would be made up."""
    view = plain(0)
    verdict = Verdict(success=True, reasoning="2 % changed", pictures_only=True)
    update = {"image": picture(7, frame="front#19"), "verdict": verdict}
    seen = view.storyboard.steps[0].attempts[0].model_copy(update=update)
    steps = [
        StoryboardStep(
            step=Step(name="lift", instruction="the block is up", prompt="lift", doubts=doubts),
            segment=Segment(start=start, end=start + 10),
            attempts=(seen,),
            status="observed",
            chosen=0,
        )
        for start, doubts in ((0, ()), (10, ("two hands move",)))
    ]
    view = replace(view, storyboard=view.storyboard.model_copy(update={"steps": tuple(steps)}))
    page = Reader(write_report([view, plain(1)], tmp_path, title="x", summary={}))
    assert [
        text for text in ("seed 0", "prompt 0", "Attempt") if text in page.text.partition("lift block 1")[0]
    ] == []
    assert page.text.count("1.0 s after the step ends") == 1, "which is where the first one's goal image is"
    cells = re.findall(r"<td>([^<]*)<", (tmp_path / "index.html").read_text())
    assert cells[:4] == ["2", "1 to 2", "2 s", "1 of 3"]
    assert "75 %" in page.text, "of the frames have words that are in no doubt"
    assert {"href": "#status=in%20doubt"} in [attrs for tag, attrs in page.tags if tag == "a"]


def test_a_reader_sees_round_scores_and_no_cells(tmp_path):
    said = "red block c10 r9 stays; blue block c2 r3 gone. The blue block is gone."
    view = plain(0)
    tried = view.storyboard.steps[0].attempts[0]
    verdict = Verdict(success=True, reasoning=said, semantics=9.87983, quality=7, probability=0.98765)
    step = view.storyboard.steps[0].model_copy(
        update={"attempts": (tried.model_copy(update={"verdict": verdict}),)}
    )
    view = replace(view, storyboard=view.storyboard.model_copy(update={"steps": (step,)}))
    text = write_report([view], tmp_path, title="t", summary={}).read_text()
    assert '<span dir="auto">The blue block is gone.</span>' in text
    assert "probability of success 0.99 · semantics 9.9/10 · quality 7/10" in text
    assert f'<pre dir="auto">{said}</pre>' in text, "the whole answer is there on demand"


def test_a_storyboard_without_a_recording(tmp_path):
    recorded = board(0, "tidy up")
    steps = tuple(s.model_copy(update={"segment": None}) for s in recorded.steps)
    planned = EpisodeView(0, "Storyboard", "tidy up", recorded.model_copy(update={"steps": steps}))
    page = write_report([planned], tmp_path, title="t", summary={}).read_text()
    assert "Goal image: by" in page
    assert "Real end frame" not in page
    assert "frames at" not in page


def test_a_reader_hears_of_a_background_only_where_it_moved(tmp_path):
    """Where it stayed, two numbers near 0 tell a reader nothing; the record keeps them."""
    stayed = Registration(shift=(0.0, -0.1))
    corrected = Registration(shift=(4.0, 0.0), outcome="corrected")
    unknown = Registration(reason="too few corners")
    attempts = tuple(
        Attempt(prompt="p", seed=n, image=picture(n + 1), verdict=Verdict(success=False), registration=each)
        for n, each in enumerate((stayed, corrected, unknown))
    )
    step = Step(name="a", instruction="a is done", prompt="do a")
    board = Storyboard(
        task=Task(id="t", instruction="tidy", image=picture(9)),
        steps=(StoryboardStep(step=step, attempts=attempts, status="rejected", chosen=2),),
    )
    write_report([EpisodeView(0, "t", "tidy", board)], tmp_path, title="t", summary={})
    page = (tmp_path / "index.html").read_text()
    assert re.findall(r"Background (.*?)</span>", page) == [
        "moved by +4.0, +0.0 px, scaled by +0.0 %: corrected.",
        "not measurable: too few corners.",
    ]
