"""An atheris target: whatever a model replies, a Plan, a Verdict or a Failure comes out, and goes to JSON.

    mkdir -p out/fuzz && python tests/support/fuzz_parsing.py out/fuzz tests/data/replies -atheris_runs=20000

The first folder receives what it finds; the others are seeds. Bytes that are no UTF-8 become surrogates.
"""

import sys

import atheris

with atheris.instrument_imports(include=["goalreel.chat"]):
    from goalreel.chat.ask import Question, ask
    from goalreel.chat.conversation import Chat, TokenReply
    from goalreel.chat.plan import parse_plan, plan_schema
    from goalreel.chat.verdict import parse_verdict
    from goalreel.types import Failure, Plan, Verdict


class Says(Chat):
    """Replies with one text, whatever it is asked."""

    def __init__(self, reply: str) -> None:
        self.reply = reply

    def answer(self, requests):
        return [TokenReply(self.reply)] * len(requests)


def one_input(data: bytes) -> None:
    reply = data.decode("utf-8", "surrogateescape")
    for stage, read, wanted in (("plan", parse_plan, Plan), ("judge", parse_verdict, Verdict)):
        question = Question((), read, "in full.")
        (result,) = ask(Says(reply), [question], stage=stage, replies=1, schema=plan_schema())
        assert isinstance(result, wanted | Failure), result
        assert type(result).model_validate_json(result.model_dump_json()) == result
        if isinstance(result, Failure):
            assert result.reply is not None
        elif isinstance(result, Verdict) and result.success and "\\u" not in reply:
            assert any(word in reply.casefold() for word in ("true", "yes")), "accepted out of nothing"


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
