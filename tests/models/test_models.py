"""Models by name: the parser, the options a name carries, names that are none, and which are loaded once."""

import re
import traceback
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints

import pytest
from support.provenance import named

from goalreel.critics.difference import DifferenceCritic
from goalreel.editors import catalogue
from goalreel.errors import InputError
from goalreel.files import MAX_BYTES
from goalreel.models import presets, scorers
from goalreel.models.journal import Journal
from goalreel.models.load import build_chat, build_editor, build_planner, dialect_of, load, sampled
from goalreel.models.model_set import ModelSet, Provenance
from goalreel.models.names import PUBLIC_OPTIONS, ModelName, ModelOptions
from goalreel.models.registry import ModelSpec, RecordingContext, Registry, find, forms, is_remote, kinds
from goalreel.models.scorers import GROUP, build_scorer, find_scorer, register_scorer
from goalreel.planners.watch.planner import WatchPlanner
from goalreel.serving.loading import build_models
from goalreel.streaming.model_caller import one_line
from goalreel.types import ROLES


@pytest.mark.parametrize(
    ("text", "kind", "target", "options"),
    [
        ("hf:some/repo?dtype=x&device=cuda:0", "hf", "some/repo", {"dtype": "x", "device": "cuda:0"}),
        ("hf:/home/me@there/model", "hf", "/home/me@there/model", {}),
        ("openai:m@http://h:8000/v1", "openai", "m@http://h:8000/v1", {}),
        ("server:http://h?a=b", "server", "http://h", {"a": "b"}),
        ("openai:m@http://h/v1?temperature=0.2", "openai", "m@http://h/v1", {"temperature": "0.2"}),
        ("klein@/d:e?device=cuda:1", "", "klein@/d:e", {"device": "cuda:1"}),
        ("kinematic", "", "kinematic", {}),
        ("watch:openai:m@http://h/v1?top=1", "watch", "openai:m@http://h/v1", {"top": "1"}),
        ("openai:m?n=9&n=4", "openai", "m", {"n": "4"}),
        ("hf:", "hf", "", {}),
        ("", "", "", {}),
    ],
)  # fmt: skip
def test_names_are_taken_apart(text, kind, target, options):
    name = ModelName.parse(text)
    assert (name.kind, name.target, name.options) == (kind, target, options)
    assert str(name) == text
    draw, edit = ModelName.parse(f"qwen-image?offload=model+{text}").parts
    assert (draw.target, draw.options, edit) == ("qwen-image", {"offload": "model"}, name)
    assert ModelName.parse("klein@a+b").parts is None, "a folder may hold a plus"


@pytest.mark.parametrize(
    ("text", "public", "brief"),
    [
        ("hf:/models/some-planner?dtype=x", "hf:/models/some-planner?dtype=x", "some-planner"),
        ("hf:a/b?processor=Qwen/Q", "hf:a/b?processor=Qwen/Q", "b"),
        ("openai:gpt@http://me:pw@h/v1", "openai:gpt@http://h/v1", "gpt"),
        ("server:http://me:pw@h:8000", "server:http://h:8000", "8000"),
        ("openai:gpt@http://h//s3cret/v1#pw", "openai:gpt@http://h//***/***", "gpt"),
        ("openai:gpt@http://h?sign=s3cret&top_p=1", "openai:gpt@http://h?sign=***&top_p=1", "gpt"),
        ('openai:g@http://h?extra={"n":4,"a":"s3cret"}', 'openai:g@http://h?extra={"n":4,"a":"***"}', "g"),
        ("klein?seal=s3cret+server:http://me:pw@h", "klein?seal=***+server:http://h", "klein+h"),
        ("flux2-klein-4b@/weights", "flux2-klein-4b@/weights", "flux2-klein-4b"),
    ],
)
def test_what_is_shown_of_a_name(text, public, brief):
    name = ModelName.parse(text)
    assert (name.public(), name.brief()) == (public, brief)


@pytest.mark.parametrize(
    ("text", "identity", "nameless"),
    [
        ("openai:a/b@http://h:8000/v1", "openai:a/b", False),
        ("openai:gpt", "openai:gpt", False),
        ("openai:m@https://[::1]:80/v1?top_p=0.9&timeout_s=3&concurrency=4", "openai:m?top_p=0.9", False),
        ("watch:openai:m@http://h/v1", "watch:openai:m", False),
        ("server:http://h:8000?temperature=0.5", "server?temperature=0.5", True),
        ("watch:server:http://h", "watch:server", True),
        ("qwen-image?offload=model+server:http://h", "qwen-image+server", True),
        ("hf:/home/me@there/model?dtype=x&device=cuda:1", "hf:/home/me@there/model?dtype=x", False),
        ("flux2-klein-4b@/weights", "flux2-klein-4b@/weights", False),
        ("kinematic", "kinematic", False),
    ],
)
def test_a_model_is_the_same_at_another_address(text, identity, nameless):
    name = ModelName.parse(text)
    assert (name.identity(), name.nameless) == (identity, nameless)
    one, two = (ModelName.parse(f"mine:8?seal={value}").identity() for value in ("s3cret", "another"))
    assert one != two, "a digest tells options apart that might be secrets"
    assert "s3cret" not in one


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hf:dir?lora=x", "lora is wrong: there are dialect, prompts, device, dtype, batch_size"),
        ("hf:dir?batch_size=many", "batch_size is wrong"),
        ("hf:dir?batch_size=0", "batch_size is wrong"),
        ("hf:dir?top_p=1.1", "top_p is wrong"),
        ("hf:dir?temperature=-1", "temperature is wrong"),
        ("hf:dir?quantize=int2", "quantize is wrong: Input should be 'fp8' or 'nf4'"),
        ("hf:dir?fast", r"options are written as \?key=value"),
        ("openai:m?a=b", "openai:m: a is wrong: there are dialect, prompts, concurrency"),
        ("openai:m@http://h?temperature=s3cret", "openai:m@http://h: temperature is wrong: .* number"),
        ("hf:dir?temperature=s3cret", "temperature is wrong"),
        ("hf:dir?dialect=s3cret", "dialect is wrong: Input should be 'own' or 'interleavethinker'"),
        ("openai:m@http://h/v1?api_key=s3cret", "put it into the environment variable GOALREEL_API_KEY"),
        ("server:http://h?token=s3cret", "put it into the environment"),
        ("hf:s3cret@there/dir?s3cret", r"options are written as \?key=value"),
        ("nothing:there?auth=s3cret", "no planner called 'nothing:there'"),
        ("hindsight?password=s3cret", "no planner called 'hindsight'"),
        ("nano-planner", "no planner called 'nano-planner': use hf:nano-planner"),
        *((name, "no planner called") for name in ("gpt", "hf:", "openai:", "")),
    ],
)
def test_wrong_options_get_one_line_that_repeats_no_value(name, said):
    with pytest.raises(InputError, match=said) as caught:
        build_planner(name)
    assert "\n" not in str(caught.value)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value)).replace("s3cret@there", "")


def test_what_a_name_shows_are_the_options_of_our_own_kinds():
    ours = {o for role in ROLES for kind in kinds(role, plugins=False) for o in kind.options.model_fields}
    assert ours - {"extra"} == PUBLIC_OPTIONS


def test_options_reach_the_model(tmp_path):
    from support.tiny import tiny_vlm
    from support.tiny_pipelines import tiny_pipeline

    vlm = tiny_vlm(tmp_path / "vlm")
    options = f"batch_size=3&dtype=bfloat16&temperature=checkpoint&processor={vlm}"
    cache = {}
    chat = build_chat(f"hf:{vlm}?{options}&dialect=own", role="planner", cache=cache)
    assert chat.batch_size == 3
    assert build_chat(f"hf:{vlm}?{options}&dialect=interleavethinker", role="critic", cache=cache) is chat
    assert build_chat(f"hf:{vlm}?top_k=2&temperature=1", role="critic", cache=cache) is not chat
    assert str(chat.model.dtype) == "torch.bfloat16"
    folder = tiny_pipeline("StableDiffusionInstructPix2PixPipeline", tmp_path / "editor")
    editor = build_editor(f"diffusers:{folder}?dtype=bfloat16")
    assert str(editor.pipeline.unet.dtype) == "torch.bfloat16"


@pytest.mark.parametrize(
    ("name", "spoken"),
    [
        ("hf:InterleaveThinker/InterleaveThinker-Planner-8B", "interleavethinker"),
        ("hf:weights/InterleaveThinker-Critic-8B/?batch_size=2", "interleavethinker"),
        ("openai:InterleaveThinker-Critic-8B@http://h/v1", "interleavethinker"),
        ("hf:InterleaveThinker/InterleaveThinker-Planner-8B?dialect=own", "own"),
        ("server:http://h", "own"),
        ("server:http://h?dialect=interleavethinker", "interleavethinker"),
        ("hf:nano-planner", "own"),
    ],
)
def test_a_name_decides_how_its_model_is_asked(name, spoken):
    assert dialect_of(name, "planner").name == spoken
    if not name.startswith("hf:"):
        served = build_models(name, name, None)
        assert served.planner_dialect.name == served.critic_dialect.name == spoken


def test_a_package_that_is_missing_is_named_with_its_extra():
    torch = ModuleNotFoundError("No module named 'torch'", name="torch")
    assert one_line(torch) == "torch is not installed: pip install 'goalreel[gpu]'"
    assert one_line(ModuleNotFoundError("No module named 'own'", name="own")) == "No module named 'own'"


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_reads_and_names_kinds_that_are(name):
    preset = presets.read(name, max_attempts=9, editor="server:http://x")
    assert (preset.name, preset.max_attempts, preset.editor) == (name, 9, "server:http://x")
    assert "name" not in preset.model_dump(), "a record holds the models, not the file"
    for role in ("planner", "editor", "critic"):
        find(role, ModelName.parse(getattr(preset, role)))


def test_an_error_names_every_kind_that_would_do():
    with pytest.raises(InputError) as caught:
        find("editor", ModelName.parse("nonsense"), recordings=False)
    for form in forms("editor"):
        assert form == "NAME[@FOLDER]" or form in str(caught.value)
    assert "flux2-klein-4b" in str(caught.value)
    assert "hindsight" not in str(caught.value)


def test_models_that_read_recordings_say_so():
    with pytest.raises(InputError, match="kinematic only reads recordings: use goalreel annotate"):
        build_planner("kinematic")
    with pytest.raises(InputError, match="only reads recordings"):
        load("hindsight")
    model_set = load("hindsight", recordings=RecordingContext({}, "front"))
    assert model_set.provenance.uncached == {"planner", "editor", "critic"}


@pytest.mark.parametrize("editor", ["hindsight", "flux2-klein-4b+hindsight"])
def test_an_editor_of_segments_wants_a_planner_that_reads_them_off(editor):
    preset = presets.load("hindsight", editor=editor, planner="openai:m@http://h/v1")
    said = (
        r"\A--editor hindsight takes pictures from segments[\s\S]*--planner openai:m@http://h/v1 gives none: "
        r"use --planner kinematic or [\s\S]*or an --editor that renders\Z"
    )
    with pytest.raises(InputError, match=said):
        load(preset, recordings=RecordingContext({}, "front"), roles=())
    load(preset.but(planner="kinematic"), recordings=RecordingContext({}, "front"), roles=())


@pytest.mark.parametrize(
    ("editor", "several"),
    [
        ("flux2-klein-4b", True),
        ("qwen-image-edit-2511@some/FOLDER", True),
        ("qwen-image-edit", False),
        ("qwen-image+qwen-image-edit-2509", True),
        ("flux2-klein-4b+instruct-pix2pix", False),
        ("openai:gpt-image-1", True),
        ("server:http://h", True),
        ("interleavethinker:http://h", False),
        ("diffusers:nano-editor", False),
        ("diffusers:OWNER/NAME", True),
    ],
)
def test_an_editor_of_one_picture_says_so_before_any_work(editor, several):
    """A repository that nobody has fetched may take several; whoever loads it knows."""
    preset = presets.load("nano", editor=editor, references="first")
    if several:
        assert load(preset, roles=()).provenance.settings()["references"] == "first"
        return
    with pytest.raises(InputError, match=r"\A[^\n]*--references first: .* takes one picture an edit[^\n]*\Z"):
        load(preset, roles=())
    load(preset.model_copy(update={"references": "none"}), roles=())


def test_a_planner_that_watches_asks_a_chat_model(tmp_path):
    recorded = RecordingContext({}, "front")
    preset = presets.load("watch", planner="watch:openai:m@http://h/v1?timeout_s=9", critic="difference")
    model_set = load(preset, recordings=recorded)
    assert isinstance(model_set.planner, WatchPlanner)
    assert model_set.provenance.uncached == {"editor", "critic"}, "its answers are kept"
    assert model_set.remote == {"plan"}
    assert not preset.predictive
    weights = tmp_path / "weights"
    weights.mkdir()
    name = ModelName.parse(f"watch:hf:{weights}?dtype=float32")
    before = name.fingerprint()
    (weights / "model").write_bytes(b"1")
    assert name.fingerprint() != before
    assert is_remote("planner", ModelName.parse("watch:server:http://h"))
    assert not is_remote("planner", name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("watch:kinematic", "kinematic is no chat model: use watch:hf:DIR, watch:openai:MODEL@URL"),
        ("watch:openai:m@http://h/v1?dtype=x", "dtype is wrong"),
        ("watch:hf:a?dialect=own", "it has prompts of its own: leave out dialect and prompts"),
        ("watch:", "no planner called 'watch:'"),
        ("watch:magic:x", "no planner called 'magic:x'"),
    ],
)
def test_what_cannot_watch_is_one_line(name, said):
    preset = presets.load("watch", planner=name, critic="difference")
    with pytest.raises(InputError, match=re.escape(said)):
        load(preset, recordings=RecordingContext({}, "front"), roles=())


@pytest.mark.parametrize(
    ("planner", "editor", "critic", "remote"),
    [
        ("openai:m@http://h/v1", "openai:e@http://h/v1", "server:http://h", {"plan", "edit", "judge"}),
        ("hf:a", "interleavethinker:http://h", "difference", {"edit"}),
        ("server:http://h", "flux2-klein-4b+server:http://h", "hf:a", {"plan"}),
        ("server:http://h", "server:http://a+server:http://h", "hf:a", {"plan", "edit"}),
        ("hf:a", "diffusers:b", "hf:a", set()),
    ],
)
def test_which_models_are_asked_while_others_are_at_work(planner, editor, critic, remote, tmp_path):
    model_set = load(presets.load("nano", planner=planner, editor=editor, critic=critic), roles=())
    assert model_set.remote == remote
    assert model_set.with_journal(Journal(tmp_path)).remote == remote


def test_a_local_chat_model_is_loaded_once_and_only_for_the_roles_asked_for(monkeypatch):
    from goalreel.chat.hf import HfChat

    loaded = []
    monkeypatch.setattr(HfChat, "load", lambda folder, **options: loaded.append(folder) or object())
    preset = presets.load("nano", planner="hf:me/a", critic="hf:me/a", editor="server:http://h")
    load(preset)
    assert loaded == ["me/a"]
    model_set = load(preset.model_copy(update={"planner": "hf:me/b", "critic": "hf:me/c"}), roles=["critic"])
    assert loaded == ["me/a", "me/c"]
    model_set.prepare()
    model_set.prepare()
    assert loaded == ["me/a", "me/c", "me/b"]
    watching = presets.load("watch", planner="watch:hf:me/d", critic="hf:me/d")
    load(watching, recordings=RecordingContext({}, "front"))
    assert loaded[3:] == ["me/d"], "it watches and judges"


def test_models_without_names_are_called_by_their_classes():
    critic = DifferenceCritic()
    called = ModelSet(critic, critic, critic).provenance
    assert called.preset.critic == "goalreel.critics.difference.DifferenceCritic"
    assert called.uncached == {"planner", "editor", "critic"}


@pytest.mark.parametrize(
    ("critic", "live", "observed"),
    [
        ("openai:m@http://h/v1", "observed", True),
        ("openai:m@http://h/v1", "candidate", False),
        ("openai:m@http://h/v1?dialect=interleavethinker", "observed", False),
        ("difference", "observed", False),
    ],
)
def test_live_frames_are_asked_about_in_other_words_where_the_preset_says_so(critic, live, observed):
    assert presets.read("api").critic_live == "observed"
    assert presets.load("nano").critic_live == presets.load("server").critic_live == "candidate"
    given = {"planner": "openai:m@http://h/v1", "editor": "server:http://h", "critic": critic}
    model_set = load(presets.load("api", **given, critic_live=live), roles=())
    assert (model_set.live_critic is not None) == observed


def test_a_models_key_is_that_of_its_name_how_it_is_asked_and_its_version():
    from goalreel import __version__

    names = named(critic_mode="fast")
    assert names.key("planner") == f"p 40 {__version__}"
    assert names.key("critic") == f"c fast False None {__version__}"
    one, other = (named(editor=f"openai:m@http://{host}/v1").key("editor") for host in "ab")
    assert one == other, "a name is the same at another address"
    one, other = (named(editor=f"server:http://{host}").key("editor") for host in "ab")
    assert one != other, "nothing else tells them apart"
    for other in (
        named(critic_mode="fast", critic_scores=True),
        named(critic_mode="fast", critic_threshold=0.5),
        replace(names, notes=(("critic", "other words"),)),
    ):
        assert other.key("critic") != names.key("critic")


def test_a_kind_is_registered_once():
    registry: Registry[str] = Registry()

    @registry.kind("mine:N", "A number.", ModelOptions)
    def build(spec: ModelSpec[ModelOptions]) -> str:
        return spec.name.target

    kind = registry.get("mine")
    assert (kind.form, kind.plugin) == ("mine:N", __name__.partition(".")[0])
    assert kind.build(ModelName.parse("mine:3"), "editor", None) == "3"
    with pytest.raises(ValueError, match="there is a kind 'mine' already"):
        registry.kind("mine", "Another.", ModelOptions)(build)


class Even:
    """A scorer that scores nothing."""

    def score(self, candidates):
        return [None] * len(candidates)


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """A registry of the test's own."""
    monkeypatch.setattr(scorers, "_kinds", {})


def install(monkeypatch, name: str, value: str) -> None:
    def entry_points(**wanted) -> EntryPoints:
        return EntryPoints([EntryPoint(name, value, GROUP)]).select(**wanted)

    monkeypatch.setattr(scorers.metadata, "entry_points", entry_points)


def test_a_registered_scorer_is_built_by_its_name():
    register_scorer("even", lambda scores: True)(Even)
    assert isinstance(build_scorer("even"), Even)
    assert find_scorer("even").success_of(None) is True


def test_the_scorer_of_a_package_is_imported_when_it_is_asked_for(monkeypatch):
    install(monkeypatch, "mine", "goalreel.nowhere")
    assert find_scorer("other") is None
    with pytest.raises(InputError, match=r"the scorer 'mine' of goalreel.nowhere cannot be imported"):
        find_scorer("mine")


def test_an_unknown_scorer_names_those_there_are(monkeypatch):
    install(monkeypatch, "mine", "goalreel.nowhere")
    with pytest.raises(InputError, match="no scorer 'other': use mine or a chat model"):
        build_scorer("other")


def test_the_simulator_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(scorers.metadata, "entry_points", lambda **_: EntryPoints())
    with pytest.raises(InputError, match=r"simulator comes with goalreel-lab: .*install"):
        build_scorer("simulator")


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
