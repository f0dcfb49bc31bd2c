"""Settings that are checked when they are made.

A field is declared once: command lines, node parameters and documentation read its type, default, bounds and
description.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, dataclass_transform

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.config import JsonDict
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic.fields import FieldInfo

from goalreel.errors import InputError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


class Frozen(BaseModel):
    """A pydantic model whose fields cannot be assigned to, and which refuses fields it does not have."""

    model_config = ConfigDict(frozen=True, extra="forbid")


READ_ONLY: JsonDict = {"read_only": True}
"""In a field's `json_schema_extra`: it is fixed once the models are loaded."""
_CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Panel:
    """The panel of `--help` that shows a field; in the field's Annotated type."""

    title: str


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


def _message(problem: "ErrorDetails") -> str:
    unknown = problem["type"] in ("extra_forbidden", "unexpected_keyword_argument")
    return "there is no such setting" if unknown else problem["msg"].removeprefix("Value error, ")


class Settings(BaseModel):
    """A frozen pydantic model.

    Raises:
        SettingError: a field is unknown, or its value does not fit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    if not TYPE_CHECKING:  # else type checkers would not know the fields of a subclass

        def __init__(self, **values: object) -> None:
            try:
                super().__init__(**values)
            except ValidationError as e:
                raise SettingError.of(e) from None

    @classmethod
    def read(cls, values: Mapping[str, object]) -> Self:
        """Make settings from values whose types are not known.

        Raises:
            SettingError: as the class itself.
        """
        make: Any = cls
        return make(**values)


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
def settings[T](cls: type[T]) -> type[T]:
    """Make a frozen dataclass whose fields are checked as those of `Settings` are."""
    checked_class: Any = pydantic_dataclass(cls, frozen=True, config=_CONFIG)
    unchecked = checked_class.__init__

    @functools.wraps(unchecked)
    def checked(self: object, *values: object, **fields: object) -> None:
        try:
            unchecked(self, *values, **fields)
        except ValidationError as e:
            raise SettingError.of(e) from None

    checked_class.__init__ = checked
    return checked_class


def fields_of(cls: type) -> Mapping[str, FieldInfo]:
    """The fields of a class of settings by their names."""
    return vars(cls)["__pydantic_fields__"]


def panel_of(field: FieldInfo) -> str | None:
    """The panel of `--help` that shows a field; None is the first."""
    return next((mark.title for mark in field.metadata if isinstance(mark, Panel)), None)


def is_read_only(field: FieldInfo) -> bool:
    """Whether a field is fixed once the models are loaded."""
    extra: Any = field.json_schema_extra
    return isinstance(extra, dict) and extra.get("read_only") is True


def separator_of(field: FieldInfo) -> str | None:
    """What joins the values of a field that a command line may repeat; None where it may not."""
    extra: Any = field.json_schema_extra
    return extra.get("separator") if isinstance(extra, dict) else None


def bound_of(field: FieldInfo, *sides: Literal["ge", "gt", "le"]) -> float | None:
    """The first bound of a number on one of the sides; None without one."""
    bounds = (getattr(mark, side) for mark in field.metadata for side in sides if hasattr(mark, side))
    return next(bounds, None)
