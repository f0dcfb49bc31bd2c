"""Models in threads of their own, so that one that hangs or dies never stops the event loop."""

import asyncio
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, overload

from goalreel.critics.examiner import Examiner
from goalreel.errors import BackendError, first_line
from goalreel.extras import absent
from goalreel.http.calls import Abort, probe
from goalreel.image import Image
from goalreel.models.model_set import Lazy, ModelSet
from goalreel.models.presets import Preset
from goalreel.streaming.board import ModelNames
from goalreel.types import (
    ROLE_OF_STAGE,
    ROLES,
    Answer,
    Candidate,
    Edit,
    Failure,
    Plan,
    ReplanContext,
    Request,
    Role,
    Stage,
    Task,
    Verdict,
    plan_rest,
    stage_of,
)

type Loading = Literal["unloaded", "loading", "ready", "failed"]

COOL_DOWN = 10.0
"""Seconds for which a task does not call a model again that could not be called."""
PICTURES_ALONE = "it looks at pictures alone: nobody compared the live frame with the words"
"""The reason why a critic of picture checks takes nothing for done."""
PATIENCE = 1.0
"""Seconds within which a retry that helps is not told: the goal would be published anew each time."""
MAX_ABANDONED = 4
"""Limit of a model's calls under way that nobody waits for. Until one ends, no other begins."""


@dataclass(eq=False)
class ModelCall:
    """A call of a model, queued or under way. Times are those of `time.monotonic()`."""

    run: Callable[[], object]
    timeout: float | None = None
    answer: Future = field(default_factory=Future)
    abort: Abort = field(default_factory=Abort)
    since: float = field(default_factory=time.monotonic)
    start: float = math.inf
    """Infinite until an earlier call of the same model has ended."""

    def make(self) -> None:
        """Make the call, in a thread of its own."""
        if self.answer.set_running_or_notify_cancel():
            try:
                result = self.abort.run(self.run)
            except BaseException as e:  # noqa: BLE001  (whoever waits gets it, whatever it is)
                self.answer.set_exception(e)
            else:
                self.answer.set_result(result)

    async def settle(self) -> None:
        """Wait until the call ends or has taken too long, counted from its start."""
        limit = None if self.timeout is None else max(0.0, self.start + self.timeout - time.monotonic())
        ended = asyncio.wrap_future(self.answer)
        await asyncio.wait([ended], timeout=limit)
        if not ended.cancel() and not ended.cancelled():
            ended.exception()  # whoever asked has it

    def describe(self, model: str) -> str:
        """Say for how long `model` has been waited for."""
        suffix = f", retry {self.abort.retries}" if self.abort.retries else ""
        if self.start == math.inf:
            suffix = ", which is busy with an earlier call"
        return f"waiting for {model} for {time.monotonic() - self.since:.0f} s{suffix}"


class ModelQueue:
    """Makes calls one after the other, in daemon threads. A call that hangs does not delay the exit.

    Of a call that nobody waits for any more, the HTTP requests are aborted and the answer is dropped; the
    next call does not wait for its end where the model is `remote`.
    """

    def __init__(self, name: str, *, remote: bool = False) -> None:
        self._name, self._remote = name, remote
        self._turn = asyncio.Lock()
        self._last: ModelCall | None = None
        self._abandoned: list[ModelCall] = []

    async def call[Result](self, run: Callable[[], Result], timeout: float | None = None) -> Result:
        """Run a function and wait for its result, as `wait_for` does."""
        return await self.wait_for(ModelCall(run, timeout))

    async def wait_for(self, call: ModelCall) -> Any:
        """Make a call and wait for its result, without blocking the event loop.

        Its time-out counts from its start. A queued call waits for the one before it, as long as that one may
        take; if the caller is cancelled, it is never made.

        Raises:
            TimeoutError: the call took too long.
            BackendError: MAX_ABANDONED calls that nobody waits for have not ended.
        """
        self._abandoned = [left for left in self._abandoned if not left.answer.done()]
        if len(self._abandoned) >= MAX_ABANDONED:
            raise BackendError(
                f"{MAX_ABANDONED} calls that took too long are still running: restart the model or its server"
            )
        async with self._turn:
            if self._last is not None and not self._remote:
                await self._last.settle()
            self._last, call.start = call, time.monotonic()
            threading.Thread(target=call.make, name=self._name, daemon=True).start()
            answer = asyncio.wrap_future(call.answer)
            try:
                if not (await asyncio.wait([answer], timeout=call.timeout))[0]:
                    raise TimeoutError
                return answer.result()
            finally:
                if not answer.done():
                    answer.cancel()
                    call.abort.request()
                    self._abandoned.append(call)


class ModelCaller:
    """Asks the models one request at a time. Every error of a model becomes a Failure."""

    def __init__(self, model_set: ModelSet) -> None:
        self.model_set = model_set
        self.timeout: float | None = None
        """Seconds that a call may take; None is no limit."""
        self.examiner: Examiner | None = None
        """Hears of plans and of pictures that were judged, if there is one."""
        remote = model_set.remote
        self.draws_early = "edit" in remote
        """The editor may begin a picture that may be dropped: no other one waits for its end."""
        self._queues: dict[Stage, ModelQueue] = {
            stage: ModelQueue(f"goalreel-{stage}", remote=stage in remote) for stage in ROLE_OF_STAGE
        }
        # A server answers several calls at once: judging live frames need not wait for rendered pictures.
        live = ModelQueue("goalreel-live", remote=True) if "judge" in remote else self._queues["judge"]
        self._live_queue = live
        self._unavailable: dict[Stage, tuple[float, str]] = {}
        self._pending: list[tuple[Stage, ModelCall]] = []

    @overload
    async def ask(self, request: Task) -> Plan | Failure: ...
    @overload
    async def ask(self, request: Edit) -> Image | Failure: ...
    @overload
    async def ask(self, request: Candidate) -> Verdict | Failure: ...
    async def ask(self, request: Request) -> Answer:
        """Ask the model that answers this kind of request."""
        answer = await self.ask_aside(request)
        if not isinstance(request, Edit):
            await self._note(request, answer)
        return answer

    async def ask_aside(self, request: Request) -> Answer:
        """Do the same without the examiner's knowledge."""
        stage = stage_of(request)
        return await self._call(stage, partial(self.model_set.ask, stage, [request]))

    async def _note(self, request: Request, answer: Answer) -> None:
        if self.examiner is not None:
            with suppress(OSError):  # of its log, which is no part of the task
                await asyncio.to_thread(self.examiner.note, request, answer)

    async def confirms(self, preset: Preset, steps: int) -> bool:
        """Tell whether the critic can judge a task of so many steps as a whole, if it can be asked at all."""
        limit = await asyncio.to_thread(self.model_set.critic_steps)
        if limit == 0:
            self._unavailable["judge"] = time.monotonic(), "its server cannot be reached"
            return True
        return preset.confirms(steps, lambda: limit)

    async def judge_live(self, candidate: Candidate) -> Verdict | Failure:
        """Ask whether a live frame shows that the sub-goal is reached.

        A yes of picture checks (`Verdict.pictures_only`) says nothing of that: it is a Failure.
        """
        critic = self.model_set.live_critic or self.model_set.critic
        answer = await self._call("judge", partial(critic.judge, [candidate]), self._live_queue)
        if isinstance(answer, Verdict) and answer.success and answer.pictures_only:
            return Failure(stage="judge", message=PICTURES_ALONE)
        return answer

    async def replan(self, progress: ReplanContext) -> Plan | Failure:
        """Ask for a plan for the remaining steps. A planner that cannot continue plans the task anew."""
        planner = self.model_set.planner
        model = planner.model if isinstance(planner, Lazy) else planner
        answer = await self._call("plan", partial(plan_rest, model, [progress]))
        if isinstance(answer, Plan):
            done = (step.step for step in progress.storyboard.steps[: progress.done])
            await self._note(progress.storyboard.task, Plan(steps=(*done, *answer.steps)))
        return answer

    def unavailable_reason(self, stage: Stage) -> str | None:
        """Say why a model cannot be called at present; None when it can."""
        since, reason = self._unavailable.get(stage, (-COOL_DOWN, ""))
        return reason if time.monotonic() - since < COOL_DOWN else None

    def retry_reason(self, stage: Stage) -> str:
        """Say why a model's call that takes longer than PATIENCE is made once more; empty where none is."""
        since = time.monotonic() - PATIENCE
        calls = (call for asked, call in self._pending if asked == stage and call.start < since)
        return next((call.abort.problem for call in calls if call.abort.problem), "")

    def forget_failures(self) -> None:
        """Call every model again, at a new order: what failed before it may have been mended."""
        self._unavailable.clear()

    def describe_waits(self, names: ModelNames, slow: float) -> list[str]:
        """Name calls of more than `slow` seconds, and models that have failed. Safe from any thread."""
        now, waits = time.monotonic(), []
        for stage, call in tuple(self._pending):
            if call.since < now - slow:
                role = ROLE_OF_STAGE[stage]
                waits.append(call.describe(f"the {role} ({getattr(names, role)})"))
        for stage, (since, _) in tuple(self._unavailable.items()):
            if (age := now - since) < COOL_DOWN:
                waits.append(
                    f"the {ROLE_OF_STAGE[stage]} "
                    f"failed {age:.0f} s ago and is not asked again for {COOL_DOWN - age:.0f} s"
                )
        return waits

    async def _call(
        self, stage: Stage, run: Callable[[], Sequence[Any]], queue: ModelQueue | None = None
    ) -> Any:
        if (reason := self.unavailable_reason(stage)) is not None:
            return Failure(stage=stage, message=reason)
        call = ModelCall(run, self.timeout)
        self._pending.append((stage, call))
        try:
            (answer,) = await (queue or self._queues[stage]).wait_for(call)
            self._unavailable.pop(stage, None)
            return answer
        except BackendError as e:
            reason = (str(e) or "the model cannot be called").splitlines()[0]
        except TimeoutError:
            tried = f"{call.abort.problem}; tried again, " if call.abort.problem else ""
            reason = f"{tried}no answer within {self.timeout:g} s"
        finally:
            self._pending.remove((stage, call))
        self._unavailable[stage] = time.monotonic(), reason
        return Failure(stage=stage, message=reason)


PAUSE_S = 0.5
"""Seconds between two probes of a server that does not answer yet."""


class Probes:
    """Probes of the models' servers, one a role. `names` are the published names of the models."""

    def __init__(self, model_set: ModelSet, names: ModelNames) -> None:
        self._model_set, self._names = model_set, names
        self.remarks: list[str] = []
        """Things to look at although a server answered."""
        self._problems: dict[Role, str] = {}

    async def run(self, timeout: float) -> None:
        """Probe all servers, for `timeout` seconds at most; raise a UserError as `Engine.probe` does."""
        late = time.monotonic() + timeout
        tasks = [asyncio.create_task(self._probe(role, timeout, late)) for role in ROLES]
        try:
            await asyncio.gather(*tasks)
        finally:  # an InputError, as of a key, ends the others too
            for task in tasks:
                task.cancel()
        if problem := self.describe():
            raise BackendError(problem)

    def describe(self) -> str:
        """Say which servers do not answer, in one line."""
        names: dict[str, list[str]] = {}
        for role in ROLES:
            if problem := self._problems.get(role):
                names.setdefault(problem, []).append(f"{role} ({getattr(self._names, role)})")
        return "; ".join(f"{', '.join(each)}: {problem}" for problem, each in names.items())

    async def _probe(self, role: Role, timeout: float, late: float) -> None:
        queue, ask = ModelQueue(f"goalreel-probe-{role}"), partial(probe, getattr(self._model_set, role))
        while True:
            try:
                remark = await queue.call(ask, max(PAUSE_S, late - time.monotonic()))
                break
            except (BackendError, TimeoutError) as e:
                self._problems[role] = str(e) or f"no answer within {timeout:g} s"
                if time.monotonic() + PAUSE_S > late:
                    return
            await asyncio.sleep(PAUSE_S)
        self._problems.pop(role, None)
        if remark:
            self.remarks.append(f"the {role}: {remark}")


def one_line(error: BaseException) -> str:
    """Give an error's message in one line; for a missing package, how to install it."""
    if isinstance(error, ModuleNotFoundError) and (message := absent(error)) is not None:
        return message
    return first_line(error)
