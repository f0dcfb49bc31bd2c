"""The plan of a build of OUT: its sources, its settings, and what each file is made from."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from goalreel.datasets.labels import has_sub_tasks, subtask_labels
from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing import files, layout, video
from goalreel.datasets.writing.goals import Goals, read_goals, task_indices
from goalreel.errors import DatasetError
from goalreel.files import digest
from goalreel.settings import Settings
from goalreel.subgoal_camera import LIVE_FORMS, SubGoalForm

_CAMERA_KEY = re.compile(r"observation\.images\.[A-Za-z0-9_-]+")
FORMAT = "8"
"""Counts up when the same records give other bytes (another encoder setting): an older OUT is built anew."""
FORM = "goalreel.subgoal_form"
"""Key of a sub-goal camera's `info` with the form of its pictures."""


class TextOptions(Settings):
    """Which words and numbers a build writes beside the picture of the goal."""

    language: bool = True
    """Write the language columns. Without, OUT has none, not even those of IN: plain loaders fail on them."""
    replace_rows: bool = False
    """Write our rows of the steps in the place of those that an episode of IN has."""
    task_aug: bool = False
    """Add `task_aug` rows: the instruction in other words (`goalreel.planners.kinematic.paraphrases`)."""
    task_per_frame: bool = False
    """Let `task_index` tell each frame's sub-task: openpi and GR00T read no other words."""


@dataclass(frozen=True)
class BuildPlan:
    """The plan of a build of OUT: the dataset IN, the records, and all else that is known before writing."""

    source: Source
    out: Path
    records: Records
    key: str
    """The sub-goal camera."""
    camera: str
    """The camera of IN that gives its size."""
    size: tuple[int, int]
    """(width, height)."""
    goals: Mapping[int, Goals]
    """In the order of the episodes."""
    clock: Mapping[int, layout.EpisodeClock]
    text: TextOptions
    form: SubGoalForm

    @property
    def follows(self) -> bool:
        """True if the camera's picture changes with every frame."""
        return self.form in LIVE_FORMS

    @property
    def encoder(self) -> video.EncoderSettings:
        """Encoder of the camera."""
        return video.recording_encoder(self.size) if self.follows else video.goal_encoder(self.size)

    @property
    def pad_key(self) -> str:
        """The mask: `subgoal_is_pad` for `observation.images.subgoal`; True on frames without a goal picture.

        Named after lerobot's `action_is_pad`, whose suffix its processors pass on to every policy. Under
        `observation.images.` some policies (evo1, xvla, molmoact2) would take it for a picture, and as
        `{key}_padding_mask` SmolVLA's `embed_prefix` fails on the time axis that lerobot gives it.
        """
        return f"{self.key.rpartition('.')[2]}_is_pad"

    @property
    def marks(self) -> files.FileMarks:
        return files.FileMarks(self.out)

    @cached_property
    def camera_size(self) -> tuple[int, int]:
        """(width, height) of the pictures of `camera`."""
        return self.source.picture_size(self.camera, sorted(self.goals))

    @cached_property
    def inside(self) -> dict[Path, list[int]]:
        """The episodes of each data file."""
        episodes: dict[Path, list[int]] = {}
        for episode, clock in self.clock.items():
            episodes.setdefault(clock.shard, []).append(episode)
        return episodes

    @property
    def had_camera(self) -> bool:
        return self.key in self.source.features

    @property
    def task_per_frame(self) -> bool:
        """True if every frame has its sub-task as its task; kept up where an earlier pass wrote it."""
        return self.text.task_per_frame or has_sub_tasks(self.source.features)

    @property
    def emptied(self) -> list[int]:
        """The episodes whose subtask rows `text` replaces by none."""
        nameless = [e for e, goals in self.goals.items() if not goals.names]
        replaced = nameless if self.text.replace_rows and self.text.language else []
        return [e for e in replaced if subtask_labels(self.clock[e].shard).get(e)]

    @cached_property
    def tasks(self) -> dict[str, int]:
        """Text -> task index, where every frame has its sub-task's; else empty."""
        return task_indices(self.source.tasks, self.goals.values()) if self.task_per_frame else {}

    def made_from(self, *parts: object, episodes: Sequence[int]) -> str:
        """Digest of all that a file with these episodes is made from."""
        goals = {e: self.goals[e] for e in episodes if e in self.goals}
        marks = (f"{e} {goals[e].digest if e in goals else ''}" for e in episodes)
        texts = {name for g in goals.values() for name in (g.instruction, *g.names)}
        tasks = sorted((name, index) for name, index in self.tasks.items() if name in texts)
        camera = [self.key, self.camera, self.size, self.form]
        how = [FORMAT, self.records.source, *camera, tuple(dict(self.text).values()), tasks]
        return digest(json.dumps([*how, list(parts)]), *marks)

    @classmethod
    def prepare(
        cls,
        source: Source,
        out: Path,
        records: Records,
        camera: str | None,
        key: str,
        episodes: Collection[int] | None,
        use_rejected: bool,
        text: TextOptions,
        form: SubGoalForm,
    ) -> Self:
        """Read IN's clocks and the records of OUT."""
        name = source.camera(camera)
        feature = source.features.get(key)
        unusable = name == key or (feature and feature["dtype"] != "video")
        if unusable or not _CAMERA_KEY.fullmatch(key):
            raise DatasetError(
                f"{source.root}: {key!r} cannot hold the goal images: "
                "name a new camera for them, observation.images.NAME"
            )
        check_form(source, key, form)
        done = records.done(corrected=True) if episodes is None else episodes
        source.check_data(done)
        clock = layout.clocks(files.data_files(source.root), source.fps)
        chosen = sorted(episode for episode in done if episode in clock)
        lengths = {episode: each.frames for episode, each in clock.items()}
        goals = read_goals(records, chosen, lengths, use_rejected, lambda e: source.episode(e).instruction)
        size = source.picture_size(key if feature else name, chosen)
        return cls(source, out, records, key, name, size, goals, clock, text, form)


def check_form(source: Source, key: str, form: SubGoalForm) -> None:
    """Raise DatasetError where the dataset has the camera `key` already, with goals in another form."""
    info = source.features[key].get("info") if key in source.features else {FORM: form}
    existing = (info or {}).get(FORM, "plain")
    if existing != form:
        raise DatasetError(
            f"{source.root}: {key!r} shows goals in the form {existing!r}, not {form!r}: "
            f"take --subgoal-form {existing}, or another --subgoal-key"
        )
