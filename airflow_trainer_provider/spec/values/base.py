"""What all parts of a spec share: they are frozen, and an unknown field is an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field
from pydantic_core import PydanticCustomError

from airflow_trainer_provider.errors import Problem
from airflow_trainer_provider.spec.values.limits import MOST_INT32, MOST_REPLICAS

#: The type of a pydantic error that carries problems of our own.
RULE = "rule"
#: Stands for the value that is being validated.
GIVEN = object()


class SpecModel(BaseModel):
    """Base of the parts of a spec."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


_Model = TypeVar("_Model", bound=SpecModel)


def laid_over(base: _Model | None, over: _Model | None) -> _Model | None:
    """A part of a spec with another one laid over it, field by field; mappings key by key.

    :param base: of the wider scope.
    :param over: of the narrower one. What it gives wins; a list replaces a list.
    """
    if base is None or over is None:
        return base if over is None else over
    changes: dict[str, Any] = {}
    for name in over.model_fields_set:
        value, below = getattr(over, name), getattr(base, name)
        if isinstance(value, SpecModel) and isinstance(below, SpecModel):
            changes[name] = laid_over(below, value)
        elif isinstance(value, Mapping) and isinstance(below, Mapping):
            changes[name] = {**below, **value}
        else:
            changes[name] = value
    return base.model_copy(update=changes)


def wrong(allowed: str, fix: str, field: str = "", value: Any = GIVEN) -> PydanticCustomError:
    """An error of a rule of our own.

    :param allowed: what would have been accepted.
    :param fix: what to do instead.
    :param field: the field below the one being validated, e.g. ``min_nodes`` or ``[0]``; empty for that one itself.
    :param value: what the error shows as the given value; :data:`GIVEN` shows the value being validated.
    """
    return all_wrong([Problem(field, value, allowed, fix)])


def all_wrong(problems: Sequence[Problem]) -> PydanticCustomError:
    """Several errors of a value.

    :param problems: at least one; each names the field below the one being validated, as in :func:`wrong`.
    """
    return PydanticCustomError(RULE, "a rule of the spec", {"problems": tuple(problems)})


def name_or_mapping(model: type[SpecModel]) -> Discriminator:
    """Distinguish a name, tagged ``(name)``, from a mapping with more than the name, tagged ``(mapping)``.

    :param model: what the mapping is validated as.
    """
    return Discriminator(lambda value: "(mapping)" if isinstance(value, (Mapping, model)) else "(name)")


def _not_bool(allowed: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        # bool is an int to Python: `num_nodes=True` would mean one node.
        if isinstance(value, bool):
            raise wrong(allowed, "Write the number itself.")
        return value

    return BeforeValidator(check)


#: A finite number. Text that is one ("0.5", as Jinja renders it) is taken too.
Number = Annotated[float, Field(allow_inf_nan=False), _not_bool("a number")]
#: A whole number; text as above.
Whole = Annotated[int, _not_bool("a whole number")]
#: A whole number of at least 1 replica, or of what a replica has several of.
Count = Annotated[Whole, Field(ge=1, le=MOST_REPLICAS)]
#: A time in seconds that is longer than none.
Seconds = Annotated[Number, Field(gt=0, le=MOST_INT32)]
