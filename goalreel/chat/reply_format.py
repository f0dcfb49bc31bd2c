"""Write replies in the agents' own format, which `parsing` reads: an agent is trained on these texts."""

import json
from collections.abc import Mapping

from goalreel.types import Plan, Verdict


def plan_reply(plan: Plan, thinking: str, first: int = 1) -> str:
    """A Planner's reply, its steps counted from `first`; `parse_plan` reads them back, without segments."""
    steps = [
        {
            "step_number": number,
            "step_name": step.name,
            "instruction": step.instruction,
            "prompt": step.prompt,
            "auxiliary_text": step.auxiliary_text,
        }
        for number, step in enumerate(plan.steps, first)
    ]
    return _reply(thinking, {"execution_plan": steps})


def verdict_reply(verdict: Verdict) -> str:
    """A Critic's reply without scores; `parse_verdict` reads it back."""
    answer = {"previous_step_success": verdict.success, "refine_prompt": verdict.refined_prompt}
    return _reply(verdict.reasoning, answer)


def _reply(thinking: str, answer: Mapping[str, object]) -> str:
    return f"<think>{thinking}</think>\n<answer>{json.dumps(answer, ensure_ascii=False)}</answer>"
