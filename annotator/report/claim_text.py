"""Who made what a step claims, and who checked it, in words for a reader."""

from goalreel.claims import NOBODY, OPERATOR, PERSON, RECORDING, ROWS, RULE, TITLES, Claim, Claims
from goalreel.models.names import ModelName

_MODEL = "model "
_MAKERS = {
    RULE: "by a rule",
    ROWS: "from the dataset’s labels",
    RECORDING: "from the recording",
    PERSON: "by a person",
    OPERATOR: "by the operator",
}
_CHECKERS = {PERSON: "a person", OPERATOR: "the operator"}


def short_name(model: str) -> str:
    """The name of a model without its kind, folder, address and options.

    >>> short_name("hf:/models/some-planner?dtype=float32"), short_name("server:http://node7:8000")
    ('some-planner', 'server')
    """
    return ModelName.parse(ModelName.parse(model).identity()).brief() or model


def display_name(model: str) -> str:
    """The short name of a model whose name may have a note in brackets behind it.

    >>> display_name("hf:models/planner (its own prompt)")
    'planner'
    """
    return short_name(model.partition(" (")[0])


def claim_line(claim: Claim) -> str:
    """Maker and checker of one claim, and whether it is in doubt.

    >>> claim_line(Claim(by="rule")), claim_line(Claim(by="model hf:a/b?top_p=1", checked="person"))
    ('by a rule, not checked', 'by b, checked by a person')
    """
    maker = _MAKERS.get(claim.by) or f"by {_who(claim.by)}"
    checker = _CHECKERS.get(claim.checked) or _who(claim.checked)
    check = "not checked" if claim.checked == NOBODY else f"checked by {checker}"
    return f"{maker}, {check}{claim.doubt_note}"


def claim_lines(claims: Claims) -> list[str]:
    """The claims of a step; those of one maker and one checker, in doubt or not, share a line."""
    titles: dict[str, list[str]] = {}
    for name, claim in claims.items():
        titles.setdefault(claim_line(claim), []).append(TITLES[name])
    return [f"{', '.join(names).capitalize()}: {line}" for line, names in titles.items()]


def _who(name: str) -> str:
    return short_name(name.removeprefix(_MODEL)) if name.startswith(_MODEL) else name
