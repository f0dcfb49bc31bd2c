"""The Planner that derives a plan from a recorded episode, by rules over motion and words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from goalreel.planners.kinematic import description, evidence, robot, scene, signals, steps as cuts
from goalreel.planners.kinematic.clauses import Clause, read, split_handovers, split_return, whole
from goalreel.planners.kinematic.contacts import FailedGrasp, find_any_contacts, find_contacts, sort_grasps
from goalreel.planners.kinematic.layout import Layout, Unsegmentable, check_recording
from goalreel.planners.kinematic.motion import ArmMotion, read_arms, read_motion
from goalreel.planners.kinematic.steps import ClauseSpan
from goalreel.planners.recorded import read_each
from goalreel.terms import Granularity as Granularity
from goalreel.types import Failure, MotionPhase, Plan, Recording, Recordings, Segment, Step, Task


@dataclass(frozen=True, eq=False, repr=False)
class KinematicPlanner:
    """Cuts recorded episodes at grasps, releases and pauses, and names the pieces from the instruction.

    It reads the instruction, `observation.state` and `action`, never an annotation. It reads pictures only of
    `camera`, and only where the instruction asks for a push, or a touch that the motion does not show, or the
    hand's state is not recorded. The segments of a plan, one for each step, cover the episode without a gap.
    The `auxiliary_text` of a step says which of two hands does it. `task.id` names the recording.
    """

    recordings: Recordings
    """The episodes by id; read in several threads."""
    granularity: Granularity = "event"
    layout: Layout | None = None
    """Which numbers are the gripper and the position; None finds them."""
    camera: str | None = None
    """One that stands still; None reads no pictures."""
    with_phases: bool = False
    """Also fill `Plan.phases`. Where the words are in doubt, they say what the hand does in any case."""
    last_retreat: bool = False
    """Cut events at the last release too, before the retreat."""
    steps: Mapping[str, Sequence[str]] | None = None
    """Instruction -> the steps that are read in its place."""

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        """Answer i is the plan of recording `tasks[i].id`, or the reason why there is none."""
        return read_each(self.recordings, tasks, self._plan)

    def _plan(self, task: Task, recording: Recording) -> Plan:
        check_recording(recording)
        instruction = task.instruction
        text = " ".join(instruction.split())
        request, _ = split_return(", then ".join((self.steps or {}).get(text, (instruction,))))
        layout = robot.find_layout(recording, self.layout)
        request, passings = split_handovers(request) if layout.other else (request, [])
        clauses = read(request)
        if not clauses:
            raise Unsegmentable("the instruction holds no words: give the episode a task")
        motion = scene.time_hand(read_arms(recording, layout), recording, self.camera)
        hand = find_contacts(clauses, recording, motion, self.camera)
        idle = hand.explained and not hand.grasps and not _may_grasp(clauses, recording, layout)
        gripper = list(evidence.gripper_warnings(motion, layout, idle))
        gripper += evidence.handover_warnings(passings, hand.grasps, motion)
        warnings = evidence.word_warnings(clauses, hand, motion, gripper)
        warnings += evidence.direction_warnings(clauses, hand.contacts or (), motion)
        late = list(evidence.late_warnings(clauses, hand, motion))
        is_read = all(clause.understood for clause in clauses)
        clauses = clauses if is_read else [whole(instruction)]
        if not is_read or (len(clauses) == 1 and clauses[0].kind != "act" and not hand.grasps):
            hand = find_any_contacts(clauses[0], motion)
        parts = cuts.align_contacts(clauses, hand, motion)
        if self.granularity == "event":
            parts = cuts.after_try(parts[0], hand.earlier) if hand.earlier else cuts.cut_at_release(parts)
        warnings += evidence.place_warnings(parts, motion)
        acts = [passing.clause for passing in passings]
        pieces = [piece for part in parts for piece in self._cut(part, hand.failed_grasps, motion)]
        pieces = cuts.cut_handovers(pieces, motion, acts)
        if self.last_retreat and self.granularity == "event":
            pieces += cuts.leave_and_retreat(pieces.pop())
        phases: list[MotionPhase] = []
        if warnings or late:
            phases = [] if gripper else description.hand_phases(motion)
        elif self.with_phases:
            spans = [p for part in parts for p in cuts.cut_phases(part, hand.failed_grasps, motion)]
            spans = cuts.cut_handovers(spans, motion, acts)
            phases = [
                MotionPhase(name=s.clause.name, segment=Segment(start=s.start, end=s.end)) for s in spans
            ]
        return Plan(
            steps=tuple(
                Step(
                    name=p.clause.name,
                    instruction=p.clause.state,
                    prompt=p.clause.prompt,
                    auxiliary_text=_note(p, motion.sides),
                    outcome=p.outcome,
                    doubts=(*warnings, *(why for start, why in late if p.end > start), *p.warnings),
                )
                for p in pieces
            ),
            segments=tuple(
                Segment(start=piece.start, end=piece.end, goal=goal)
                for piece, goal in zip(pieces, cuts.goal_frames(pieces, motion), strict=True)
            ),
            phases=tuple(phases),
        )

    def _cut(self, part: ClauseSpan, failed: Sequence[FailedGrasp], motion: ArmMotion) -> list[ClauseSpan]:
        if self.granularity == "subtask":
            return cuts.split_pick(part, motion)
        cut = cuts.cut_events if self.granularity == "event" else cuts.cut_phases
        return cut(part, failed, motion)


def _may_grasp(clauses: Sequence[Clause], recording: Recording, layout: Layout) -> bool:
    """Tell whether the motion shows a grasp, whichever end of the gripper is closed."""
    ends = [layout.closed] if layout.closed else ["low", "high"]
    layouts = [hand.model_copy(update={"closed": end}) for hand in layout.hands for end in ends]
    return any(sort_grasps(clauses, read_motion(recording, hand))[0] for hand in layouts)


def _note(piece: ClauseSpan, sides: Mapping[signals.Cycle, str]) -> str | None:
    """Say which hand does a step, where the robot has two."""
    hands = dict.fromkeys(sides[cycle] for cycle in piece.cycles if cycle in sides)
    return f"with the {' and the '.join(hands)} hand" if hands else None
