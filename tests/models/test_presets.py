"""Presets: those that come with goalreel, files of one's own, and what is wrong with a file, in one line."""

import traceback
from dataclasses import replace

import pytest

from goalreel.editors import catalogue
from goalreel.errors import InputError
from goalreel.files import MAX_BYTES
from goalreel.models import presets
from goalreel.models.load import load, sampled
from goalreel.models.model_set import Provenance

OWN = "planner: hf:a\neditor: server:http://h\ncritic: difference\nmax_attempts: 2\nkeep: last\n"


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(OWN)
    return path


def test_klein_is_the_papers():
    for name, editor in (("klein", "flux2-klein-9b"), ("klein-4b", "flux2-klein-4b")):
        preset = presets.load(name)
        assert (preset.editor, preset.max_attempts, preset.keep) == (editor, 5, "last")
        asked = load(preset, roles=()).provenance.preset
        assert asked.planner == (
            "hf:InterleaveThinker/InterleaveThinker-Planner-8B?temperature=checkpoint&max_new_tokens=20480"
        )
        assert asked.critic == "hf:InterleaveThinker/InterleaveThinker-Critic-8B?temperature=checkpoint"
        assert not preset.critic_scores
        assert preset.background == "ignore"
        assert presets.ModelChoice.of(name).on_robot().load().background == "correct"
        chosen = presets.ModelChoice.of(name, background="measure").on_robot()
        assert chosen.load().background == "measure"
        drawn = catalogue.find(editor)
        assert (drawn.steps, drawn.guidance, drawn.size) == (4, {"guidance_scale": 1.0}, (1024, 1024))


@pytest.mark.parametrize(
    ("name", "role", "asked"),
    [
        ("hf:InterleaveThinker/Critic-SFT-8B", "critic", "?temperature=checkpoint"),
        ("hf:InterleaveThinker/Critic-SFT-8B?temperature=0", "critic", ""),
        ("hf:mine?dialect=interleavethinker", "planner", "&temperature=checkpoint&max_new_tokens=20480"),
        ("server:http://h?dialect=interleavethinker", "planner", "&temperature=checkpoint&max_tokens=20480"),
        ("hf:Qwen/Qwen3-VL-8B-Instruct", "planner", ""),
        ("openai:InterleaveThinker/InterleaveThinker-Planner-8B?dialect=own", "planner", ""),
        ("nothing:known", "critic", ""),
    ],
)
def test_the_published_dialect_brings_its_sampling_and_limit(name, role, asked):
    models = {"planner": "kinematic", "critic": "difference", role: name}
    assert getattr(sampled(presets.load("nano", **models)), role) == name + asked


def test_one_checkpoint_in_both_roles_is_asked_alike():
    both = sampled(presets.load("klein", critic=presets.load("klein").planner))
    assert both.planner == both.critic


def test_api_says_which_models_are_to_be_named():
    with pytest.raises(InputError, match="give --planner and --editor and --critic, such as --planner open"):
        presets.load("api")
    with pytest.raises(InputError, match="give --critic, such as --critic openai:"):
        presets.load("api", planner="openai:x", editor="openai:y")
    with pytest.raises(InputError, match="give --planner and --critic, such as --planner watch:openai:Qwen"):
        presets.load("watch")
    full = presets.load("api", planner="openai:x", editor="openai:y", critic="openai:x@http://h/v1")
    assert full.critic_scores


def test_a_file_of_ones_own(own, monkeypatch):
    preset = presets.load(str(own), critic_mode="fast", keep=None)
    told = (preset.name, preset.max_attempts, preset.keep, preset.critic_mode)
    assert told == ("mine.yaml", 2, "last", "fast")
    with pytest.raises(InputError, match=r"^max_attempts: Input should be greater"):
        presets.load(str(own), max_attempts=0)
    monkeypatch.chdir(own.parent)
    (own.parent / "nano").mkdir()
    assert presets.load("nano").predictive, "a file hides no preset"
    assert not presets.load("hindsight").predictive
    assert presets.load("mine.yaml") == presets.load(str(own))
    assert load("mine.yaml", roles=()).provenance == Provenance(
        presets.load("mine.yaml"), uncached=frozenset({"critic"})
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("planer: x\n", "mine.yaml: planer: no such field; there are planner, editor, critic, critic_mode"),
        ("name: x\n", "name: no such field"),
        ("planner: hf:a\n", "editor: Field required"),
        (OWN + "critic_threshold: 2\n", "critic_threshold: Input should be less than or equal to 1"),
        (OWN + "max_steps: many\n", "max_steps: Input should be a valid integer"),
        (OWN + "critic_mode: loose\n", "critic_mode: Input should be 'strict' or 'fast'"),
        (OWN.replace("hf:a", "''"), "planner: String should have at least 1 character"),
        ("- planner\n", "no preset: write one `field: value` a line"),
        ("", "no preset: write one"),
        ("1: x\n", "1: no such field"),
        (OWN + "keep: [\n", "line 7: no YAML"),
        ("planner: !!python/object/apply:os.system ['touch hacked']\n", "line 1: no YAML"),
        ("planner: 2020-13-45\n", "no YAML"),
        ("a: " + "[" * 2000, "no YAML"),
        ("planner: x # " + "x" * MAX_BYTES, "larger than 64 KiB"),
        ("planner: \x00", "no YAML"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_file_is_one_line(own, text, said, monkeypatch):
    monkeypatch.chdir(own.parent)
    own.write_text(text)
    with pytest.raises(InputError) as caught:
        presets.load(str(own))
    assert str(own) in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (own.parent / "hacked").exists()


@pytest.mark.parametrize("name", ["magic", "magic.yaml", "../nano", "/etc/hostname", ""])
def test_a_preset_that_is_none(name):
    with pytest.raises(InputError, match=r"no preset '.*'; there are api, .* the path of a \.yaml file"):
        presets.load(name)


def test_names_to_show_hold_no_secret_and_say_how_a_model_is_asked(monkeypatch):
    monkeypatch.delenv("GOALREEL_INTERLEAVETHINKER", raising=False)
    preset = presets.load(
        "api",
        planner="hf:InterleaveThinker/InterleaveThinker-Planner-8B",
        editor="server:http://h",
        critic="openai:InterleaveThinker/InterleaveThinker-Critic-8B@http://h/v1?dialect=own",
        critic_scores=False,
    )
    provenance = load(preset, roles=()).provenance
    secret = {"editor": "mine:e@http://me:s3cret@h/v1?sign=s3cret"}
    shown = replace(provenance, preset=provenance.preset.model_copy(update=secret)).display_names()
    asked = f"{preset.planner}?temperature=checkpoint&max_new_tokens=20480"
    assert shown["planner"].startswith(f"{asked} (the published prompts are not at hand")
    assert shown["editor"] == "mine:e@http://h/v1?sign=***"
    assert shown["critic"] == preset.critic


@pytest.mark.parametrize("role", ["planner", "editor", "critic"])
@pytest.mark.parametrize("name", ["openai:m@http://me:s3cret@h/v1", "server:http://h?api_key=s3cret"])
def test_a_key_in_a_name_is_refused_before_the_name_is_written_anywhere(role, name):
    with pytest.raises(InputError, match="put it into the environment variable GOALREEL_API_KEY") as caught:
        load(presets.load("server", **{role: name}), roles=())
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))
