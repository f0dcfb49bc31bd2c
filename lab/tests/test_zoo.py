"""Writings of a robot's numbers: an episode made by hand, and combinations of the simulator's."""

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from goalreel_lab.zoo.episode import CAMERAS, EVERY, SimulatedEpisode
from goalreel_lab.zoo.writing import Writing, draw, write

N = 400
PLAIN = Writing(
    robot="Panda",
    task="lift",
    starts_closed=False,
    fps=25,
    arm="pose",
    kind="places",
    unit="radians",
    gripper="metres",
    closed="low",
    action="command",
    names="honest",
    turn="none",
    other_arm="",
    dead=False,
    cameras=(("front", "top"),),
)


def lifted(seed: int) -> SimulatedEpisode:
    """A hand that goes down, closes on a cube from frame 150 to 180, and lifts it."""
    random = np.random.default_rng(seed)
    place = np.interp(np.arange(N), [0, 20, 140, 190, 320, N], [0, 0, 1, 1, 2, 2])
    path = np.array([[0, 0, 1], [0.3, 0.2, 0.8], [0.3, 0.2, 1.0]]) + random.normal(0, 0.02, 3)
    eef = np.stack([np.interp(place, range(3), axis) for axis in path.T], axis=1)
    closing = np.clip((np.arange(N) - 150) / 30, 0, 1)
    held = np.arange(N) >= 180
    pose = np.where(held[:, None], eef, path[1])
    files = []
    for frame in range(0, N, EVERY):
        pixels = np.full((96, 96, 3), 200, np.uint8)
        for (x, _, z), size, colour in ((eef[frame], 8, 60), (pose[frame], 4, 0)):
            row, column = round(160 - 120 * z) + 2, round(20 + 150 * x)
            pixels[max(0, row - size) : row + size, column : column + size] = colour
        data = io.BytesIO()
        Image.fromarray(pixels).save(data, "JPEG")
        files.append(data.getvalue())
    return SimulatedEpisode(
        success=eef[:, 2] > 0.9,
        eef=eef,
        quaternion=np.tile([1.0, 0, 0, 0], (N, 1)),
        joints=eef @ random.normal(size=(3, 7)),
        torques=random.normal(size=(N, 7)),
        fingers=np.stack([0.04 - 0.02 * closing, 0.02 * closing - 0.04], axis=1),
        width=0.08 - 0.04 * closing,
        command=np.where(np.arange(N) < 150, -1.0, 1.0),
        target=eef + 0.01,
        touched=held,
        held=held,
        pose=pose,
        pictures=dict.fromkeys(CAMERAS, files),
    )


def columns(writing: Writing) -> dict[str, np.ndarray]:
    return {column.name: column.values for column in write(lifted(0), writing, 0).state}


def test_numbers_are_written_as_the_writing_says():
    episode, plain = lifted(0), columns(PLAIN)
    assert list(plain) == ["x", "y", "z", "gripper"]
    assert plain["z"] == pytest.approx(episode.eef[::2, 2])
    changes = columns(replace(PLAIN, kind="changes"))
    assert changes["z_delta"].sum() == pytest.approx(plain["z"][-1] - plain["z"][0])
    assert columns(replace(PLAIN, kind="velocities", names="untrue"))["z"] == pytest.approx(
        25 * changes["z_delta"]
    )
    closed_high = columns(replace(PLAIN, closed="high", gripper="ticks"))["gripper"]
    assert (closed_high[0], closed_high[-1]) == (1500, 2500)
    arms = columns(replace(PLAIN, other_arm="before", dead=True))
    assert list(arms)[:5] == ["arm2_x", "arm2_y", "arm2_z", "arm2_gripper", "arm1_x"]
    assert np.ptp(arms["arm2_x"]) < 0.01 < np.ptp(arms["arm1_x"])
    assert np.ptp(arms["status"]) == 0


def test_combinations_are_drawn_for_ever():
    drawn = [draw(seed) for seed in range(200)]
    assert len({str(writing) for writing in drawn}) == 200
    assert {writing.robot for writing in drawn} == {"Panda", "IIWA", "UR5e", "Kinova3", "Jaco"}
    assert {writing.task for writing in drawn} == {"lift", "stack", "place", "door", "press"}


@pytest.mark.process
@pytest.mark.long
def test_a_combination_is_written_annotated_and_scored(tmp_path):
    """Marked long, as it imports lerobot."""
    from goalreel_lab.zoo.run import score, write_dataset

    episodes = [lifted(seed) for seed in range(4)]
    result = score(write_dataset(tmp_path / "plain", PLAIN, episodes))
    assert (result.wrong, result.unanswerable, result.faults()) == ((), (), [])
    assert [episode.boundary for episode in result.episodes] == [(1, 1, 1)] * 4
    assert sum(episode.names for episode in result.episodes) > 0


@pytest.mark.slow
def test_two_hundred_combinations():
    """The simulated episodes are kept in the user's cache; to make them takes an hour."""
    pytest.importorskip("robosuite", reason="needs robosuite: see lab/README.md")
    from goalreel.files import cache_folder
    from goalreel_lab.zoo.run import measure

    report = measure(200, 0, cache_folder("zoo"))
    assert report.wrong == report.unanswerable == 0
    assert report.false_claims.value is not None
    assert report.false_claims.value <= 0.02
    assert report.observed_untrue.value is not None
    assert report.observed_untrue.value <= 0.02
