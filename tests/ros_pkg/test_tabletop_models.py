"""The tabletop's exact models, through the real agents: they tell the truth in the published formats."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
pytest.importorskip("rclpy", reason="needs ROS 2: pip install 'goalreel[ros]'")

from goalreel.critics.chat import ChatCritic
from goalreel.drivers import run as run_batch
from goalreel.image import Image
from goalreel.planners.chat import ChatPlanner
from goalreel.tabletop.grammar import PARAPHRASES, order_of, read_order, read_wanted, sample_episode, state_of
from goalreel.tabletop.reach import Reacher, at_home
from goalreel.tabletop.scene import SubGoal
from goalreel.types import Candidate, Edit, Failure, Task
from goalreel_ros.tabletop.demo import page
from goalreel_ros.tabletop.exact import CriticChat, PlannerChat, SimulatorEditor, World

SEED = 3
HOLD = np.array([0, 0, 0, 0, 1.0])


@pytest.fixture
def world():
    world = World(SEED, size=256)
    yield world
    world.close()


@pytest.fixture
def live(world) -> Image:
    return world.tick(HOLD, look=True).picture


def model_set(world):
    chats = ChatPlanner(PlannerChat(world)), ChatCritic(CriticChat(world))
    return chats[0], SimulatorEditor(world), chats[1]


def task(world, image=None, instruction=None) -> Task:
    return Task(id="t", instruction=instruction or world.episode.instruction, image=image)


def edit(image, prompt) -> Edit:
    return Edit(task_id="t", step=0, attempt=0, image=image, prompt=prompt, seed=0)


def judge(world, goal, source, image):
    prompt = order_of(goal, world.names)
    (verdict,) = model_set(world)[2].judge(
        [
            Candidate(
                task_id="t", step=0, source=source, image=image, instruction=state_of(goal), prompt=prompt
            )
        ]
    )
    return verdict


def test_sentences_read_back_to_their_goals():
    for seed in range(60):
        episode = sample_episode(seed)
        names = [o.name for o in (*episode.scene.blocks, *episode.scene.bowls)]
        for goal in episode.goals:
            assert read_order(order_of(goal, names, "Leave it. "), names) == goal
            assert read_wanted(state_of(goal).upper(), names) == [goal]
        text = " and ".join(map(state_of, episode.goals))
        assert read_wanted(text, names) == list(episode.goals)


@pytest.mark.parametrize(
    ("kind", "template"), [(k, t) for k, many in PARAPHRASES.items() for t in many if "{object}" in t]
)
def test_every_wording_of_one_sub_goal_is_read(kind, template):
    target = "blue bowl" if kind in ("inside", "out_of") else "red block"
    names = ["green block", "blue bowl", "red block"]
    text = template.format(object="green block", target=target)
    assert read_wanted(f"First {text}.", names) == [SubGoal(kind, "green block", target)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("make tea", "cannot make out 'make tea'"),
        ("put the green block in the blue bowl and wave", "cannot make out"),
        ("put the pink block in the blue bowl", "there is no pink block here, but: green block, blue bowl"),
        ("put the green block on the blue bowl", "only blocks move"),
        ("put the blue bowl in the blue bowl", "only blocks move"),
    ],
)
def test_what_is_not_on_the_table_is_refused_in_one_line(text, why):
    with pytest.raises(ValueError, match=why) as refused:
        read_wanted(text, ["green block", "blue bowl"])
    assert "\n" not in str(refused.value)


def test_a_storyboard_of_the_scenes_own_instruction_is_accepted(world, live):
    (board,) = run_batch([task(world, live)], *model_set(world), max_attempts=3)
    assert [s.step.instruction for s in board.steps] == [state_of(g) for g in world.episode.goals]
    assert [len(s.attempts) for s in board.steps] == [1] * len(world.episode.goals)
    assert board.complete
    assert all(world.snapshot_of(board.steps[-1].goal_image).holds(g) for g in world.episode.goals)
    assert not any(world.now().holds(g) for g in world.episode.goals)


def test_a_wrong_picture_is_rejected_and_the_refined_order_names_what_was_moved(world, live):
    first, second = world.episode.goals[:2]
    verdict = judge(world, first, live, world.imagine(world.now(), second))
    assert not verdict.success
    assert f"The {second.object} was moved." in verdict.reasoning
    assert f"Leave the {second.object} where it is." in verdict.refined_prompt


def test_an_instruction_of_another_scene_is_a_failure_that_keeps_the_reply(world):
    (failure,) = model_set(world)[0].plan([task(world, instruction="make tea")])
    assert isinstance(failure, Failure)
    assert "cannot make out 'make tea'" in failure.reply


@pytest.mark.lab
def test_the_critic_waits_until_the_arm_is_out_of_the_way(world, live):
    goal = world.episode.goals[0]
    wanted = SimulatorEditor(world).edit([edit(live, order_of(goal, world.names))])[0]
    reached = world.snapshot_of(wanted)
    assert reached.holds(goal)
    assert not replace(reached, held_blocks=frozenset({goal.object})).holds(goal), "it is in the hand"
    motion = Reacher(world.episode.scene).motion(live, wanted)
    assert motion.block == goal.object
    verdicts = []
    for action in motion.actions:
        tick = world.tick(action, look=True)
        verdicts.append((world.now().holds(goal), judge(world, goal, live, tick.picture)))
    assert verdicts[-1][0]
    for holds, verdict in verdicts[:-4]:
        assert not verdict.success
        assert ("arm is not out of the way" in verdict.reasoning) or not holds
    for _ in range(5):
        tick = world.tick(HOLD, look=True)
    assert at_home(tick.observation)
    assert judge(world, goal, live, tick.picture).success


def test_a_page_of_the_film_shows_camera_and_goal():
    pictures = [Image(np.full((64, 64, 3), colour, np.uint8)) for colour in ((200, 30, 30), (30, 180, 60))]
    shown = page("do it", pictures[0], "words " * 12, pictures[1]).pixels
    assert all((shown == picture.pixels[0, 0]).all(2).mean() > 0.15 for picture in pictures)
