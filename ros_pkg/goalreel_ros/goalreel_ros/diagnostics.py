# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""The content of /diagnostics: one status each for camera, models and task."""

from collections.abc import Mapping

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from std_msgs.msg import Header

from goalreel.critics.examination import Examination
from goalreel.streaming.board import BoardProgress
from goalreel.streaming.engine import Engine
from goalreel.streaming.request import excerpt

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR

type Diagnosis = tuple[bytes, str, Mapping[str, object]]


def diagnose(
    node: str, at: Header, camera: Diagnosis, engine: Engine, refusal: str, rivals: str
) -> DiagnosticArray:
    """Make the status of camera, models and task of the node of that full name.

    `refusal` is why the last instruction was refused, or empty; `rivals` says that other nodes have its name.
    """
    progress = engine.progress()
    of_models = models(engine, progress.board.degraded)
    of_task = task(progress, refusal, engine.cue_state, engine.examination)
    if rivals:
        level, text, values = of_task
        of_task = WARN, f"{rivals}; {text}" if level == WARN else rivals, values
    statuses = {"camera": camera, "models": of_models, "task": of_task}
    return DiagnosticArray(
        header=at,
        status=[
            DiagnosticStatus(
                level=level,
                name=f"{node}: {name}",  # an aggregator merges statuses of one name
                message=text,
                hardware_id=node,
                values=[KeyValue(key=k, value=str(v)) for k, v in values.items()],
            )
            for name, (level, text, values) in statuses.items()
        ],
    )


def models(engine: Engine, degraded: str) -> Diagnosis:
    """Diagnose the models: whether they are loaded, which one is being loaded, or why one cannot be.

    `degraded` says which of them failed in the present task.
    """
    loading, reason = engine.loading
    values = {"state": loading, "waiting for": "; ".join(engine.waits)}
    if loading == "failed":
        return ERROR, f"cannot be loaded: {reason}", values
    if engine.probes is not None:
        if problem := engine.probes.describe():
            return ERROR, problem, values
        degraded = degraded or "; ".join(engine.probes.remarks)
    return (WARN, degraded, values) if degraded else (OK, reason or loading, values)


def task(
    progress: BoardProgress, refusal: str, cue: str = "", examination: Examination | None = None
) -> Diagnosis:
    """Diagnose the task under way, and the last refused instruction; `cue` is of labelled episodes."""
    board = progress.board
    values = {
        "state": board.state,
        "task": excerpt(board.task),
        "steps": len(board.steps),
        "not accepted": board.unaccepted,
        "in doubt": board.doubted,
        "not mentioned": ", ".join(board.missing),
        "examination": examination.line if examination else "none",
        "completion": f"{progress.task_completion:.2f}",
        "re-plans": progress.replans,
        "message": progress.message,
        "labelled episodes": cue,
        "refused instruction": refusal,
    }
    if verified := sum(map(board.is_verified, board.steps)):
        values["verified"] = verified
    if board.state in ("failed", "unconfirmed"):
        return WARN, progress.message or board.state, values
    if board.degraded:
        return WARN, board.degraded, values
    if refusal:
        return WARN, f"instruction refused: {refusal}", values
    return OK, progress.message or board.state, values
