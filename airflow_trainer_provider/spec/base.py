"""What all parts of a spec share: they are frozen, and a field nobody knows is an error."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError


class SpecModel(BaseModel):
    """Base of the parts of a spec."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def wrong(allowed: str, fix: str, field: str = "", value: Any = None) -> PydanticCustomError:
    """An error of a rule of our own.

    :param allowed: what would have been accepted.
    :param fix: what to do instead.
    :param field: the field below the one being validated; empty for that one itself.
    :param value: what to show as the given value instead of the whole input; None shows the input.
    """
    return PydanticCustomError("rule", "{allowed}", {"allowed": allowed, "fix": fix, "field": field, "value": value})


def _not_bool(allowed: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        # bool is an int to Python, so `num_nodes=True` would quietly mean one node.
        if isinstance(value, bool):
            raise wrong(allowed, "Write the number itself.")
        return value

    return BeforeValidator(check)


#: A number. Text that is one ("0.5", as Jinja renders it) is taken too.
Number = Annotated[float, _not_bool("a number")]
#: A whole number; text as above.
Whole = Annotated[int, _not_bool("a whole number")]
#: A whole number of at least 1.
Count = Annotated[Whole, Field(ge=1)]
