"""The base of all parts of a spec: they are immutable, and an unknown field is an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field
from pydantic_core import PydanticCustomError

from airflow_trainer_provider.errors import Problem
from airflow_trainer_provider.spec.values.limits import MOST_INT32, MOST_REPLICAS

#: The type of a pydantic error that carries problems found by this package's own rules.
RULE = "rule"
#: A placeholder for the value that is being validated.
GIVEN = object()


class SpecModel(BaseModel):
    """Base of the parts of a spec."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


_Model = TypeVar("_Model", bound=SpecModel)


def laid_over(base: _Model | None, over: _Model | None) -> _Model | None:
    """Merge two instances of a part of a spec, field by field, and their mappings key by key.

    :param base: the instance of the wider scope, e.g. the job's.
    :param over: the instance of the narrower scope. Its fields take precedence; its lists replace those of ``base``.
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
    """The error of one of this package's own rules.

    :param allowed: the values that are accepted.
    :param fix: what to do instead.
    :param field: the path below the validated field, e.g. ``min_nodes`` or ``[0]``; empty for the field itself.
    :param value: the value that the error shows as given; :data:`GIVEN` shows the value being validated.
    """
    return all_wrong([Problem(field, value, allowed, fix)])


def all_wrong(problems: Sequence[Problem]) -> PydanticCustomError:
    """One error with all problems of a value.

    :param problems: at least one; each has a path below the validated field, as in :func:`wrong`.
    """
    return PydanticCustomError(RULE, "a rule of the spec", {"problems": tuple(problems)})


def name_or_mapping(model: type[SpecModel]) -> Discriminator:
    """Distinguish a name, tagged ``(name)``, from a mapping with more than the name, tagged ``(mapping)``.

    :param model: the model that the mapping is validated as.
    """
    return Discriminator(lambda value: "(mapping)" if isinstance(value, (Mapping, model)) else "(name)")


def _not_bool(allowed: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        # bool is an int to Python: `num_nodes=True` would mean one node.
        if isinstance(value, bool):
            raise wrong(allowed, "Write the number itself.")
        return value

    return BeforeValidator(check)


#: A finite number, or the text of one: Jinja renders numbers as text, e.g. "0.5".
Number = Annotated[float, Field(allow_inf_nan=False), _not_bool("a number")]
#: A whole number, or the text of one.
Whole = Annotated[int, _not_bool("a whole number")]
#: A number of replicas, or of things that a replica has several of, such as processes; at least 1.
Count = Annotated[Whole, Field(ge=1, le=MOST_REPLICAS)]
#: A time in seconds, more than 0.
Seconds = Annotated[Number, Field(gt=0, le=MOST_INT32)]
