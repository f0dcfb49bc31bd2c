"""The types: what they refuse, and to JSON and back without loss; and who claims what of a step."""

import io
from itertools import product

import numpy as np
import PIL.Image
import PIL.ImageOps
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from pydantic import BaseModel, ValidationError

from goalreel.annotator.report.cards import claim_line
from goalreel.claims import Claim, add_counts, attributed, count, makers
from goalreel.image import Image, check_picture_size, decode_compressed, decode_raw
from goalreel.types import (
    Alignment,
    Attempt,
    Candidate,
    DoneStep,
    Edit,
    Failure,
    Plan,
    Registration,
    Segment,
    Step,
    Storyboard,
    StoryboardStep,
    Task,
    Verdict,
)

text = st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip)
images = st.tuples(st.integers(1, 5), st.integers(1, 5)).flatmap(
    lambda s: arrays(np.uint8, (*s, 3)).map(Image)
)
scores = st.none() | st.floats(0, 10)
failures = st.builds(Failure, message=text, reply=st.none() | st.text(st.characters(codec="utf-8")))
verdicts = st.builds(
    Verdict,
    reasoning=text,
    refined_prompt=st.none() | text,
    probability=st.none() | st.floats(0, 1),
    semantics=scores,
    quality=scores,
)
segments = st.tuples(st.integers(0, 9), st.integers(1, 9)).map(lambda s: Segment(start=s[0], end=sum(s)))
pictured = st.builds(Step, name=text, instruction=text, prompt=text, auxiliary_text=st.none() | text)
worded = st.builds(Step, name=text, instruction=text, prompt=st.none(), auxiliary_text=text)
steps = pictured | worded
done = st.builds(DoneStep, instruction=text, image=st.none() | images)
tasks = st.builds(
    Task,
    id=text,
    instruction=text,
    image=st.none() | images,
    images=st.lists(images, max_size=2).map(tuple),
    done=st.lists(done, max_size=2).map(tuple),
)
attempts = st.builds(Attempt, prompt=text, image=images, verdict=verdicts, failure=st.none()) | st.builds(
    Attempt, prompt=text, image=st.none() | images, verdict=st.none(), failure=failures
)


@st.composite
def board_steps(draw: st.DrawFn) -> StoryboardStep:
    tried = tuple(draw(st.lists(attempts, max_size=3)))
    with_picture = [i for i, a in enumerate(tried) if a.image is not None]
    chosen = draw(st.sampled_from(with_picture)) if with_picture else None
    step = draw(pictured if tried else steps)
    status = "failed" if tried else draw(st.sampled_from(["skipped", *(["text"] * (step.prompt is None))]))
    if chosen is not None:
        status = tried[chosen].status
    segment = draw(st.none() | segments)
    return StoryboardStep(step=step, segment=segment, attempts=tried, status=status, chosen=chosen)


boards = st.builds(
    Storyboard,
    task=tasks,
    steps=st.lists(board_steps(), min_size=1, max_size=3).map(tuple),
    failure=st.none(),
) | st.builds(Storyboard, task=tasks, failure=failures)
everything = st.one_of(
    boards,
    st.builds(Plan, steps=st.lists(steps, min_size=1, max_size=3).map(tuple), segments=st.none()),
    st.builds(Edit, task_id=text, image=st.none() | images, prompt=text, segment=st.none() | segments),
    st.builds(
        Candidate,
        task_id=text,
        source=st.none() | images,
        image=images,
        instruction=text,
        prompt=text,
        first_prompt=st.none() | text,
    ),
)


@given(everything)
def test_json_round_trip_loses_nothing(value: BaseModel):
    assert type(value).model_validate_json(value.model_dump_json()) == value


def test_images_can_be_stored_elsewhere():
    task = Task(id="t", instruction="go", image=Image(np.ones((2, 2, 3), np.uint8), frame="front#3"))
    shelf: dict[str, Image] = {}

    def put(image: Image) -> str:
        shelf["key"] = image
        return "key"

    data = task.model_dump_json(context={"put_image": put})
    assert '"image":"key"' in data
    assert Task.model_validate_json(data, context={"get_image": shelf.__getitem__}) == task
    with pytest.raises(ValidationError, match="stored elsewhere"):
        Task.model_validate_json(data)


@pytest.mark.parametrize(
    "pixels", [np.zeros((2, 2), np.uint8), np.zeros((2, 2, 3), np.float32), np.zeros((0, 2, 3), np.uint8)]
)
def test_an_image_is_rgb_uint8(pixels):
    with pytest.raises(ValueError, match="height, width, 3"):
        Image(pixels)
    with pytest.raises(ValueError, match="read-only"):
        PICTURE.pixels[0] = 1


def test_a_bomb_is_refused_before_decoding(monkeypatch):
    data = Image(np.zeros((20, 20, 3), np.uint8)).png()
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(ValueError, match="too large"):
        Image.decode(data)
    monkeypatch.undo()
    monkeypatch.setattr("goalreel.image.MAX_PIXELS", 399)
    with pytest.raises(ValueError, match="too large"):
        Image.decode(data)


@pytest.mark.parametrize("size", [(1, 8000), (8000, 1), (33, 2)])
def test_a_thin_picture_is_refused_wherever_one_enters(size, tmp_path):
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    image = Image(pixels)
    (tmp_path / "thin.png").write_bytes(image.png())
    uri = Task(id="t", instruction="go", image=image).model_dump_json()
    for enter in (
        lambda: Image.decode(image.png()),
        lambda: Image.of(tmp_path / "thin.png"),
        lambda: Image.of(pixels),
        lambda: Image.of(PIL.Image.fromarray(pixels)),
        lambda: decode_raw("rgb8", size[1], size[0], 3 * size[0], pixels.tobytes()),
        lambda: decode_compressed(image.png()),
        lambda: Task.model_validate_json(uri),
    ):
        with pytest.raises(ValueError, match=f"image of {size[0]}x{size[1]} pixels is too thin: crop it"):
            enter()
    check_picture_size(3840, 240)


def file_of(picture: PIL.Image.Image, form: str, **options: object) -> bytes:
    out = io.BytesIO()
    picture.save(out, form, **options)
    return out.getvalue()


def exif(orientation: int) -> PIL.Image.Exif:
    tags = PIL.Image.Exif()
    tags[0x0112], tags[0x010F] = orientation, "Maker"
    return tags


@pytest.mark.parametrize(("form", "orientation"), [*product(("png", "jpeg", "webp"), range(10)), ("tiff", 6)])
def test_every_orientation_is_that_of_a_viewer(form, orientation):
    pixels = np.random.default_rng(0).integers(0, 256, (16, 24, 3), np.uint8)
    data = file_of(PIL.Image.fromarray(pixels), form, exif=exif(orientation))
    with PIL.Image.open(io.BytesIO(data)) as picture:
        shown = np.array(PIL.ImageOps.exif_transpose(picture))
    assert np.array_equal(Image.decode(data).pixels, shown)


def test_damaged_exif_is_no_reason_to_refuse_a_picture():
    plain = PIL.Image.fromarray(np.full((8, 16, 3), 99, np.uint8))
    whole = file_of(plain, "jpeg", exif=exif(6))
    at = whole.index(b"Exif\0\0") + 6
    assert Image.decode(whole[:at] + b"XX" + whole[at + 2 :]).size == (16, 8)
    short = file_of(plain, "jpeg", exif=b"Exif\0\0II*\0\x08\0")
    assert Image.decode(short).size == (16, 8)


def test_a_grey_picture_of_16_bits_or_of_floats_is_brought_down_to_8():
    grey = np.arange(0, 2**16, 256, dtype=np.uint16).reshape(16, 16)
    wanted = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, axis=2)
    picture = PIL.Image.fromarray(grey)
    for data in (file_of(picture, "png"), file_of(picture.convert("I"), "tiff")):
        assert np.array_equal(Image.decode(data).pixels, wanted)
    turned = Image.decode(file_of(picture, "png", exif=exif(3)))
    assert np.array_equal(turned.pixels, wanted[::-1, ::-1])
    floats = PIL.Image.fromarray(np.array([[0.0, 0.5, 1.0, 2.0, np.nan]], np.float32))
    assert Image.decode(file_of(floats, "tiff")).pixels[0, :, 0].tolist() == [0, 128, 255, 255, 0]


@pytest.mark.parametrize("form", ["png", "webp", "tiff"])
def test_what_is_transparent_is_white_as_viewers_show_it(form):
    hidden = PIL.Image.new("RGBA", (8, 4), (255, 0, 255, 0))
    hidden.paste((10, 20, 30, 255), (4, 0, 8, 4))
    lossless = {"lossless": True, "exact": True} if form == "webp" else {}
    shown = Image.decode(file_of(hidden, form, **lossless)).pixels
    assert (shown[:, :4] == 255).all()
    assert (shown[:, 4:] == (10, 20, 30)).all()


STEP = Step(name="a", instruction="b", prompt="c")
WORDS = Step(name="a", instruction="b", prompt=None, auxiliary_text="c")
PICTURE = Image(np.zeros((2, 2, 3), np.uint8))


def judged(success: bool) -> Attempt:
    return Attempt(prompt="p", seed=0, image=PICTURE, verdict=Verdict(success=success))


@pytest.mark.parametrize(
    "build",
    [
        lambda: Task(id="t", instruction="  "),
        lambda: Task(id="t", instruction="go", seed=-1),
        lambda: Plan(steps=()),
        lambda: Plan(steps=(STEP,), segments=()),
        lambda: Plan(steps=(STEP, STEP), segments=(Segment(start=0, end=5), Segment(start=4, end=6))),
        lambda: Segment(start=3, end=3),
        lambda: Verdict(success=True, semantics=11),
        lambda: Verdict(success=True, probability=float("nan")),
        lambda: Step(name="a", instruction="b", prompt=None, auxiliary_text=" "),
        lambda: StoryboardStep(step=STEP, status="text"),
        lambda: StoryboardStep(step=WORDS, attempts=(judged(True),), status="accepted", chosen=0),
        lambda: Attempt(prompt="p", seed=0),
        lambda: Registration(shift=(0, 0), reason="flat"),
        lambda: Attempt(prompt="p", seed=0, verdict=Verdict(success=True)),
        lambda: Storyboard(task=Task(id="t", instruction="go")),
        lambda: StoryboardStep(step=STEP, status="accepted"),
        lambda: StoryboardStep(step=STEP, status="failed"),
        lambda: StoryboardStep(step=STEP, attempts=(judged(False),), status="accepted", chosen=0),
    ],
)
def test_impossible_records_are_refused(build):
    with pytest.raises(ValidationError):
        build()


FRAME = Image(PICTURE.pixels, frame="camera#3")


@pytest.mark.parametrize(
    ("image", "verdict", "status"),
    [
        (PICTURE, Verdict(success=True), "accepted"),
        (FRAME, Verdict(success=True), "accepted"),
        (FRAME, Verdict(success=True, pictures_only=True), "observed"),
        (PICTURE, Verdict(success=True, pictures_only=True), "unjudged"),
        (FRAME, Verdict(success=False, pictures_only=True), "rejected"),
    ],
)
def test_only_who_compares_picture_and_words_verifies(image, verdict, status):
    attempt = Attempt(prompt="p", seed=0, image=image, verdict=verdict)
    assert attempt.status == status
    step = StoryboardStep(step=STEP, attempts=(attempt,), status=status, chosen=0)
    assert step.accepted is (status in ("accepted", "observed"))
    # A picture that was stored in full has lost the name of its frame, so its record's word counts.
    lost_name = {"observed"} if verdict.success and verdict.pictures_only else set()
    for other in {"observed", "rejected", "failed"} - {status} - lost_name:
        with pytest.raises(ValidationError):
            StoryboardStep(step=STEP, attempts=(attempt,), status=other, chosen=0)


def test_a_storyboard_says_which_models_it_lost():
    lost = Failure(stage="edit", message="server gone\nlong story")
    tried = Attempt(prompt="p", seed=0, failure=lost)
    steps = tuple(StoryboardStep(step=STEP, attempts=(tried,), status="failed") for _ in range(2))
    board = Storyboard(task=Task(id="t", instruction="go"), steps=steps)
    assert board.degraded == "the editor failed: server gone"
    refused = StoryboardStep(step=STEP, attempts=(tried, judged(False)), status="rejected", chosen=1)
    assert board.model_copy(update={"steps": (refused,)}).degraded == "", "a rejection is an answer"
    none = Storyboard(task=board.task, failure=Failure(stage="plan", message="no words"))
    assert none.degraded == "no plan: no words"


def test_the_score_is_the_geometric_mean_of_what_was_given():
    assert Verdict(success=True, semantics=4, quality=9).score == pytest.approx(6)
    assert Verdict(success=True, quality=9).score == pytest.approx(9)
    assert Verdict(success=True).score is None
    assert Verdict(success=True, semantics=0, quality=9).score == 0


def test_a_picture_is_brought_to_a_size():
    image = Image(np.full((6, 8, 3), 50, np.uint8), frame="front#3")
    assert image.resized((8, 6)) is image
    smaller = image.resized((4, 3))
    assert (smaller.size, smaller.frame) == ((4, 3), None)
    assert smaller == Image(np.full((3, 4, 3), 50, np.uint8))


RECORDED = Image(np.zeros((4, 4, 3), np.uint8), frame="front#7")
DRAWN = Image(np.zeros((4, 4, 3), np.uint8))
SEGMENT = Segment(start=0, end=8)
HINDSIGHT = {"planner": "kinematic", "editor": "hindsight", "critic": "difference"}
CHATS = {"planner": "hf:planner", "editor": "flux2-klein-4b", "critic": "openai:judge"}
PIXELS = Verdict(success=True, pictures_only=True)


def step(image=RECORDED, verdict=PIXELS, segment=SEGMENT, doubts=(), failure=None) -> StoryboardStep:
    attempt = Attempt(prompt="p", seed=0, image=image, verdict=verdict, failure=failure)
    words = Step(name="grasp the cup", instruction="the cup is held", prompt="p", doubts=doubts)
    return StoryboardStep(step=words, segment=segment, attempts=(attempt,), status=attempt.status, chosen=0)


def claims(storyboard_step: StoryboardStep, models=HINDSIGHT):
    board = Storyboard(task=Task(id="t", instruction="take the cup"), steps=(storyboard_step,))
    return attributed(board, makers(models.get)).steps[0].claims


def test_a_recorded_frame_that_passed_picture_checks_was_compared_with_the_words_by_nobody():
    made = claims(step(doubts=("two hands move",)))
    assert made.when == Claim(by="rule", checked="nobody")
    assert made.what == Claim(by="rule", checked="nobody", doubts=("two hands move",))
    assert made.looks == Claim(by="recording", checked="picture checks")
    assert made.came_off == Claim(by="rule", checked="nobody", doubts=("two hands move",))


def test_a_model_that_compared_a_recorded_frame_with_the_words_checked_words_and_outcome():
    made = claims(step(verdict=Verdict(success=True)), {**HINDSIGHT, "critic": "openai:judge"})
    assert [claim.checked for _, claim in made.items()] == ["nobody", *["model openai:judge"] * 3]
    refused = step(verdict=Verdict(success=False, reasoning="the cup is on the table"))
    made = claims(refused, {**HINDSIGHT, "critic": "openai:judge"})
    objection = ("the cup is on the table",)
    assert made.looks == Claim(by="recording", checked="model openai:judge", doubts=objection)
    assert made.came_off == Claim(by="rule", checked="model openai:judge", doubts=objection)
    assert made.what.checked == "nobody", "an objection confirms nothing"


def test_a_predicted_step_claims_no_time_and_no_outcome():
    made = claims(step(image=DRAWN, verdict=Verdict(success=True), segment=None), CHATS)
    assert (made.when, made.came_off) == (None, None)
    assert made.what == Claim(by="model hf:planner", checked="nobody")
    assert made.looks == Claim(by="model flux2-klein-4b", checked="model openai:judge")


def test_a_step_that_was_found_in_a_recording_was_placed_there_by_a_rule():
    planned = step(image=DRAWN, verdict=Verdict(success=True), segment=None)
    made = claims(planned.aligned(Alignment(cost=0.1), SEGMENT), CHATS)
    assert made.when == made.came_off == Claim(by="rule", checked="nobody")
    assert made.what.by == "model hf:planner"
    lost = planned.aligned(Alignment(reason="nothing like it"))
    assert claims(lost, CHATS).when is None


def test_a_critic_that_failed_checked_nothing():
    made = claims(step(verdict=None, failure=Failure(stage="judge", message="no answer")))
    assert made.looks == Claim(by="recording", checked="nobody", doubts=("the critic failed: no answer",))


@pytest.mark.parametrize(
    ("models", "label"),
    [
        ({"planner": "rows"}, "rows"),
        ({"planner": "watch:hf:DIR"}, "model watch:hf:DIR"),
        ({"planner": "mine.MyPlanner"}, "model mine.MyPlanner"),
        ({}, "unknown"),
    ],
)
def test_the_words_are_by_who_planned(models, label):
    assert claims(step(), models).what.by == label


def test_claims_go_to_json_and_back_and_records_without_them_are_read():
    named = step().model_copy(update={"claims": claims(step())})
    assert StoryboardStep.model_validate_json(named.model_dump_json()) == named
    old = named.model_dump(mode="json", context={"put_image": lambda image: "x"})
    del old["claims"]
    read = StoryboardStep.model_validate(old, context={"get_image": lambda reference: RECORDED})
    assert read.claims.what == Claim(), "made by nobody that it names"
    assert claims(read) == named.claims


def test_claims_are_counted_and_what_a_checker_refused_is_in_doubt():
    refused = claims(step(verdict=Verdict(success=False, reasoning="There is no bowl."))).looks
    assert refused is not None
    assert refused.line.endswith(", in doubt")
    assert claim_line(refused).endswith(", in doubt")
    totals = count([step(verdict=Verdict(success=False, reasoning="There is no bowl."))])["looks"]
    assert totals["doubted"] == totals["checked"] == {"unknown": 1}
    steps = [step().model_copy(update={"claims": claims(step())})] * 2
    totals = count(steps)
    assert totals["looks"] == {"by": {"recording": 2}, "checked": {"picture checks": 2}}
    add_counts(totals, count(steps[:1]))
    assert totals["what"] == {"by": {"rule": 3}, "checked": {"nobody": 3}}
