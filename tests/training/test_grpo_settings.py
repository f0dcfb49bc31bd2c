"""GRPO of a Critic: its settings, its cost, its card, and one small run."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.grpo_runs import SMALL, config, corpus, run
from typer.testing import CliRunner

from goalreel.cli.train import app
from goalreel.errors import InputError
from goalreel.extras import is_installed
from goalreel.training.config import CollapseSettings, GrpoConfig, read_config


@pytest.fixture(scope="module")
def grpo() -> ModuleType:
    """The trainer, which loads for seconds."""
    pytest.importorskip("trl", reason="needs trl: pip install 'goalreel[train]'")
    from goalreel.training import grpo

    return grpo


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
    from goalreel_lab.corpora.verdicts import critique_rows

    rows = list(critique_rows(range(400, 401), lambda sources, prompts: [None] * len(prompts)))
    return corpus(tmp_path_factory.mktemp("rl") / "rl", rows)


def arguments(grpo, name: str, out: Path) -> Any:
    """TRL's arguments of a preset, on one device without vLLM."""
    return grpo.trl_arguments(read_config(name, GrpoConfig, bf16=False), out)


def test_trap_14_the_form_of_the_reward_is_said_and_the_repository_s_is_the_default(grpo, tmp_path):
    assert read_config("critic-8b-grpo", GrpoConfig).reward.form == "repository"
    for name, rollout in (("critic-8b-grpo", (128, 8, 128, 8)), ("nano-critic-grpo", (128, 8, 2, 2))):
        told = arguments(grpo, name, tmp_path)
        passes = (told.steps_per_generation, told.gradient_accumulation_steps)
        assert (told.generation_batch_size, told.num_generations, *passes) == rollout
        assert told.scale_rewards == "batch", "trap 5: not by a group's own spread"
        assert (told.beta, told.epsilon, told.epsilon_high, told.loss_type) == (1e-3, 0.2, 0.3, "dapo")
    with pytest.raises(InputError, match="form"):
        read_config("critic-8b-grpo", GrpoConfig, reward={"form": "other"})


def test_the_published_dialect_needs_the_published_prompts(grpo, folder, monkeypatch):
    monkeypatch.delenv("GOALREEL_INTERLEAVETHINKER", raising=False)
    with pytest.raises(InputError, match="prompts of InterleaveThinker's checkpoints are needed"):
        run(config(folder, dialect="interleavethinker"), folder / "out")


@pytest.mark.skipif(is_installed("vllm"), reason="vLLM is here")
def test_vllm_that_is_not_installed_is_told_before_anything_is_written(grpo, folder):
    with pytest.raises(InputError, match=r"\Ause_vllm needs vLLM: pip install 'trl\[vllm\]', or set"):
        run(config(folder, use_vllm=True), folder / "out")
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"per_device_train_batch_size": 4}, "must be divisible by num_generations"),
        ({"prompts_per_rollout": 4}, "prompts_per_rollout: no such setting, of goalreel or of TRL's GRPO"),
        ({"gradient_accumulation_steps": 2, "steps_per_generation": 3}, "2 does not divide a rollout's 3"),
        ({"per_device_train_batch_size": 300}, "rows do not fill a rollout of 100"),
        ({"scale_rewards": "row"}, "scale_rewards: Input should be 'group', 'batch' or 'none'"),
        ({"reward": {"accuracy": 0, "step": 0}}, "both 0"),
        ({"per_device_train_batch_size": 0}, "per_device_train_batch_size: give a whole number from 1 on"),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_anything_is_written(grpo, folder, change, said):
    with pytest.raises((InputError, ValueError), match=said):
        run(config(folder, **change), folder / "out")
    assert not (folder / "out").exists()


def test_a_rollout_has_128_completions_by_default(grpo, tmp_path):
    settings = {k: v for k, v in SMALL.items() if k != "gradient_accumulation_steps"}
    settings |= {"num_generations": 8, "per_device_train_batch_size": 8}
    unsaid = grpo.trl_arguments(GrpoConfig.model_validate(settings), tmp_path)
    assert (unsaid.generation_batch_size, unsaid.gradient_accumulation_steps) == (128, 16)


def test_a_reply_that_arrives_parsed_is_put_together(grpo):
    whole = "<think>No.</think>\n<answer>{}</answer>"
    assert grpo.text_of([{"role": "assistant", "content": whole}]) == whole
    for key in grpo.THOUGHTS:
        parsed = [{"role": "assistant", "content": "<answer>{}</answer>", key: "No."}]
        assert grpo.text_of(parsed) == whole


def test_trap_7_a_run_that_says_the_same_of_every_picture_is_stopped(grpo):
    from transformers import TrainerControl, TrainerState, TrainingArguments

    def after(*rates: float) -> tuple[Any, TrainerControl]:
        guard, control = grpo._Collapse(CollapseSettings(rollouts=3), updates=1), TrainerControl()
        for step, rate in enumerate(rates, 1):
            state = TrainerState(global_step=step)
            guard.on_log(TrainingArguments(), state, control, {"critic/true_rate": rate})
        return guard, control

    guard, control = after(0.5, 1.0, 0.99, 0.98)
    assert "accepted 99 %" in guard.found
    assert control.should_training_stop
    assert control.should_save
    assert after(0.01, 0.02, 0.0)[0].found
    assert after(0.99, 0.99)[0].found is None
    assert not after(0.5, 1.0, 0.5, 1.0)[1].should_training_stop


def test_options_of_the_other_method_are_refused(grpo, tmp_path):
    def said(*words: str) -> str:
        result = CliRunner().invoke(app, ["critic", "--out", str(tmp_path / "out"), *words])
        assert result.exit_code == 1
        return result.stderr

    assert "for --method grpo" in said("--config", "nano-critic", "--editor", "nano-editor")
    assert "give --editor and --scorer" in said("--config", "critic-8b-grpo", "--method", "grpo")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/train-00000.parquet").touch()
    assert "no scorer 'odd'" in said(
        *("--config", "nano-critic-grpo", "--method", "grpo", "--scorer", "odd", "--corpus", str(tmp_path))
    )
