"""Settings that are checked when they are made.

A setting is declared once, as a field of a subclass of `Settings`:

    class Limits(Settings):
        batch_size: int = setting(16, "Requests of one model call.", ge=1, panel="The run")

Command lines (`goalreel.cli.options`), presets and `--config` files, ROS parameters and the documentation
read its type, default, bounds and description.
"""

from collections.abc import Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from pydantic import BaseModel, Field, ValidationError
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from goalreel.errors import InputError


class Frozen(BaseModel, frozen=True, extra="forbid"):
    """A pydantic model whose fields cannot be assigned to, and which refuses fields it does not have."""


def setting(
    default: Any,
    help: str,
    *,
    panel: str | None = None,
    metavar: str | None = None,
    read_only: bool = False,
    as_text: bool = False,
    json_schema_extra: JsonDict | None = None,
    **bounds: float,
) -> Any:
    """Declare a field of `Settings`.

    Args:
        default: the default value; `...` makes it required.
        help: one line of documentation.
        panel: the panel of `--help` that shows the option; None is the first.
        metavar: name of the value in `--help`.
        read_only: it is fixed once the models are loaded.
        as_text: a command line takes it as text, which a validator of the field reads.
        json_schema_extra: more marks of the field.
        bounds: pydantic's `ge`, `gt` and `le` of a number, or `min_length` of a text.
    """
    marks: JsonDict = {"panel": panel, "metavar": metavar}
    marks |= {"read_only": read_only or None, "as_text": as_text or None, **(json_schema_extra or {})}
    given = {name: value for name, value in marks.items() if value is not None}
    make: Any = Field
    return make(default, description=help, json_schema_extra=given or None, **bounds)


class SettingError(InputError):
    """A setting has a value that does not fit, or there is no such setting."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        """The first field that is wrong."""

    @classmethod
    def of(cls, error: ValidationError) -> "SettingError":
        """Put pydantic's error into one line."""
        problems = [(".".join(map(str, e["loc"])), _message(e)) for e in error.errors()]
        lines = [f"{place}: {message}" if place else message for place, message in problems]
        return cls(problems[0][0], "; ".join(lines))


def _message(problem: ErrorDetails) -> str:
    unknown = problem["type"] == "extra_forbidden"
    return "there is no such setting" if unknown else problem["msg"].removeprefix("Value error, ")


class Settings(Frozen, allow_inf_nan=False):
    """A frozen pydantic model.

    Raises:
        SettingError: a field is unknown, or its value does not fit.
    """

    if not TYPE_CHECKING:  # else type checkers would not know the fields of a subclass

        def __init__(self, **values: object) -> None:
            try:
                super().__init__(**values)
            except ValidationError as e:
                raise SettingError.of(e) from None

    @classmethod
    def read(cls, values: Mapping[str, object]) -> Self:
        """Make settings from values whose types are not known, and check them."""
        make: Any = cls
        return make(**values)

    def but(self, **changes: object) -> Self:
        """Copy with some fields changed, and check the result."""
        return self.read({**dict(self), **changes})


def mark_of(field: FieldInfo, name: Literal["panel", "metavar", "read_only", "as_text"]) -> Any:
    """Return what `setting` was given under a name; None without."""
    extra: Any = field.json_schema_extra
    return extra.get(name) if isinstance(extra, dict) else None


def is_read_only(field: FieldInfo) -> bool:
    """Return True if the field is fixed once the models are loaded."""
    return mark_of(field, "read_only") is True


def bound_of(field: FieldInfo, *sides: Literal["ge", "gt", "le"]) -> float | None:
    """Return the first bound of a number on one of the sides; None without one."""
    bounds = (getattr(mark, side) for mark in field.metadata for side in sides if hasattr(mark, side))
    return next(bounds, None)


def kind_of(field: FieldInfo) -> Any:
    """Return the field's type without None, and the Literal that a `type` alias names."""
    kinds = [kind for kind in get_args(field.annotation) if kind is not NoneType]
    kind = kinds[0] if NoneType in get_args(field.annotation) else field.annotation
    return getattr(kind, "__value__", kind)
