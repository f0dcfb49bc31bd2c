"""The language trainers on a handful of tabletop rows: what is learned comes back through the real agents."""

import json
import re
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText, AutoProcessor, TrainerCallback
from typer.testing import CliRunner

from goalreel.chat.conversation import NoReply
from goalreel.chat.hf import HfChat
from goalreel.checkpoints import located
from goalreel.cli.train import app
from goalreel.critics.chat import ChatCritic, question
from goalreel.datasets.corpora.rows import messages_of
from goalreel.errors import InputError
from goalreel.planners.chat import ChatPlanner
from goalreel.training.config import SftConfig, presets, read_config
from goalreel.training.rows import IGNORED, Collator, LengthSampler, read_rows, short_enough
from goalreel.training.run import adapters, freeze, last_checkpoint, load
from goalreel_lab.corpora.plans import plan_rows
from goalreel_lab.corpora.rows import candidate_of, plan_lesson, task_of, verdict_lesson
from goalreel_lab.corpora.verdicts import verdict_rows
from goalreel_lab.nano.agent_config import NanoAgentConfig
from goalreel_lab.nano.agent_training import WeighedCollator
from goalreel_lab.nano.language import build_model, build_processor, build_tokenizer, prompt_passages
from goalreel_lab.nano.optim import MuonAdamW


def train(config: SftConfig, out: Path, resume: bool = False) -> None:
    """Only the worker that trains loads trl, for two seconds."""
    from goalreel.training import sft

    sft.train(config, out, resume)


SHAPE = {"hidden": 96, "layers": 2, "vision_hidden": 64, "vision_layers": 2, "vocabulary": 420, "side": 64}
FAST = {
    "model": "nano",
    "nano": SHAPE,
    "optimizer": "muon",
    "learning_rate": 4e-3,
    "muon_learning_rate": 2e-2,
    "adam_beta1": 0.9,
    "adam_beta2": 0.98,
    "lr_scheduler_type": "warmup_stable_decay",
    "lr_scheduler_kwargs": {"num_decay_steps": 22, "decay_type": "linear", "min_lr_ratio": 0.01},
    "warmup_steps": 4,
    "bf16": False,
    "logging_steps": 10,
}
VERDICT = re.compile(r'(?<="previous_step_success": )(true|false)')


def sharegpt(folder: Path, lessons) -> Path:
    """Write conversations and their replies as the corpora do."""
    rows = []
    for i, lesson in enumerate(lessons):
        messages, images = messages_of(lesson)
        names = [f"{i}-{j}.png" for j in range(len(images))]
        for name, image in zip(names, images, strict=True):
            (folder / name).write_bytes(image.png())
        rows.append({"messages": messages, "images": names, "seed": i})
    path = folder / "rows.json"
    path.write_text(json.dumps(rows))
    return path


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """Plans of four scenes: two under one instruction, so that only the picture tells them apart."""
    rows = list(plan_rows(range(8)))[:4]
    rows[1] = replace(rows[1], instruction=rows[0].instruction)
    path = sharegpt(tmp_path_factory.mktemp("plans"), [plan_lesson(r) for r in rows])
    return path, [task_of(r) for r in rows], [r.plan for r in rows]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """Three sub-goals with a right and a wrong candidate each."""
    rows = list(islice(verdict_rows(range(8)), 6))
    path = sharegpt(tmp_path_factory.mktemp("verdicts"), [verdict_lesson(r) for r in rows])
    return path, [candidate_of(r) for r in rows], [r.verdict for r in rows]


@pytest.fixture(scope="module")
def nano(verdicts, tmp_path_factory):
    """(the folder of a model that was never trained, the model, its tokenizer, its rows). Read only."""
    path, rows, shape = tmp_path_factory.mktemp("nano"), read_rows([verdicts[0]]), config(verdicts[0]).nano
    tokenizer = build_tokenizer(rows, shape.vocabulary)
    build_processor(tokenizer, shape.side).save_pretrained(path)
    model = build_model(tokenizer, shape, 0)
    model.save_pretrained(path)
    return path, model, tokenizer, rows


def test_a_nano_model_round_trips_and_answers_and_every_constant_passage_is_one_token(nano, verdicts):
    folder, model, tokenizer, rows = nano
    assert (folder / "model.safetensors").is_file()
    again = AutoModelForImageTextToText.from_pretrained(folder).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in model.state_dict().items())
    processor = AutoProcessor.from_pretrained(folder)
    for row in rows:
        for message in row["messages"]:
            ids = processor.tokenizer(message["content"], add_special_tokens=False)["input_ids"]
            assert ids == tokenizer(message["content"], add_special_tokens=False)["input_ids"]
            assert processor.tokenizer.decode(ids) == message["content"]
    chat = HfChat.load(folder, device="cpu", max_new_tokens=8)
    asked = [question(c, mode="strict").conversation for c in verdicts[1][:2]]
    assert all(isinstance(reply, str | NoReply) for reply in chat.complete(asked))
    system = rows[0]["messages"][0]["content"]
    assert len(system) > 1000
    for passage in (*prompt_passages(), system):
        assert len(tokenizer(passage, add_special_tokens=False)["input_ids"]) == 1, passage


def test_only_the_reply_is_learned_and_the_verdict_weighs_more(nano):
    folder, _, tokenizer, rows = nano
    processor = AutoProcessor.from_pretrained(folder)
    batch = WeighedCollator(processor, phrase_weights={VERDICT: 10})(rows)
    for row, ids, labels, weights in zip(
        rows, batch["input_ids"], batch["labels"], batch["weights"], strict=True
    ):
        learned = labels != IGNORED
        assert tokenizer.decode(ids[learned]) == row["messages"][-1]["content"] + "<|im_end|>"
        heavy = tokenizer.decode(ids[weights == 10])
        assert ("true" in heavy) != ("false" in heavy)
        assert set(weights[learned].tolist()) == {1.0, 10.0}
        assert not weights[~learned].any()
        named = WeighedCollator(processor, phrase_weights={re.compile(r" st\w+"): 3})([row])
        assert " stays" in tokenizer.decode(named["input_ids"][named["weights"] == 3])
        assert named["weights"].sum() > (named["weights"] > 0).sum()
    with pytest.raises(ValueError, match="tokens, but max_length is 20"):
        Collator(processor, max_length=20)(rows)


def test_a_long_row_is_cut_or_left_out_as_the_settings_say(nano, caplog):
    rows, processor = nano[-1], AutoProcessor.from_pretrained(nano[0])
    counts = [Collator(processor).tokens(row) for row in rows]
    longest = max(map(sum, counts))

    def chosen(long_rows, max_length):
        collator = Collator(processor, max_length, cut=long_rows == "cut")
        return short_enough(rows, collator, long_rows), collator

    assert chosen("refuse", 20)[0] == rows
    assert chosen("drop", longest)[0] == rows
    assert chosen("drop", longest - 1)[0] == [
        r for r, count in zip(rows, counts, strict=True) if sum(count) < longest
    ]
    assert "left out" in caplog.text
    left, collator = chosen("cut", longest - 1)
    assert left == rows
    batch = collator(left)
    assert int(batch["attention_mask"].sum(1).max()) == longest - 1
    assert ((batch["labels"] != IGNORED).sum(1) > 0).all()
    with pytest.raises(InputError, match="every row is longer than max_length, 20 tokens"):
        chosen("cut", 20)


def config(corpus: Path, **changes: object) -> NanoAgentConfig:
    """A nano model made from scratch; another where `changes` name one."""
    settings = {"role": "critic", "corpus": (corpus,), "max_steps": 1, "per_device_train_batch_size": 2}
    own = {"bf16": False} if "model" in changes else FAST
    return NanoAgentConfig(**settings | own | changes)


@pytest.mark.lab
def test_a_planner_learns_its_rows_exactly(tmp_path, plans):
    corpus, tasks, wanted = plans
    train(config(corpus, role="planner", max_steps=45, per_device_train_batch_size=4), tmp_path / "planner")
    planner = ChatPlanner(HfChat.load(tmp_path / "planner", device="cpu", max_new_tokens=600), replies=1)
    assert tasks[0].instruction == tasks[1].instruction
    assert wanted[0] != wanted[1]
    made = planner.plan(tasks)
    assert all(plan.reasoning for plan in made)
    assert [plan.model_copy(update={"reasoning": ""}) for plan in made] == wanted
    card = (tmp_path / "planner/README.md").read_text()
    assert yaml.safe_load(card.split("---")[1])["pipeline_tag"] == "image-text-to-text"
    assert "| seed | 0 |" in card
    assert "sha256" in card
    assert list((tmp_path / "planner/logs").glob("events.*"))


@pytest.mark.lab
def test_a_critic_learns_its_rows_exactly(tmp_path, verdicts):
    corpus, candidates, wanted = verdicts
    settings = {"validation": (corpus,), "max_steps": 45, "per_device_train_batch_size": 6}
    settings |= {"phrase_weights": {VERDICT: 10}, "save_dtype": "float16"}
    train(config(corpus, **settings), tmp_path / "critic")
    critic = ChatCritic(HfChat.load(tmp_path / "critic", device="cpu", max_new_tokens=600), replies=1)
    assert {v.success for v in wanted} == {True, False}
    assert [v.model_copy(update={"probability": None}) for v in critic.judge(candidates)] == wanted
    assert {t.dtype for t in load_file(tmp_path / "critic/model.safetensors").values()} == {torch.float16}
    assert "eval_mean_token_accuracy | 1 |" in (tmp_path / "critic/README.md").read_text()


@pytest.mark.lab
def test_the_weight_of_the_verdict_reaches_the_loss(tmp_path, verdicts):
    losses = []
    for weight in (1, 10):
        out = tmp_path / str(weight)
        train(config(verdicts[0], per_device_train_batch_size=6, phrase_weights={VERDICT: weight}), out)
        losses.append(float(re.search(r"train_loss \| ([\d.]+)", (out / "README.md").read_text()).group(1)))
    assert losses[1] > 1.01 * losses[0]


def test_a_stopped_run_resumes_to_the_same_weights(tmp_path, verdicts):
    """Ctrl-C comes as soon as it has saved."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    settings = {"role": "critic", "corpus": [str(verdicts[0])], "max_steps": 4, "save_steps": 2}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(settings | FAST | {"per_device_train_batch_size": 2}))
    given = read_config(str(path), NanoAgentConfig)
    train(given, tmp_path / "whole", False)
    arguments = ["critic", "--config", str(path), "--out", str(tmp_path / "stopped")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainerCallback, "on_save", interrupt)
        assert CliRunner().invoke(app, arguments).exit_code == 130
    assert last_checkpoint(tmp_path / "stopped/checkpoints").endswith("checkpoint-2")
    assert not (tmp_path / "stopped/model.safetensors").exists()
    assert "is not empty" in one_line(arguments)
    # What a kill while a checkpoint is written leaves behind.
    (tmp_path / "stopped/checkpoints/checkpoint-15").mkdir()
    (tmp_path / "stopped/checkpoints/checkpoint-15/trainer_state.json").write_text('{"global_step": 1')
    train(given, tmp_path / "stopped", True)
    whole, resumed = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "stopped"))
    for name, value in whole.items():
        torch.testing.assert_close(resumed[name], value, rtol=0, atol=1e-6, msg=name)


def test_what_is_frozen_stays_and_adapters_go_where_they_should(nano, verdicts):
    given = config(verdicts[0], model=str(nano[0]), freeze_vision_tower=True, freeze_projector=True)
    model, _ = load(nano[0], given)
    frozen = freeze(model, given)
    assert frozen == {n for n, _ in model.named_parameters() if n.startswith("model.visual.")}
    assert {n for n, p in model.named_parameters() if not p.requires_grad} == frozen
    projector = freeze(model, given.model_copy(update={"freeze_vision_tower": False}))
    assert {n.split(".")[2] for n in projector} == {"merger", "deepstack_merger_list"}
    tower = freeze(model, given.model_copy(update={"freeze_projector": False}))
    assert not tower & projector
    assert tower | projector == frozen
    targets = adapters(model, given, frozen).target_modules
    assert "language_model" in targets
    assert "visual" not in targets


@pytest.mark.lab
def test_lora_trains_adapters_alone_and_saves_a_plain_checkpoint(nano, tmp_path, verdicts):
    settings = {
        "method": "lora",
        "lora": {"rank": 4, "alpha": 8},
        "freeze_vision_tower": True,
        "max_steps": 2,
    }
    settings |= {"model": str(nano[0]), "learning_rate": 1e-2, "bf16": True}
    train(config(verdicts[0], **settings), tmp_path / "lora", False)
    before, after = (load_file(path / "model.safetensors") for path in (nano[0], tmp_path / "lora"))
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert any("q_proj" in name for name in changed)
    assert all("_proj" in n for n in changed if "visual" not in n)
    assert {n.split(".")[2] for n in changed if "visual" in n} <= {"merger", "deepstack_merger_list"}
    HfChat.load(tmp_path / "lora", device="cpu")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"learning_rate": -1}, "learning_rate: Input should be greater than 0"),
        ({"num_train_epochs": 1}, "give either max_steps or num_train_epochs"),
        ({"lr_scheduler_type": "warmup_stable_decay"}, "needs lr_scheduler_kwargs"),
        ({"larning_rate": 1}, "larning_rate: no such setting, of goalreel or of TRL's SFTConfig"),
        ({"phrase_weights": {"(": 2}}, "phrase_weights.(.[key]: Input should be a valid regular expression"),
        ({"role": "planner"}, "trains a planner, not a critic"),
        ({"corpus": ["nowhere.json"]}, "nowhere.json: not a readable ShareGPT file"),
        ({"corpus": []}, "no rows to train on"),
        ({"model": "no/where/at/all"}, "cannot load no/where/at/all"),
    ],
)
def test_a_bad_config_is_one_clear_line(tmp_path, verdicts, change, said):
    path = tmp_path / "bad.yaml"
    settings = {"role": "critic", "model": "nano", "nano": SHAPE, "max_steps": 1}
    path.write_text(yaml.safe_dump(settings | {"corpus": [str(verdicts[0])]} | change))
    assert said in one_line(["critic", "--config", str(path), "--out", str(tmp_path / "out")])


@pytest.mark.parametrize(
    "words", [["--config", "nano-planner"], ["--config", "planner-8b", "--model", "nano"]]
)
def test_nano_models_say_what_trains_them(monkeypatch, tmp_path, words):
    monkeypatch.setattr("goalreel.training.config.extension", lambda name: None)
    result = CliRunner().invoke(app, ["planner", "--out", str(tmp_path / "out"), *words])
    assert result.exit_code == 1
    assert "goalreel-lab: " in result.stderr
    assert "install" in result.stderr


def test_training_goes_on_from_a_shipped_model(tmp_path, verdicts):
    shipped = Path(located("nano-critic"))
    if not shipped.is_dir():
        pytest.skip("goalreel-nano is not installed")
    settings = {"per_device_train_batch_size": 1, "learning_rate": 1e-9, "save_dtype": "float16"}
    train(config(verdicts[0], model="nano-critic", **settings), tmp_path / "on", False)
    before, after = (load_file(f / "model.safetensors") for f in (shipped, tmp_path / "on"))
    for name in before:
        torch.testing.assert_close(after[name], before[name], atol=1e-3, rtol=0, msg=name)
    card = (tmp_path / "on" / "README.md").read_text()
    assert "base_model" not in card
    assert "# goalreel nano critic" in card
    assert "| went on from | goalreel_nano/critic/model.safetensors, " in card


def test_no_config_and_no_run_are_one_clear_line(tmp_path, verdicts):
    out = ["--out", str(tmp_path / "out")]
    assert f"one of {', '.join(presets())}" in one_line(["critic", "--config", "nothing", *out])
    corpus = ["--corpus", str(verdicts[0])]
    resume = ["critic", "--config", "nano-critic", "--resume", *corpus, *out]
    assert "no run to resume" in one_line(resume)
    (tmp_path / "out").mkdir()
    for damage, says in {"model: [": "line 1: no YAML", "other: nano": "not the settings"}.items():
        (tmp_path / "out" / "training.yaml").write_text(damage)
        assert f"training.yaml: {says}" in one_line(resume)


def test_the_presets_are_valid_and_the_8b_ones_freeze_as_published():
    assert {"critic-8b", "nano-critic", "nano-planner", "planner-8b"} <= set(presets())
    for name in [p for p in presets() if not re.search("editor|grpo|lora", p)]:
        config = read_config(name, NanoAgentConfig)
        assert config.role in name
        assert config.freeze_vision_tower == config.freeze_projector == name.endswith("8b")


def one_line(arguments) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1, result.output
    assert result.stderr.strip().count("\n") == 0, result.stderr
    return result.stderr


def test_training_asks_for_rows_of_one_length_together(tmp_path, verdicts, monkeypatch):
    asked = []

    class Told(LengthSampler):
        def __iter__(self):
            asked.append((len(self), self._size))
            return super().__iter__()

    monkeypatch.setattr("goalreel.training.sft.LengthSampler", Told)
    train(config(verdicts[0], gradient_accumulation_steps=2), tmp_path, False)
    assert set(asked) == {(len(read_rows([verdicts[0]])), 4)}


def test_muon_takes_the_matrices_and_adamw_the_rest(nano):
    model = nano[1]
    rates = {"lr": 1e-3, "betas": (0.9, 0.98), "weight_decay": 0.0, "muon_lr": 1e-2, "muon_weight_decay": 0.0}
    adamw, muon = MuonAdamW(model.named_parameters(), **rates).param_groups
    assert (adamw["lr"], muon["lr"]) == (1e-3, 1e-2)
    assert len(adamw["params"]) + len(muon["params"]) == len(list(model.parameters()))
    assert all(p.ndim == 2 for p in muon["params"])
    assert any(p is model.get_input_embeddings().weight for p in adamw["params"])


def test_patches_are_embedded_as_the_convolution_does(nano, verdicts):
    plain = AutoModelForImageTextToText.from_pretrained(nano[0]).model.visual.patch_embed
    given = config(verdicts[0], model=str(nano[0]))
    fast = load(nano[0], given)[0].model.visual.patch_embed
    assert type(fast.proj) is not type(plain.proj)
    patches = torch.randn(6, plain.proj.weight[0].numel())
    torch.testing.assert_close(fast(patches), plain(patches))
